"""What metadata tensors must satisfy: a fixed set of predicates.

A predicate is named in an input's ``requires``, with the tensor itself understood:
``in_range(0, N)`` asks it of every value of that tensor. It takes values as nested Python ints, of
a workload row or of a caller's tensor, whatever they are, and says which one is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.kinds import Kind, TensorKind, is_int
from tileops_core.signature.primitives import Argument, usage
from tileops_core.signature.primitives.families import LAYOUT

Values: TypeAlias = Sequence[Any]
"""A tensor's values, nested as deep as it has axes."""


@attrs.frozen(slots=True, eq=False, repr=False)
class Violation(EqualByFields):
    """A value that breaks a predicate: where it is, what it is, and what is wrong with it."""

    place: tuple[int, ...]
    value: object
    message: str


@attrs.frozen(slots=True, eq=False, repr=False)
class Predicate(EqualByFields):
    """One predicate.

    ``rank`` is the number of axes that its tensor has, None for any; tensors among the arguments
    have one axis. ``settles`` gives the one value of the first argument that the tensor's values
    allow, where there is one.
    """

    name: str
    args: tuple[Argument, ...]
    check: Callable[..., Violation | None]
    rank: int | None = 1
    settles: Callable[[Values], int] | None = None

    @property
    def usage(self) -> str:
        """How it is called: its arguments in their order, and what each may be."""
        return usage(self.name, self.args)


def _in_range(values: Values, low: int, high: int) -> Violation | None:
    """Every value is at least ``low`` and less than ``high``.

    >>> [0, 2]: in_range(0, 3)
    holds
    >>> [0, 3]: in_range(0, 3)
    refused: [1] is 3, it must lie from 0 to 2
    """
    message = f"it must lie from {low} to {high - 1}" if low < high else "none is allowed"
    if not isinstance(values, Sequence):  # a tensor without axes
        return None if low <= values < high else Violation((), values, message)
    span = extent(values)
    if span is None or (low <= span[0] and span[1] < high):
        return None
    for place, row in _rows(values):
        for i, value in enumerate(row):
            if not low <= value < high:
                return Violation((*place, i), value, message)
    return None


def extent(values: Values | int) -> tuple[int, int] | None:
    """The least and the greatest value, None without any; all in one go, for there may be millions.

    >>> extent([[3, 1], [2, 5]])
    (1, 5)
    """
    if isinstance(values, int):  # of a tensor without axes
        return values, values
    flat = values
    while len(flat) and not isinstance(flat[0], int):
        flat = list(itertools.chain.from_iterable(flat))
    return (min(flat), max(flat)) if len(flat) else None


def _rows(values: Values, place: tuple[int, ...] = ()) -> Any:
    """The innermost sequences and where they stand."""
    if len(values) and not isinstance(values[0], int):
        for i, part in enumerate(values):
            yield from _rows(part, (*place, i))
    else:
        yield place, values


def _prefix_offsets(values: Values, total: int) -> Violation | None:
    """The values start at 0, do not decrease, and end at ``total``.

    >>> [0, 2, 2, 5]: prefix_offsets(5)
    holds
    >>> [0, 2, 2, 4]: prefix_offsets(5)
    refused: [3] is 4, the last offset must be 5
    """
    if not len(values):
        return Violation((), "empty", f"it must hold 0 and {total} at least")
    if values[0] != 0:
        return Violation((0,), values[0], "the first offset must be 0")
    for i in range(1, len(values)):
        if values[i] < values[i - 1]:
            message = f"it must not be less than the offset before, {values[i - 1]}"
            return Violation((i,), values[i], message)
    if values[-1] != total:
        return Violation((len(values) - 1,), values[-1], f"the last offset must be {total}")
    return None


def _max_segment(values: Values, limit: int) -> Violation | None:
    """No segment between two offsets is longer than ``limit``.

    >>> [0, 2, 2, 5]: max_segment(3)
    holds
    >>> [0, 2, 2, 5]: max_segment(2)
    refused: [3] is 5, the segment that ends here has 3 rows, at most 2 are allowed
    """
    for i in range(1, len(values)):
        length = values[i] - values[i - 1]
        if length > limit:
            message = f"the segment that ends here has {length} rows, at most {limit} are allowed"
            return Violation((i,), values[i], message)
    return None


def _indices_within(values: Values, offsets: Values) -> Violation | None:
    """Every row is a segment between two ``offsets`` and a position inside that segment.

    >>> [[0, 1], [2, 2]]: indices_within(offsets)
    holds
    >>> [[0, 2]]: indices_within(offsets)
    refused: [0][1] is 2, segment 0 has 2 positions
    """
    count = max(0, len(offsets) - 1)
    for i, row in enumerate(values):
        if len(row) != 2:
            return Violation((i,), list(row), "a row is a segment and a position")
        segment, position = row
        if not 0 <= segment < count:
            return Violation((i, 0), segment, f"there are {count} segments")
        length = offsets[segment + 1] - offsets[segment]
        if not 0 <= position < length:
            return Violation((i, 1), position, f"segment {segment} has {length} positions")
    return None


