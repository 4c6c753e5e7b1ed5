"""How workload rows fill metadata tensors: a fixed set of generators.

A generator is named in an input's ``values``. It gives nested Python ints, which depend on its
arguments and the workload's seed and on nothing else; the dtype is the input's own. Shapes stand in
the docstrings of the functions, ``[rows, columns]`` after the arguments' names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.lazily import lazily

if TYPE_CHECKING:
    from tileops_core.signature.generators.model import Generator, Nested
    from tileops_core.signature.generators.table import GENERATORS

__all__ = ["GENERATORS", "Generator", "Nested"]

_HOMES = {
    "GENERATORS": "signature.generators.table",
    "Generator": "signature.generators.model",
    "Nested": "signature.generators.model",
}

if not TYPE_CHECKING:  # or a checker would take every name for one that is there
    __getattr__, __dir__ = lazily(__name__, _HOMES)
