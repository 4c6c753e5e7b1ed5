"""The CUDA form: a block of threads per row, each with every so-and-so-many-th column.

Nothing here has run on a device yet; the programs are compiled for one, and no kernel type is
registered over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tilelang.language as T

from tileops_tilelang.programs.elements import Element, native
from tileops_tilelang.programs.strips import Columns, Strip

_FAR = 2**31 - 1


class CUDASchedule:
    """Rows over blocks, columns over the threads of a block.

    Args:
        threads: of a block.
    """

    # Another thread may have written what is read again.
    rereads = False

    def __init__(self, threads: int = 256) -> None:
        self.threads = threads

    def element(self, dtype: str) -> Element:
        """The device has them all."""
        return native(dtype)

    def rows(self, count: Any) -> Any:
        """A block per row."""
        return T.Kernel(count, threads=self.threads)

    def cell(self) -> Any:
        """A register of every thread, the same in all."""
        return T.alloc_local((1,), "float32")

    def place(self) -> Any:
        """A register of every thread, the same in all."""
        return T.alloc_local((1,), "int32")

    def total(
        self, cell: Any, columns: Columns, reads: Sequence[Strip], value: Callable[..., Any]
    ) -> None:
        """A sum per thread, then over the block."""
        self._fold(cell, columns, reads, lambda _, *v: value(*v), T.float32(0), _plus, T.reduce_sum)

    def greatest(self, cell: Any, columns: Columns, reads: Sequence[Strip]) -> None:
        """A maximum per thread, then over the block, and whether anybody saw a NaN.

        The device's own maximum passes over NaN.
        """
        least = -T.infinity("float32")
        self._fold(cell, columns, reads, lambda _, v: v, least, _greater, T.reduce_max)
        seen = self.cell()
        self._fold(seen, columns, reads, lambda _, v: _nan_as_one(v), least, _greater, T.reduce_max)
        _nan_where(cell, seen)

    def first(
        self,
        place: Any,
        columns: Columns,
        reads: Sequence[Strip],
        holds: Callable[..., Any],
    ) -> None:
        """A minimum of the columns per thread, then over the block."""

        def column(j: Any, *v: Any) -> Any:
            return T.Select(holds(*v), j, T.int32(_FAR))

        self._fold(place, columns, reads, column, T.int32(_FAR), T.min, T.reduce_min)

    def each(
        self,
        columns: Columns,
        reads: Sequence[Strip],
        writes: Sequence[Strip],
        values: Callable[..., Sequence[Any]],
    ) -> None:
        """Neighboring columns by neighboring threads."""
        _each(self.threads, columns, reads, writes, values)

    def _fold(
        self,
        cell: Any,
        columns: Columns,
        reads: Sequence[Strip],
        value: Callable[..., Any],
        start: Any,
        join: Callable[[Any, Any], Any],
        reduce: Callable[[Any, Any], Any],
    ) -> None:
        own = T.alloc_fragment((self.threads,), str(start.dtype))
        whole = T.alloc_fragment((1,), str(start.dtype))
        _fold(cell, own, whole, self.threads, columns, reads, value, start, join, reduce)


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _greater(a: Any, b: Any) -> Any:
    return T.max(a, b)


def _nan_as_one(value: Any) -> Any:
    return T.Select(T.isnan(value), T.float32(1), T.float32(0))


def _nan_where(cell: Any, seen: Any) -> None:
    nan = T.float32(float("nan"))
    T.buffer_store(cell, T.Select(seen[0] > T.float32(0), nan, cell[0]), [0])


def _write(writes: Sequence[Strip], column: Any, values: Sequence[Any]) -> None:
    for strip, value in zip(writes, values, strict=True):
        strip.write(column, value)


def _value(value: Callable[..., Any], reads: Sequence[Strip], column: Any) -> Any:
    return value(column, *[strip.read(column) for strip in reads])


@T.macro
def _each(threads, columns, reads, writes, values):  # type: ignore[no-untyped-def]
    for i in T.serial(T.ceildiv(columns.count, threads)):
        for thread in T.Parallel(threads):
            if i * threads + thread < columns.count:
                _write(
                    writes,
                    i * threads + thread,
                    values(*[strip.read(i * threads + thread) for strip in reads]),
                )


@T.macro
def _fold(cell, own, whole, threads, columns, reads, value, start, join, reduce):  # type: ignore[no-untyped-def]
    for thread in T.Parallel(threads):
        own[thread] = start
    for i in T.serial(T.ceildiv(columns.count, threads)):
        for thread in T.Parallel(threads):
            if i * threads + thread < columns.count:
                own[thread] = join(own[thread], _value(value, reads, i * threads + thread))
    reduce(own, whole)
    cell[0] = whole[0]
