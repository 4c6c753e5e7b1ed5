"""The functions of the expression language, a fixed set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.lazily import lazily

if TYPE_CHECKING:
    from tileops_core.signature.primitives.core import bytes_of
    from tileops_core.signature.primitives.model import (
        Argument,
        Primitive,
        PrimitiveError,
        joined_number,
        usage,
    )
    from tileops_core.signature.primitives.table import PRIMITIVES

__all__ = [
    "PRIMITIVES",
    "Argument",
    "Primitive",
    "PrimitiveError",
    "bytes_of",
    "joined_number",
    "usage",
]

_HOMES = {
    "PRIMITIVES": "signature.primitives.table",
    "Argument": "signature.primitives.model",
    "Primitive": "signature.primitives.model",
    "PrimitiveError": "signature.primitives.model",
    "bytes_of": "signature.primitives.core",
    "joined_number": "signature.primitives.model",
    "usage": "signature.primitives.model",
}

if not TYPE_CHECKING:  # or a checker would take every name for one that is there
    __getattr__, __dir__ = lazily(__name__, _HOMES)
