"""Which files to validate, and what is wrong with a file whatever its entries say."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Iterable
from pathlib import Path

import attrs

from tileops_core.signature.shared_kinds import kind_of
from tileops_core.spans import Span
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.entries import Spec
from tileops_core.spec.generate_index import family_fits
from tileops_core.spec.shared_types import FILE, SharedTypes
from tileops_core.validate.report import Finding

_INDEX = "index.json"


class Home(enum.Enum):
    """Whose an entry is, and so which code may be run for it."""

    LIBRARY = "the library's"
    INSTALLED = "a backend's, or a class's own"
    FILE = "a file's that nobody installed"


@attrs.frozen
class Entry:
    """An entry to check.

    ``types`` are those of its folder, None for the installed manifest's.
    """

    spec: Spec
    path: str
    home: Home
    types: SharedTypes | None = None


@attrs.define
class Files:
    """Manifest files read together, as one manifest."""

    findings: list[Finding] = attrs.field(factory=list)
    entries: list[Entry] = attrs.field(factory=list)
    count: int = 0
    _types: dict[Path, SharedTypes | None] = attrs.field(factory=dict)
    _seen: dict[str, str] = attrs.field(factory=dict)

    def add(self, path: Path, home: Home) -> None:
        """Read a file, or all ``*.yaml`` below a folder."""
        if path.is_dir():
            root = path / "spec" if (path / _INDEX).is_file() else path
            found = sorted(root.rglob("*.yaml"))
            if not found:
                self._note("empty-file", f"{shown(path)} has no *.yaml file", Span(shown(path), 1))
            first = len(self.entries)
            for file in found:
                self._read(file, home)
            if (path / _INDEX).is_file():
                self._check_index(path / _INDEX, self.entries[first:])
        else:
            self._read(path, home)

    def add_spec(self, spec: Spec, home: Home) -> None:
        """Take an entry that a class states about itself."""
        self.entries.append(Entry(spec, spec.span.path, home))

    def _note(self, code: str, message: str, span: Span, hint: str = "", op: str = "") -> None:
        self.findings.append(Finding(code, message, op, span, hint))

    def _read(self, path: Path, home: Home) -> None:
        name = shown(path)
        types = self._types_beside(path)
        if path.name == FILE:
            return
        self.count += 1
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            self._note("file-unreadable", f"{name} cannot be read: {error}", Span(name, 1))
            return
        file = ManifestFile(name, text)
        # A key that stands twice is told with its entry, which knows its own name.
        told = {(problem.code, problem.message) for problem in file.problems}
        for problem in file.problems:
            self.findings.append(Finding.of(problem))
        if not file.ops and not told:
            self._note("empty-file", f"{name} has no entry", Span(name, 1))
        for op in file.ops:
            spec = file.load(op)
            kept = tuple(p for p in spec.problems if (p.code, p.message) not in told)
            self._check_entry(spec, path.name, name)
            self.entries.append(Entry(attrs.evolve(spec, problems=kept), name, home, types))

    def _types_beside(self, path: Path) -> SharedTypes | None:
        """The types of a file's folder, checked when the first file of it is read."""
        folder = path.parent
        if folder not in self._types:
            file = folder / FILE
            self._types[folder] = self._read_types(file) if file.is_file() else None
        return self._types[folder]

    def _read_types(self, file: Path) -> SharedTypes | None:
        name = shown(file)
        self.count += 1
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            self._note("file-unreadable", f"{name} cannot be read: {error}", Span(name, 1))
            return None
        types = SharedTypes(lambda: text, name)
        found = list(types.problems)
        for declared in map(types.get, types.names):
            found += kind_of(declared)[1] if declared is not None else ()
        self.findings += [Finding.of(problem) for problem in found]
        return types

    def _check_entry(self, spec: Spec, file: str, path: str) -> None:
        if spec.op in self._seen and self._seen[spec.op] != path:
            self._note(
                "duplicate-op",
                f"{spec.op} stands in {self._seen[spec.op]} too",
                spec.span,
                op=spec.op,
            )
        self._seen.setdefault(spec.op, path)
        if not spec.op.endswith(("FwdOp", "BwdOp")):
            self._note(
                "op-name",
                f"{spec.op} ends in neither FwdOp nor BwdOp",
                spec.span,
                "say in the name which direction the op computes",
                spec.op,
            )
        if spec.family and not family_fits(spec.family, file):
            self._note(
                "file-family",
                f"{spec.op} is of family {spec.family!r}, its file is {file}",
                spec.span,
                "name the file after the family: <family>.yaml or <family>_<shard>.yaml",
                spec.op,
            )

    def _check_index(self, index: Path, entries: Iterable[Entry]) -> None:
        span = Span(shown(index), 1)
        remedy = "run python -m tileops_core.spec.generate_index"
        try:
            held = json.loads(index.read_text(encoding="utf-8"))["ops"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._note("stale-data", f"{shown(index)} cannot be read: {error}", span, remedy)
            return
        due = {
            entry.spec.op: {
                "family": entry.spec.family,
                "file": Path(entry.path).name,
                "status": entry.spec.status,
            }
            for entry in entries
        }
        for op in sorted(held.keys() | due.keys()):
            if held.get(op) != due.get(op):
                self._note(
                    "stale-data", f"the index does not say of {op} what its entry says", span,
                    remedy, op,
                )  # fmt: skip


def shown(path: Path) -> str:
    """A path as messages show it: from here, if it lies below here."""
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return os.fspath(path)
