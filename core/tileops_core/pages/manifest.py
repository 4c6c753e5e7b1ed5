"""The entries of a manifest's folder, file by file, with what their authors say about them."""

from __future__ import annotations

from pathlib import Path

import attrs

from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.comments import Comments
from tileops_core.spec.entries import Spec
from tileops_core.spec.shared_types import FILE, SharedTypes
from tileops_core.spec.yaml_nodes import Source


@attrs.frozen
class Entry:
    """An op's entry and its signature."""

    spec: Spec
    signature: Signature
    comments: Comments = attrs.field(eq=False)

    @property
    def op(self) -> str:
        """The op's name."""
        return self.signature.op

    @property
    def mathematics(self) -> tuple[str, ...]:
        """The comment at the head of the entry."""
        return self.comments.below(self.signature.span.line)


@attrs.frozen
class File:
    """A file and its entries, in their order."""

    name: str
    introduction: tuple[str, ...]
    entries: tuple[Entry, ...]


@attrs.frozen
class Family:
    """The files of a family: the one of its own name first, then by their names."""

    name: str
    files: tuple[File, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries of all files."""
        return tuple(entry for file in self.files for entry in file.entries)


@attrs.frozen
class Manifest:
    """All families, by their names, and the types that entries share."""

    families: tuple[Family, ...]
    types: SharedTypes
    types_comments: Comments = attrs.field(eq=False)

    @property
    def homes(self) -> dict[str, str]:
        """The family of each op."""
        return {entry.op: family.name for family in self.families for entry in family.entries}


def read_manifest(folder: Path) -> Manifest:
    """Read a folder of files as the installed manifest's ``spec``.

    Raises:
        ManifestError: An entry is wrong.
    """
    families: dict[str, list[File]] = {}
    text = (folder / FILE).read_text(encoding="utf-8")
    types = SharedTypes(lambda: text)
    for path in sorted(folder.glob("*.yaml"), key=lambda path: path.stem):
        if path.name != FILE:
            file = _file(path, types)
            families.setdefault(file.entries[0].signature.family, []).append(file)
    return Manifest(
        families=tuple(Family(name, tuple(families[name])) for name in sorted(families)),
        types=types,
        types_comments=Comments(Source(FILE, text)),
    )


def _file(path: Path, types: SharedTypes) -> File:
    file = ManifestFile(path.name, path.read_text(encoding="utf-8"))
    comments = Comments(file.source)
    specs = [file.load(op) for op in file.ops]
    entries = tuple(Entry(spec, build_signature(spec, types), comments) for spec in specs)
    return File(path.name, comments.at_top(), entries)
