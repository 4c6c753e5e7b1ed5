"""Which op stands in which file, and one op's entry, read when somebody asks for it."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tileops_core.errors import ManifestError
from tileops_core.spans import Span
from tileops_core.spec.entries import Spec
from tileops_core.spec.problems import Problem, Problems, manifest_error
from tileops_core.spec.reader import read_entry
from tileops_core.spec.shared_types import FILE, SharedTypes
from tileops_core.spec.yaml_nodes import Source, compose, convert, key_of
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
        self._raw: dict[str, tuple[Any, Any]] = {}
        self._again: dict[str, Problem] = {}
        try:
            self._keep(compose(self.source))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            self._keep_pieces(error)

    @property
    def ops(self) -> tuple[str, ...]:
        """The keys of the file's entries, in its order."""
        return tuple(self._raw)

    def load(self, op: str) -> Spec:
        """The entry of an op that is among :attr:`ops`; its problems are on the Spec."""
        raw_key, raw = self._raw[op]
        problems = Problems([self._again[op]] if op in self._again else ())
        mark = raw_key.start_mark
        span = Span(
            self.source.path, mark.line + 1, mark.column + 1, len(op), self.source.line(mark.line)
        )
        if isinstance(raw, Exception):
            problems.add("yaml-syntax", _sentence(raw), _span_of(raw, self.source) or span)
            return read_entry(op, None, span, problems)
        return read_entry(op, convert(self.source, raw, problems), span, problems)

    def _keep(self, root: Any) -> None:
        if root is None or not isinstance(root, yaml.MappingNode):
            self._note("empty-file", "the file is no mapping of op names to entries", 1)
            return
        for raw_key, raw in root.value:
            problems = Problems()
            key = key_of(self.source, raw_key, problems)
            self.problems.extend(problems)
            if key is None:
                continue
            if key.text in self._raw:
                self._note("duplicate-key", f"{key.text} stands twice in the file", key.span.line)
                self._again[key.text] = self.problems[-1]
            else:
                self._raw[key.text] = (raw_key, raw)

    def _keep_pieces(self, whole: Exception) -> None:
        """Read a file that is not YAML as a whole entry by entry, so that one fault stays one."""
        lines = self.source.lines
        starts = [n for n, line in enumerate(lines) if line[:1].isalpha() and ":" in line]
        for start, stop in itertools.pairwise([*starts, len(lines)]):
            piece = "\n" * start + "\n".join(lines[start:stop])
            try:
                self._keep(compose(Source(self.source.path, piece)))
            except (yaml.YAMLError, ValueError, RecursionError) as error:
                name = lines[start].split(":")[0].strip()
                self._raw.setdefault(name, (_Key(start), error))
                self._note("yaml-syntax", _sentence(error), _line_of(error, start))
        if not starts:
            self._note("yaml-syntax", _sentence(whole), _line_of(whole, 0))

    def _note(self, code: str, message: str, line: int) -> None:
        text = self.source.line(line - 1)
        span = Span(self.source.path, line, 1, max(1, len(text)), text)
        self.problems.append(Problem(code, message, span))


class _Key:
    """Stands in for the key's node of an entry that YAML could not read."""

    def __init__(self, line: int) -> None:
        self.start_mark = self
        self.line = line
        self.column = 0


def _sentence(error: Exception) -> str:
    problem = getattr(error, "problem", None)
    return f"the text is not YAML: {problem or error}"


def _span_of(error: Exception, source: Source) -> Span | None:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return None
    return Span(source.path, mark.line + 1, mark.column + 1, 1, source.line(mark.line))


def _line_of(error: Exception, otherwise: int) -> int:
    mark = getattr(error, "problem_mark", None)
    return (mark.line if mark else otherwise) + 1


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

    Raises:
        ManifestError: When the source cannot be read, or holds no entry of that name.
    """
    if isinstance(source, Mapping):
        file = ManifestFile(f"<spec of {op}>", _text_of(source, op))
    elif isinstance(source, (str, os.PathLike)):
        try:
            file = ManifestFile(os.fspath(source), Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ManifestError(f"{op}: no entry can be read from {source!r}: {error}") from error
    else:
        raise ManifestError(f"{op}: spec is {source!r}, a mapping or the path of a file is due")
    if op not in file.ops:
        if file.problems:
            raise manifest_error(op, file.problems)
        raise ManifestError(
            f"{op}: {file.source.path} has no entry of that name{did_you_mean(op, file.ops)}"
        )
    return file.load(op)


def _text_of(entry: Mapping[str, Any], op: str) -> str:
    """An entry given in Python as the text that it would be, so that messages can show it."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    try:
        return yaml.dump({op: _plain(entry)}, Dumper=Dumper, sort_keys=False, width=10**6)
    except (yaml.YAMLError, RecursionError) as error:
        raise ManifestError(f"{op}: spec is not made of plain values: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
