"""Lengths that are symbols, as a traced call has them."""

from __future__ import annotations

from typing import Any

from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


class Symbols:
    """Makes symbolic ints that know a number to try, each a symbol of its own."""

    def __init__(self) -> None:
        self._env = ShapeEnv()
        self._count = 0

    def of(self, length: int) -> Any:
        """A symbol that stands for a length."""
        self._count += 1
        source = ConstantSource(f"n{self._count}")
        symbol = self._env.create_symbol(length, source, DimDynamic.DYNAMIC)
        return self._env.create_symintnode(symbol, hint=length, source=source)
