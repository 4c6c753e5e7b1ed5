"""Lengths that are symbols, as a traced call has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


class Symbols:
    """Makes symbolic ints that know a number to try, each of one call a symbol of its own.

    Calls share their symbols, because it takes long to make one, and to find out about what is
    computed of it. So a symbol stands for another length in each call, and nothing that a call asks
    may settle it: inside :meth:`of_call` answers are given and not remembered.
    """

    def __init__(self) -> None:
        self._env = ShapeEnv()
        self._made: list[tuple[Any, ConstantSource]] = []

    @contextmanager
    def of_call(self) -> Iterator[Callable[[int], Any]]:
        """Gives what makes a symbol for each length of one call."""
        count = 0

        def of(length: int) -> Any:
            nonlocal count
            count += 1
            symbol, source = self._symbol(count)
            return self._env.create_symintnode(symbol, hint=length, source=source)

        with self._env.suppress_guards():
            yield of

    def _symbol(self, number: int) -> tuple[Any, ConstantSource]:
        """The so-many-eth symbol of each call."""
        if number > len(self._made):
            source = ConstantSource(f"n{number}")
            symbol = self._env.create_symbol(2, source, DimDynamic.DYNAMIC)  # any number does
            self._made.append((symbol, source))
        return self._made[number - 1]


@functools.cache
def shared() -> Symbols:
    """The symbols of all calls of this process."""
    return Symbols()
