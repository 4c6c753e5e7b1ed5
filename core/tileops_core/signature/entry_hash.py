"""What an entry means for a call, as a few digits."""

from __future__ import annotations

import hashlib
from typing import Any

import attrs

from tileops_core.signature.model import Signature

_PARTS = (
    "indices", "params", "inputs", "outputs", "lets", "rules", "roofline", "adts", "dtype_combos",
    "composition",
)  # fmt: skip


def entry_hash(signature: Signature) -> str:
    """16 hex digits that change whenever what the entry means for a call changes.

    Comments, layout, workload rows, the reference API and the status are no part of it.
    """
    parts = (
        signature.op,
        *(_meaning(getattr(signature, name)) for name in _PARTS),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


_NO_MEANING = frozenset({"span", "dtype_span", "shape_span", "dtype_text", "shape_text", "text",
                         "annotation", "values"})  # fmt: skip
_FIELDS: dict[type, tuple[str, ...] | None] = {}  # None of what is no class of attrs


def _meaning(value: Any) -> str:
    """A value without places and spellings, as text."""
    if isinstance(value, tuple):
        return f"({','.join(map(_meaning, value))})"
    kind = type(value)
    if kind not in _FIELDS:  # attrs takes long to tell
        fields = attrs.fields(kind) if attrs.has(kind) else None
        _FIELDS[kind] = fields and tuple(f.name for f in fields if f.name not in _NO_MEANING)
    names = _FIELDS[kind]
    if names is None:
        return repr(value)
    return f"{kind.__name__}({','.join([_meaning(getattr(value, name)) for name in names])})"
