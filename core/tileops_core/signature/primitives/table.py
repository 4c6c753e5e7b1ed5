"""All functions of the expression language."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops_core.signature.primitives.core import CORE
from tileops_core.signature.primitives.families import FAMILY
from tileops_core.signature.primitives.model import Primitive
from tileops_core.signature.primitives.shapes import SHAPES

PRIMITIVES: Mapping[str, Primitive] = MappingProxyType(
    {p.name: p for p in (*SHAPES, *CORE, *FAMILY)}
)
"""Every primitive by its name."""
