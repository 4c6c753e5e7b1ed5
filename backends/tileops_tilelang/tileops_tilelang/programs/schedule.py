"""What programs are written over: the ways through rows and columns, whatever the target.

A program says what happens to a row: totals over its columns, then something to store for each
column. A schedule says how a target does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tileops_tilelang.programs.elements import Element
from tileops_tilelang.programs.strips import Columns, Strip


class Schedule(Protocol):
    """The forms of one target. All arithmetic is float32's.

    Attributes:
        rereads: whether a row may be read that an ``each`` before wrote.
    """

    rereads: bool

    def element(self, dtype: str) -> Element:
        """How elements of a tensor are read and written."""

    def rows(self, count: Any) -> Any:
        """A context whose body runs once per row, in no particular order."""

    def cell(self) -> Any:
        """A float32 of a row, read and written as ``cell[0]``."""

    def place(self) -> Any:
        """An int32 of a row, read and written as ``place[0]``."""

    def total(
        self, cell: Any, columns: Columns, reads: Sequence[Strip], value: Callable[..., Any]
    ) -> None:
        """``cell[0]`` becomes the sum of ``value(*elements)`` over the columns."""

    def greatest(self, cell: Any, columns: Columns, reads: Sequence[Strip]) -> None:
        """``cell[0]`` becomes the maximum of a strip, NaN if there is one, -inf if it is empty."""

    def first(
        self,
        place: Any,
        columns: Columns,
        reads: Sequence[Strip],
        holds: Callable[..., Any],
    ) -> None:
        """``place[0]`` becomes the first column where ``holds(*elements)``, else the largest."""

    def each(
        self,
        columns: Columns,
        reads: Sequence[Strip],
        writes: Sequence[Strip],
        values: Callable[..., Sequence[Any]],
    ) -> None:
        """Store the values, one per strip to write, of every column."""
