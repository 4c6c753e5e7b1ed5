"""Which op stands in which file, and one op's entry, read when somebody asks for it."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Mapping
from typing import Any

import attrs
import yaml

from tileops_core.by_fields import ShownByFields
from tileops_core.errors import ManifestError
from tileops_core.spans import Span
from tileops_core.spec.entries import Spec
from tileops_core.spec.problems import Problem, Problems, manifest_error
from tileops_core.spec.python_nodes import given_entry
from tileops_core.spec.reader import may_be_entry, read_entry
from tileops_core.spec.shared_types import FILE, SharedTypes
from tileops_core.spec.text_files import UnreadableFileError, read_text
from tileops_core.spec.yaml_nodes import (
    NOT_YAML,
    Source,
    compose,
    convert,
    key_of,
    refuse_mark,
    syntax_problem,
)
from tileops_core.suggest import did_you_mean


class ManifestFile:
    """One file's text, cut into entries; an entry is read when it is asked for.

    Args:
        path: What messages call the file; its last component says which families fit.
        text: The file's content.
    """

    def __init__(self, path: str, text: str) -> None:
        self.source = Source(path, text)
        self.problems: list[Problem] = []
        self._raw: dict[str, _Raw] = {}
        self._again: dict[str, Problem] = {}
        try:
            self._keep(self.source, compose(self.source))
        except NOT_YAML as error:
            self._keep_pieces(error)

    @property
    def ops(self) -> tuple[str, ...]:
        """The keys of the file's entries, in its order."""
        return tuple(self._raw)

    def has_entry(self, op: str) -> bool:
        """Whether what stands below a key among :attr:`ops` can be an entry."""
        value = self._raw[op].value
        if not isinstance(value, yaml.MappingNode):
            return False
        return may_be_entry(op, (str(key.value) for key, _ in value.value))

    def load(self, op: str) -> Spec:
        """The entry of an op that is among :attr:`ops`; its problems are on the Spec."""
        raw = self._raw[op]
        problems = Problems([self._again[op]] if op in self._again else ())
        if isinstance(raw.value, Problem):
            problems.add(raw.value.code, raw.value.message, raw.value.span, raw.value.hint)
            return read_entry(op, None, raw.key, problems)
        return read_entry(op, convert(raw.source, raw.value, problems), raw.key, problems)

    def _keep(self, source: Source, root: Any) -> None:
        problems = Problems()
        if root is not None and not _begins_with_a_key(root):
            refuse_mark(source, root, problems)
        self.problems.extend(problems)
        if root is None or not isinstance(root, yaml.MappingNode):
            line = source.line(0)
            span = source.span(0, 0, len(line))
            message = "the file is no mapping of op names to entries"
            self.problems.append(Problem("empty-file", message, span))
            return
        for raw_key, raw in root.value:
            problems = Problems()
            key = key_of(source, raw_key, problems)
            self.problems.extend(problems)
            if key is None:
                continue
            # The key alone, without what surrounds it: quotes are no part of the name.
            span = attrs.evolve(key.span, length=len(key.text))
            if key.text in self._raw:
                message = f"{key.text} stands twice in the file"
                self.problems.append(Problem("duplicate-key", message, span))
                self._again[key.text] = self.problems[-1]
            else:
                self._raw[key.text] = _Raw(source, span, raw)

    def _keep_pieces(self, whole: Exception) -> None:
        """Read a file that is not YAML as a whole entry by entry, so that one fault stays one."""
        lines, told = self.source.lines, len(self.problems)
        problem = syntax_problem(whole, self.source)
        if _is_document_mark(problem.span.text):
            self.problems.append(problem)
        cuts = [n for n, line in enumerate(lines) if _begins(line) or _is_document_mark(line)]
        for start, stop in itertools.pairwise([*cuts, len(lines)]):
            if not _begins(lines[start]):
                continue
            piece = Source(self.source.path, "\n".join(lines[start:stop]), start)
            try:
                self._keep(piece, compose(piece))
            except NOT_YAML as error:
                found = syntax_problem(error, piece)
                name = lines[start].split(":")[0].strip("\"' ")
                self.problems.append(found)
                self._raw.setdefault(name, _Raw(piece, piece.span(0, 0, len(name)), found))
        if len(self.problems) == told:  # what is wrong stands between the entries
            self.problems.append(problem)


@attrs.frozen(slots=True, eq=False, repr=False)
class _Raw(ShownByFields):
    """An entry that nobody has asked for: its text, its key's place, and its node or its fault."""

    source: Source
    key: Span
    value: Any


