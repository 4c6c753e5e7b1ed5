"""Entries that use what few ops need, as text; see hard_entries.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.entries import Spec

PATH = Path(__file__).with_suffix(".yaml")


@cache
def file() -> ManifestFile:
    """The file, its entries not read yet."""
    return ManifestFile(PATH.name, PATH.read_text(encoding="utf-8"))


OPS = file().ops


def spec(op: str) -> Spec:
    """One entry."""
    return file().load(op)


@cache
def signature(op: str) -> Signature:
    """One entry's signature."""
    return build_signature(spec(op))
