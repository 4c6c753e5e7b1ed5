"""Runs of elements along a row: what a program reads from and writes to."""

from __future__ import annotations

from typing import Any

import attrs
import tilelang.language as T

from tileops_tilelang.programs.elements import Element


@attrs.frozen
class Columns:
    """So many columns. Wrapped, because a macro would rename a bare dimension."""

    count: Any


@attrs.frozen
class Strip:
    """The elements ``buffer[*at, start + step * column]``.

    Attributes:
        buffer: the tensor inside the program.
        element: how its elements are read and written.
        at: the indices before the last.
        start: where column 0 stands on the last axis.
        step: how far columns are apart.
    """

    buffer: Any
    element: Element
    at: tuple[Any, ...] = ()
    start: Any = 0
    step: int = 1

    def index(self, column: Any) -> list[Any]:
        """Where a column stands."""
        return [*self.at, self.start + self.step * column]

    def address(self, column: Any) -> Any:
        """The address of a column's element."""
        return T.address_of(self.buffer[tuple(self.index(column))])

    def read(self, column: Any) -> Any:
        """A column's element as a float32."""
        return self.element.read(self.buffer[tuple(self.index(column))])

    def write(self, column: Any, value: Any) -> None:
        """Store a float32 as a column's element."""
        T.buffer_store(self.buffer, self.element.write(value), self.index(column))

    @property
    def in_blocks(self) -> bool:
        """Whether whole blocks of it are converted at once."""
        return self.element.blocks is not None and self.step == 1