def _begins_with_a_key(root: Any) -> bool:
    """Whether a mapping has no sign of its own before its first key, whose sign may stand there."""
    keys = [key for key, _ in root.value] if isinstance(root, yaml.MappingNode) else []
    first = keys[0].start_mark if keys else None
    here = root.start_mark
    return first is not None and (first.line, first.column) == (here.line, here.column)


def _begins(line: str) -> bool:
    """Whether an entry may begin with this line."""
    return (line[:1].isalpha() or line[:1] in ("'", '"')) and ":" in line


def _is_document_mark(line: str) -> bool:
    """Whether a line ends a document or begins one."""
    return line.rstrip() in ("---", "...") or line.startswith(("--- ", "... "))


class Catalogue:
    """The installed manifest: an index, and files read at most once each.

    Args:
        root: The package's folder, a path or an importlib resource, with ``index.json`` and
            ``spec/``.

    Attributes:
        types: The types that its entries share.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._index: Mapping[str, Mapping[str, str]] | None = None
        self._files: dict[str, ManifestFile] = {}
        self._specs: dict[str, Spec] = {}
        self.types = SharedTypes(self._types_text)

    def _types_text(self) -> str:
        return str((self._root / "spec" / FILE).read_text(encoding="utf-8"))

    def index(self) -> Mapping[str, Mapping[str, str]]:
        """Op name to ``family``, ``file`` and ``status``."""
        if self._index is None:
            text = (self._root / "index.json").read_text(encoding="utf-8")
            self._index = json.loads(text)["ops"]
        return self._index

    def load(self, op: str) -> Spec:
        """An op's entry.

        Raises:
            ManifestError: When no entry has that name, or its file lacks it.
        """
        spec = self._specs.get(op)
        if spec is not None:
            return spec
        with self._lock:
            if op not in self._specs:
                self._specs[op] = self._read(op)
            return self._specs[op]

    def _read(self, op: str) -> Spec:
        index = self.index()
        if op not in index:
            raise ManifestError(f"{op}: no entry has this name{did_you_mean(op, index)}")
        name = index[op]["file"]
        if name not in self._files:
            text = (self._root / "spec" / name).read_text(encoding="utf-8")
            self._files[name] = ManifestFile(name, text)
        file = self._files[name]
        if op not in file.ops:
            raise ManifestError(
                f"{op}: the manifest's index says {name}, which has no such entry; "
                "run python -m tileops_core.spec.generate_index",
                problems=tuple(file.problems),
            )
        return file.load(op)


_installed: Catalogue | None = None
_installed_lock = threading.Lock()


def installed() -> Catalogue:
    """The catalogue of the installed ``tileops-manifest`` distribution."""
    global _installed
    if _installed is None:
        from importlib.resources import files

        with _installed_lock:
            if _installed is None:
                _installed = Catalogue(files("tileops_manifest"))
    return _installed


def known_ops() -> frozenset[str]:
    """The names of all entries."""
    return frozenset(installed().index())


def family_of(op: str) -> str | None:
    """The public module of an op, or None when no entry has that name."""
    row = installed().index().get(op)
    return row["family"] if row else None


def status_of(op: str) -> str | None:
    """``implemented`` or ``spec-only``, or None when no entry has that name."""
    row = installed().index().get(op)
    return row["status"] if row else None


def shared_types() -> SharedTypes:
    """The types that entries share, of the installed manifest; entries outside it use them too."""
    return installed().types


def load_spec(op: str) -> Spec:
    """An op's entry, parsed at most once in a process.

    What is wrong with the entry is on ``Spec.problems``; building its signature raises it.

    Raises:
        ManifestError: When no entry has that name.
    """
    return installed().load(op)


def load_spec_from(source: Any, op: str) -> Spec:
    """The entry that a class outside the core states about itself.

    Args:
        source: The entry as a mapping, or the path of a YAML file that holds an entry ``op``.
        op: The class's name.

    What is wrong with the entry is on ``Spec.problems``; building its signature raises it.

    Raises:
        ManifestError: When the source cannot be read, or holds no entry of that name.
    """
    if isinstance(source, Mapping):
        problems = Problems()
        node, span = given_entry(op, source, problems)
        return read_entry(op, node, span, problems)
    if not isinstance(source, (str, os.PathLike)):
        raise ManifestError(f"{op}: spec is {source!r}, a mapping or the path of a file is due")
    try:
        file = ManifestFile(os.fspath(source), read_text(source))
    except UnreadableFileError as error:
        raise ManifestError(f"{op}: no entry can be read from {source!r}: {error}") from error
    if op not in file.ops:
        if file.problems:
            raise manifest_error(op, file.problems)
        raise ManifestError(
            f"{op}: {file.source.path} has no entry of that name{did_you_mean(op, file.ops)}"
        )
    return file.load(op)
