"""The C target: loops in the form that a C compiler turns into vector instructions.

Sums and maxima keep many partial results side by side and join them in the end, in an order that
the program fixes, so no compiler flag has to allow reordering. What is converted in whole blocks
passes through a few KiB of the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tilelang.language as T

from tileops_tilelang.programs.elements import AS_BITS, Element
from tileops_tilelang.programs.strips import Columns, Strip

LANES = 32
"""Partial results: two vectors of AVX-512, four of AVX2, eight of Neon."""

_BLOCK = 512
"""Columns converted at a time: 2 KiB a strip, so that all of them stay in the first cache."""

_FAR = 2**31 - 1


class CSchedule:
    """Serial loops over rows and columns.

    Args:
        lanes: how many partial results a fold keeps; a power of two.
    """

    rereads = True

    def __init__(self, lanes: int = LANES) -> None:
        self.lanes = lanes

    def element(self, dtype: str) -> Element:
        """16 bits as bits."""
        return AS_BITS[dtype]

    def rows(self, count: Any) -> Any:
        """A loop."""
        return T.Kernel(count)

    def cell(self) -> Any:
        """A local variable."""
        return T.alloc_local((1,), "float32")

    def place(self) -> Any:
        """A local variable."""
        return T.alloc_local((1,), "int32")

    def total(
        self, cell: Any, columns: Columns, reads: Sequence[Strip], value: Callable[..., Any]
    ) -> None:
        """Partial sums."""
        self._fold(cell, columns, reads, lambda _, *v: value(*v), T.float32(0), _plus)

    def greatest(self, cell: Any, columns: Columns, reads: Sequence[Strip]) -> None:
        """Partial maxima."""
        least = -T.infinity("float32")
        self._fold(cell, columns, reads, lambda _, v: v, least, _greater)

    def first(
        self,
        place: Any,
        columns: Columns,
        reads: Sequence[Strip],
        holds: Callable[..., Any],
    ) -> None:
        """Partial minima of the columns where it holds."""

        def column(j: Any, *v: Any) -> Any:
            return T.Select(holds(*v), j, T.int32(_FAR))

        self._fold(place, columns, reads, column, T.int32(_FAR), T.min)

    def each(
        self,
        columns: Columns,
        reads: Sequence[Strip],
        writes: Sequence[Strip],
        values: Callable[..., Sequence[Any]],
    ) -> None:
        """A loop, or one over blocks."""
        came, went = _stages(reads), _stages(writes)
        if any(came) or any(went):
            _each_in_blocks(columns, _Staged(reads, came), _Staged(writes, went), values)
        else:
            _each(columns, reads, writes, values)

    def _fold(
        self,
        cell: Any,
        columns: Columns,
        reads: Sequence[Strip],
        value: Callable[..., Any],
        start: Any,
        join: Callable[[Any, Any], Any],
    ) -> None:
        lanes = T.alloc_local((self.lanes,), str(start.dtype))
        stages = _stages(reads)
        if any(stages):
            staged = _Staged(reads, stages)
            _fold_in_blocks(cell, lanes, self.lanes, columns, staged, value, start, join)
        else:
            _fold(cell, lanes, self.lanes, columns, reads, value, start, join)


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _greater(a: Any, b: Any) -> Any:
    # A NaN stays: nothing compares greater, and a NaN that comes is taken.
    return T.Select(T.isnan(b) | (b > a), b, a)


def _stages(strips: Iterable[Strip]) -> list[Any]:
    """A block of float32 for each strip that is converted in blocks, None for the others."""
    return [T.alloc_local((_BLOCK,), "float32") if s.in_blocks else None for s in strips]


class _Staged:
    """Strips of which some are converted block by block."""

    def __init__(self, strips: Sequence[Strip], stages: Sequence[Any]) -> None:
        self.pairs = list(zip(strips, stages, strict=True))

    def widen(self, first: Any, count: Any) -> None:
        """Bring a block in."""
        for strip, stage in self.pairs:
            if stage is not None:
                _call(strip, 0, strip.address(first), T.address_of(stage[0]), count)

    def narrow(self, first: Any, count: Any) -> None:
        """Take a block out."""
        for strip, stage in self.pairs:
            if stage is not None:
                _call(strip, 1, T.address_of(stage[0]), strip.address(first), count)

    def read(self, first: Any, lane: Any) -> list[Any]:
        """The elements of the column ``first + lane``."""
        return [s.read(first + lane) if b is None else b[lane] for s, b in self.pairs]

    def write(self, first: Any, lane: Any, values: Sequence[Any]) -> None:
        """Store a value to each."""
        for (strip, stage), value in zip(self.pairs, values, strict=True):
            if stage is None:
                strip.write(first + lane, value)
            else:
                T.buffer_store(stage, value, [lane])


def _call(strip: Strip, direction: int, source: Any, target: Any, count: Any) -> None:
    assert strip.element.blocks is not None
    name = strip.element.blocks[direction]
    T.evaluate(T.call_extern("int32", name, source, target, count))


def _write(writes: Sequence[Strip], column: Any, values: Sequence[Any]) -> None:
    for strip, value in zip(writes, values, strict=True):
        strip.write(column, value)


def _in_block(columns: Columns, block: Any) -> Any:
    """How many columns a block has."""
    return T.min(_BLOCK, columns.count - block * _BLOCK)


@T.macro
def _each(columns, reads, writes, values):  # type: ignore[no-untyped-def]
    for j in T.serial(columns.count):
        _write(writes, j, values(*[strip.read(j) for strip in reads]))


@T.macro
def _each_in_blocks(columns, reads, writes, values):  # type: ignore[no-untyped-def]
    for block in T.serial(T.ceildiv(columns.count, _BLOCK)):
        reads.widen(block * _BLOCK, _in_block(columns, block))
        for lane in T.serial(_in_block(columns, block)):
            writes.write(block * _BLOCK, lane, values(*reads.read(block * _BLOCK, lane)))
        writes.narrow(block * _BLOCK, _in_block(columns, block))


@T.macro
def _fold(cell, lanes, width, columns, reads, value, start, join):  # type: ignore[no-untyped-def]
    for lane in T.serial(width):
        lanes[lane] = start
    for i in T.serial(columns.count // width):
        for lane in T.serial(width):
            lanes[lane] = join(lanes[lane], _value(value, reads, i * width + lane))
    for lane in T.serial(columns.count % width):
        lanes[lane] = join(lanes[lane], _value(value, reads, columns.count // width * width + lane))
    _join(cell, lanes, width, join)


def _value(value: Callable[..., Any], reads: Sequence[Strip], column: Any) -> Any:
    return value(column, *[strip.read(column) for strip in reads])


@T.macro
def _fold_in_blocks(cell, lanes, width, columns, reads, value, start, join):  # type: ignore[no-untyped-def]
    for lane in T.serial(width):
        lanes[lane] = start
    for block in T.serial(T.ceildiv(columns.count, _BLOCK)):
        reads.widen(block * _BLOCK, _in_block(columns, block))
        for i in T.serial(_in_block(columns, block) // width):
            for lane in T.serial(width):
                lanes[lane] = join(
                    lanes[lane], _block_value(value, reads, block * _BLOCK, i * width + lane)
                )
        for lane in T.serial(_in_block(columns, block) % width):
            lanes[lane] = join(
                lanes[lane],
                _block_value(
                    value,
                    reads,
                    block * _BLOCK,
                    _in_block(columns, block) // width * width + lane,
                ),
            )
    _join(cell, lanes, width, join)


def _block_value(value: Callable[..., Any], reads: _Staged, first: Any, lane: Any) -> Any:
    return value(first + lane, *reads.read(first, lane))


def _halves(width: int) -> tuple[int, ...]:
    return tuple(width >> n for n in range(1, width.bit_length()))


@T.macro
def _join(cell, lanes, width, join):  # type: ignore[no-untyped-def]
    for half in _halves(width):
        for lane in T.serial(half):
            lanes[lane] = join(lanes[lane], lanes[lane + half])
    cell[0] = lanes[0]
