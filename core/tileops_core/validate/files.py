"""Which files to validate, and what is wrong with a file whatever its entries say."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs

from tileops_core.signature.shared_kinds import kind_of
from tileops_core.spans import Span
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.entries import Spec
from tileops_core.spec.generate_index import family_fits
from tileops_core.spec.shared_types import FILE, SharedTypes
from tileops_core.spec.text_files import UnreadableFileError, read_text
from tileops_core.validate.report import Counts, Finding

_INDEX = "index.json"
_SUFFIX = ".yaml"
_LIKE_IT = (".yaml", ".yml")


class Home(enum.Enum):
    """Whose an entry is, and so which code may be run for it."""

    LIBRARY = "the library's"
    INSTALLED = "a backend's, or a class's own"
    FILE = "a file's that nobody installed"


@attrs.frozen
class Entry:
    """An entry to check.

    ``types`` are those of its folder, None for the installed manifest's. ``file`` is the real path
    of its file, ``""`` of an entry that a class states in Python.
    """

    spec: Spec
    path: str
    home: Home
    types: SharedTypes | None = None
    file: str = ""


@attrs.define
class Files:
    """Manifest files read together, as one manifest; a file counts once, whatever leads to it.

    Args:
        home: Whose the entries of a file are, by its real path.
    """

    home: Callable[[str], Home]
    findings: list[Finding] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    entries: list[Entry] = attrs.field(factory=list)
    counts: Counts = attrs.field(factory=Counts)
    _types: dict[str, SharedTypes | None] = attrs.field(factory=dict)
    _seen: dict[str, str] = attrs.field(factory=dict)
    _read: set[str] = attrs.field(factory=set)

    def add(self, path: Path) -> None:
        """Read a file, or every spec file below a folder."""
        before = len(self.findings)
        if os.path.isdir(path):
            index = path / _INDEX
            manifest = os.path.isfile(index)
            inside = self._add_folder(path / "spec" if manifest else path)
            if manifest:
                self._check_index(index, inside)
            holds = any(entry.file in inside for entry in self.entries)
        else:
            holds = self._add_file(path)
        if not holds and len(self.findings) == before:
            # Nothing was checked, which must not look as if all were right.
            what = "folder" if os.path.isdir(path) else "file"
            self._note("empty-file", f"the {what} has no entry", Span(shown(path), 0))

    def add_class(self, source: Any, spec: Spec) -> None:
        """Take an entry that a class states about itself: its attribute ``spec``, and that read."""
        file = os.path.realpath(source) if isinstance(source, (str, os.PathLike)) else ""
        for number, entry in enumerate(self.entries):
            if file and (entry.file, entry.spec.op) == (file, spec.op):
                # The file is read already; that its class is here makes its code one to run.
                if entry.home is Home.FILE:
                    self.entries[number] = attrs.evolve(entry, home=Home.INSTALLED)
                return
        self._check_name(spec, spec.span.path)
        self.entries.append(Entry(spec, spec.span.path, Home.INSTALLED, file=file))

    def _note(self, code: str, message: str, span: Span, hint: str = "", op: str = "") -> None:
        self.findings.append(Finding(code, message, op, span, hint))

    def _unreadable(self, path: Path, error: object) -> None:
        what = "folder" if os.path.isdir(path) else "file"
        self._note("file-unreadable", f"the {what} cannot be read: {error}", Span(shown(path), 0))

    # -- which files ----------------------------------------------------------------------

    def _add_folder(self, folder: Path) -> set[str]:
        """Read what looks like a spec file below a folder; the real paths of all of them.

        A link to a folder is not followed: it may lead above, or to all of a disk.
        """
        found: set[str] = set()
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            try:
                names = sorted(os.listdir(here))
            except OSError as error:
                self._unreadable(here, error.strerror)
                continue
            folders = []
            for path in [here / name for name in names]:
                if not os.path.isdir(path):
                    if path.suffix.lower() in _LIKE_IT:
                        found.add(os.path.realpath(path))
                        self._add_file(path)
                elif os.path.islink(path):
                    self.notes.append(f"{shown(path)} is a link to a folder and was not followed")
                else:
                    folders.append(path)
            waiting += reversed(folders)
        return found

    def _add_file(self, path: Path) -> bool:
        """Read a file unless it has been; whether it has entries, or types that they share."""
        name, real = shown(path), os.path.realpath(path)
        if real in self._read:
            return True
        self._read.add(real)
        stem = path.stem
        types = self._types_beside(path)
        if path.name == FILE:
            return bool(types and types.names)
        self.counts.files += 1
        try:
            text = read_text(path)
        except UnreadableFileError as error:
            self._unreadable(path, error)
            return False
        if path.suffix != _SUFFIX:
            self._note(
                "file-suffix",
                f"a spec file's name ends in {_SUFFIX}, so nobody finds this one",
                Span(name, 0),
                f"call it {stem}{_SUFFIX}",
            )
        if f"{stem}{_SUFFIX}" == FILE:
            return False
        file = ManifestFile(name, text)
        # A key that stands twice is told with its entry, which knows its own name.
        told = {(problem.code, problem.message) for problem in file.problems}
        self.findings += map(Finding.of, file.problems)
        home = self.home(real)
        for op in file.ops:
            spec = file.load(op)
            kept = tuple(p for p in spec.problems if (p.code, p.message) not in told)
            self._check_name(spec, name)
            self._check_file(spec, f"{stem}{_SUFFIX}", path.name)
            self.entries.append(Entry(attrs.evolve(spec, problems=kept), name, home, types, real))
        return bool(file.ops)

    def _types_beside(self, path: Path) -> SharedTypes | None:
        """The types of a file's folder, checked when the first file of it is read."""
        folder = os.path.realpath(path.parent)
        if folder not in self._types:
            file = path.parent / FILE
            self._types[folder] = self._read_types(file) if os.path.lexists(file) else None
        return self._types[folder]

    def _read_types(self, file: Path) -> SharedTypes | None:
        self.counts.files += 1
        try:
            text = read_text(file)
        except UnreadableFileError as error:
            self._unreadable(file, error)
            return None
        types = SharedTypes(lambda: text, shown(file))
        found = list(types.problems)
        for declared in map(types.get, types.names):
            found += kind_of(declared)[1] if declared is not None else ()
        self.findings += map(Finding.of, found)
        self.counts.types += len(types.names)
        return types

    # -- what is wrong with them ----------------------------------------------------------

    def _check_name(self, spec: Spec, path: str) -> None:
        if spec.op in self._seen and self._seen[spec.op] != path:
            self._note(
                "duplicate-op",
                f"{spec.op} stands in {self._seen[spec.op]} too",
                spec.span,
                op=spec.op,
            )
        self._seen.setdefault(spec.op, path)

    def _check_file(self, spec: Spec, due: str, file: str) -> None:
        """What a file's name, and that of the op in it, must be; ``due`` has the right suffix."""
        if not spec.op.endswith(("FwdOp", "BwdOp")):
            self._note(
                "op-name",
                f"{spec.op} ends in neither FwdOp nor BwdOp",
                spec.span,
                "say in the name which direction the op computes",
                spec.op,
            )
        if spec.family and not family_fits(spec.family, due):
            self._note(
                "file-family",
                f"{spec.op} is of family {spec.family!r}, its file is {file}",
                spec.span,
                "name the file after the family: <family>.yaml or <family>_<shard>.yaml",
                spec.op,
            )

    def _check_index(self, index: Path, inside: Iterable[str]) -> None:
        span = Span(shown(index), 0)
        remedy = "run python -m tileops_core.spec.generate_index"
        try:
            held = json.loads(read_text(index))["ops"]
            held = {str(op): row for op, row in held.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._note("stale-data", f"the index cannot be read: {error}", span, remedy)
            return
        files = set(inside)
        due = {
            entry.spec.op: {
                "family": entry.spec.family,
                "file": Path(entry.path).name,
                "status": entry.spec.status,
            }
            for entry in self.entries
            if entry.file in files and entry.path.endswith(_SUFFIX)
        }
        for op in sorted(held.keys() | due.keys()):
            if held.get(op) != due.get(op):
                self._note(
                    "stale-data", f"the index does not say of {op} what its entry says", span,
                    remedy, op,
                )  # fmt: skip


def shown(path: Path) -> str:
    """A path as messages show it: from here, if it lies below here. A link has its own name."""
    absolute = os.path.abspath(path)
    here = os.getcwd()
    below = os.path.relpath(absolute, here)
    if below == os.curdir or below.split(os.sep)[0] != os.pardir:
        return Path(below).as_posix()
    return os.fspath(path)
