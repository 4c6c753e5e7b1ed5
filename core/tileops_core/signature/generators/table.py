"""All generators of metadata."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops_core.signature.generators.attention import ATTENTION
from tileops_core.signature.generators.model import Generator
from tileops_core.signature.generators.moe import MOE
from tileops_core.signature.generators.sequences import SEQUENCES

GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {item.name: item for item in (*SEQUENCES, *ATTENTION, *MOE)}
)
"""Every generator by its name."""
