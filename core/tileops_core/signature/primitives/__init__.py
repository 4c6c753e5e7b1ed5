"""The functions of the expression language, a fixed set."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops_core.signature.primitives.core import CORE, bytes_of
from tileops_core.signature.primitives.families import FAMILY
from tileops_core.signature.primitives.model import (
    Argument,
    Primitive,
    PrimitiveError,
    joined_number,
    usage,
)
from tileops_core.signature.primitives.shapes import SHAPES

__all__ = [
    "PRIMITIVES",
    "Argument",
    "Primitive",
    "PrimitiveError",
    "bytes_of",
    "joined_number",
    "usage",
]

PRIMITIVES: Mapping[str, Primitive] = MappingProxyType(
    {p.name: p for p in (*SHAPES, *CORE, *FAMILY)}
)
"""Every primitive by its name."""
