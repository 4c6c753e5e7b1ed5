"""What a program module hands over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen
class Program:
    """A TileLang function over rows, and how it is called.

    The function goes over the rows ``begin`` to ``begin + count``; those two are int32 parameters
    of every function. Outputs are fresh memory that no input shares.

    Attributes:
        func: the function.
        tensors: names of its tensors, in the order in which a call passes them.
        scalars: names and dtypes of its other parameters, dimensions included, in call order.
        constants: float32 parameters with a fixed value, for numbers that do not survive being
            printed into the program (:func:`~tileops_tilelang.programs.constants.constant`).
        rows: name of the dimension that is the number of rows, where the function has one.
    """

    func: Any
    tensors: tuple[str, ...]
    scalars: tuple[tuple[str, str], ...]
    constants: Mapping[str, float] = {}
    rows: str = "M"