def _chunk_offsets_of(values: Values, offsets: Values, chunk: int) -> Violation | None:
    """The values count the chunks of ``chunk`` rows before each segment of ``offsets``.

    >>> [0, 1, 1, 3]: chunk_offsets_of(offsets, 2)
    holds
    """
    if chunk < 1:
        return Violation((), chunk, "a chunk has at least one row")
    due = [0]
    for i in range(1, len(offsets)):
        due.append(due[-1] - (offsets[i - 1] - offsets[i]) // chunk)
    return _equal(values, due, "chunks lie before")


def _exclusive_prefix_of(values: Values, sizes: Values) -> Violation | None:
    """Each value is the sum of the ``sizes`` before it.

    >>> [0, 2, 2]: exclusive_prefix_of(sizes)
    holds
    >>> [0, 2, 3]: exclusive_prefix_of(sizes)
    refused: [2] is 3, 2 is the sum of the sizes before
    """
    due, total = [], 0
    for size in sizes:
        due.append(total)
        total += size
    return _equal(values, due, "is the sum of the sizes before")


def _equal(values: Values, due: Values, meaning: str) -> Violation | None:
    for i, (value, right) in enumerate(zip(values, due, strict=False)):
        if value != right:
            return Violation((i,), value, f"{right} {meaning}")
    if len(values) != len(due):
        return Violation((), f"{len(values)} values", f"there must be {len(due)} of them")
    return None


def _sums_to(values: Values, total: int) -> Violation | None:
    """The values add up to ``total``.

    >>> [2, 0, 3]: sums_to(5)
    holds
    >>> [2, 0, 3]: sums_to(6)
    refused: 5 in all, the values must add up to 6
    """
    found = sum(values)
    if found != total:
        return Violation((), f"{found} in all", f"the values must add up to {total}")
    return None


def _paged_fits(values: Values, offsets: Values, capacity: int) -> Violation | None:
    """From each start, the segment of ``offsets`` ends within ``capacity`` cached positions.

    >>> [6, 0, 4]: attn.paged_fits(offsets, 8)
    holds
    >>> [6, 0, 6]: attn.paged_fits(offsets, 8)
    refused: [2] is 6, with 3 rows it ends at 9, behind 8
    """
    if len(values) != max(0, len(offsets) - 1):
        count = max(0, len(offsets) - 1)
        return Violation((), f"{len(values)} values", f"there are {count} segments")
    for i, start in enumerate(values):
        length = offsets[i + 1] - offsets[i]
        if start + length > capacity:
            message = f"with {length} rows it ends at {start + length}, behind {capacity}"
            return Violation((i,), start, message)
    return None


def _layout_valid(values: Values, layout: Any, rows: int, experts: int) -> Violation | None:
    """The values say where the rows of ``experts`` experts lie in a buffer of ``rows`` rows.

    ``masked``: how many of its ``max_m`` rows each expert fills. ``physical_psum``: where each
    expert's last row ends; its first one is at the next multiple of ``alignment`` after the end
    of the expert before. ``per_row``: each row's expert, ascending, -1 for padding, which an
    aligned layout has behind an expert's rows; an expert begins at a multiple of ``alignment``.

    >>> [8, 0, 3]: moe.layout_valid(masked, 0, 3)
    holds
    >>> [9, 0, 3]: moe.layout_valid(masked, 0, 3)
    refused: [0] is 9, it must lie from 0 to 8
    """
    if layout.kind == "masked":
        return _sized(values, experts) or _in_range(values, 0, layout.max_m + 1)
    if layout.metadata_kind == "per_row":
        return _sized(values, rows) or _owners(values, layout.alignment, experts)
    return _sized(values, experts) or _ends(values, layout.alignment, rows)


def _sized(values: Values, count: int) -> Violation | None:
    if len(values) == count:
        return None
    return Violation((), f"{len(values)} values", f"there must be {count} of them")


def _ends(values: Values, alignment: int, rows: int) -> Violation | None:
    start = 0
    for i, end in enumerate(values):
        if not start <= end <= rows:
            message = f"the rows of expert {i} begin at {start} and end within {rows}"
            return Violation((i,), end, message)
        start = -(-end // alignment) * alignment
    return None


def _owners(values: Values, alignment: int, experts: int) -> Violation | None:
    last = current = -1
    for i, owner in enumerate(values):
        if not (-1 if alignment > 1 else 0) <= owner < experts:
            return Violation((i,), owner, f"there are {experts} experts")
        if i % alignment == 0:
            current = owner
        elif owner not in (current, -1):
            message = f"the rows up to the next multiple of {alignment} belong to expert {current}"
            return Violation((i,), owner, message)
        elif owner == -1:
            current = -1
        if -1 < owner < last:
            return Violation((i,), owner, f"rows of expert {last} stand before")
        last = max(last, owner)
    return None


def _number(name: str) -> Argument:
    return Argument(name, is_int, "an int")


def _is_tensor(kind: Kind) -> bool:
    return isinstance(kind, TensorKind)


def _tensor(name: str) -> Argument:
    return Argument(name, _is_tensor, "a metadata tensor's name")


_ALL = (
    Predicate("in_range", (_number("low"), _number("high")), _in_range, rank=None),
    Predicate(
        "prefix_offsets", (_number("total"),), _prefix_offsets, settles=lambda values: values[-1]
    ),
    Predicate("max_segment", (_number("limit"),), _max_segment),
    Predicate("indices_within", (_tensor("offsets"),), _indices_within, rank=2),
    Predicate("chunk_offsets_of", (_tensor("offsets"), _number("chunk_size")), _chunk_offsets_of),
    Predicate("exclusive_prefix_of", (_tensor("sizes"),), _exclusive_prefix_of),
    Predicate("sums_to", (_number("total"),), _sums_to, settles=sum),
    Predicate("attn.paged_fits", (_tensor("offsets"), _number("capacity")), _paged_fits),
    Predicate("moe.layout_valid", (LAYOUT, _number("rows"), _number("experts")), _layout_valid),
)

PREDICATES: Mapping[str, Predicate] = MappingProxyType({item.name: item for item in _ALL})
"""Every predicate by its name."""
