"""How workload rows fill metadata tensors: a fixed set of generators.

A generator is named in an input's ``values``. It gives nested Python ints, which depend on its
arguments and the workload's seed and on nothing else; the dtype is the input's own. Shapes stand in
the docstrings of the functions, ``[rows, columns]`` after the arguments' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops_core.signature.generators.attention import ATTENTION
from tileops_core.signature.generators.model import Generator, Nested
from tileops_core.signature.generators.moe import MOE
from tileops_core.signature.generators.sequences import SEQUENCES

__all__ = ["GENERATORS", "Generator", "Nested"]

GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {item.name: item for item in (*SEQUENCES, *ATTENTION, *MOE)}
)
"""Every generator by its name."""
