"""Generators for packed sequences: offsets, positions, chunks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tileops_core.signature.generators.draws import Draws
from tileops_core.signature.generators.model import (
    Generator,
    Nested,
    at_least,
    lengths_of,
    number,
    rows_of,
    seq,
)
from tileops_core.signature.primitives import Argument, PrimitiveError
from tileops_core.signature.primitives.model import is_shape


def _as_tensor(values: Sequence[int]) -> Nested:
    """The list itself, a tensor ``[len(values)]``: cached lengths, counts, group sizes.

    >>> as_tensor(lengths)
    [2, 0, 3]
    """
    return list(values)


def _prefix_sum(lengths: Sequence[int]) -> Nested:
    """Where each packed sequence begins and the last one ends (``cu_seqlens``), ``[n + 1]``.

    Sequence b lies at ``[result[b], result[b + 1])``.

    >>> prefix_sum(lengths)
    [0, 2, 2, 5]
    """
    return [0, *itertools.accumulate(lengths)]


def _exclusive_prefix_sum(lengths: Sequence[int]) -> Nested:
    """Where each packed sequence begins, without the end of the last one, ``[n]``.

    >>> exclusive_prefix_sum(lengths)
    [0, 2, 2]
    """
    return list(itertools.accumulate(lengths, initial=0))[:-1]


def _packed_positions(lengths: Sequence[int]) -> Nested:
    """The position of each packed token in its own sequence, ``[sum(lengths)]``.

    >>> packed_positions(lengths)
    [0, 1, 0, 1, 2]
    """
    return [position for length in lengths for position in range(length)]


def _token_indices(lengths: Sequence[int]) -> Nested:
    """For each packed token its sequence and its position in it, ``[sum(lengths), 2]``.

    >>> token_indices(lengths)
    [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]]
    """
    return [(b, position) for b, length in enumerate(lengths) for position in range(length)]


def _chunks(lengths: Sequence[int], chunk: int) -> list[int]:
    at_least(1, chunk_size=chunk)
    return [-(-length // chunk) for length in lengths_of(lengths)]


def _chunk_indices(lengths: Sequence[int], chunk: int) -> Nested:
    """For each chunk of ``chunk`` tokens its sequence and its number in it, ``[chunks, 2]``.

    A sequence's last chunk may be short; chunks do not reach over sequences.

    >>> chunk_indices(lengths, 2)
    [[0, 0], [2, 0], [2, 1]]
    """
    return [(b, i) for b, count in enumerate(_chunks(lengths, chunk)) for i in range(count)]


def _chunk_offsets(lengths: Sequence[int], chunk: int) -> Nested:
    """How many chunks lie before each sequence, and in all, ``[n + 1]``; see chunk_indices.

    >>> chunk_offsets(lengths, 2)
    [0, 1, 1, 3]
    """
    return _prefix_sum(_chunks(lengths, chunk))


def _full_shape(shape: Sequence[int], value: int) -> tuple[int, ...]:
    return tuple(shape)


def _full(shape: Sequence[int], value: int) -> Nested:
    """One value everywhere in a tensor of ``shape``.

    >>> full((2, 3), 7)
    [[7, 7, 7], [7, 7, 7]]
    """
    result: Any = value
    for length in reversed(shape):
        result = [result] * length
    return result  # type: ignore[no-any-return]


def _random_ids(draws: Draws, rows: int, columns: int, limit: int) -> Nested:
    """Ids below ``limit``, each drawn by itself, ``[rows, columns]`` (drafted tokens).

    >>> random_ids(2, 3, 100)
    [[37, 41, 74], [73, 93, 33]]
    """
    return [[draws.below(limit) for _ in range(columns)] for _ in range(rows)]


def _random_ids_shape(rows: int, columns: int, limit: int) -> tuple[int, ...]:
    if rows and columns:
        at_least(1, limit=limit)
    return rows, columns


def _sample_indices(draws: Draws, count: int, limit: int) -> Nested:
    """``count`` different indices below ``limit`` in random order, ``[count]``.

    Cache slots that a call writes, or the places of routed rows: none stands twice.

    >>> sample_indices(4, 10)
    [3, 4, 7, 8]
    >>> sample_indices(4, 3)
    refused: sample_indices: there are no 4 different indices below 3
    """
    return draws.sample(limit, count)


def _sample_indices_shape(count: int, limit: int) -> tuple[int, ...]:
    if count > limit:
        raise PrimitiveError(f"there are no {count} different indices below {limit}")
    return (count,)


def _paged_block_table(draws: Draws, requests: int, width: int, pages: int) -> Nested:
    """The page of each block of each request, ``[requests, width]``.

    Pages are dealt out in random order, and again in that order when there are fewer than blocks:
    two blocks share a page only then.

    >>> paged_block_table(2, 3, 8)
    [[3, 0, 6], [2, 7, 1]]
    """
    deck = draws.sample(pages, min(pages, requests * width))
    times = -(-requests * width // len(deck)) if deck else 0
    return rows_of(deck * times, requests, width)


def _paged_block_table_shape(requests: int, width: int, pages: int) -> tuple[int, ...]:
    if requests and width:
        at_least(1, pages=pages)
    return requests, width


_LENGTHS, _CHUNK = seq("lengths"), number("chunk_size")

SEQUENCES = (
    Generator("as_tensor", (seq("values"),), lambda values: (len(values),), _as_tensor),
    Generator("prefix_sum", (_LENGTHS,), lambda n: (len(lengths_of(n)) + 1,), _prefix_sum),
    Generator(
        "exclusive_prefix_sum",
        (_LENGTHS,),
        lambda n: (len(lengths_of(n)),),
        _exclusive_prefix_sum,
    ),
    Generator("packed_positions", (_LENGTHS,), lambda n: (sum(lengths_of(n)),), _packed_positions),
    Generator("token_indices", (_LENGTHS,), lambda n: (sum(lengths_of(n)), 2), _token_indices),
    Generator(
        "chunk_indices", (_LENGTHS, _CHUNK), lambda n, c: (sum(_chunks(n, c)), 2), _chunk_indices
    ),
    Generator(
        "chunk_offsets", (_LENGTHS, _CHUNK), lambda n, c: (len(_chunks(n, c)) + 1,), _chunk_offsets
    ),
    Generator(
        "full", (Argument("shape", is_shape, "a shape"), number("value")), _full_shape, _full
    ),
    Generator(
        "random_ids",
        (number("rows"), number("columns"), number("limit")),
        _random_ids_shape,
        _random_ids,
        random=True,
    ),
    Generator(
        "sample_indices",
        (number("count"), number("limit")),
        _sample_indices_shape,
        _sample_indices,
        random=True,
    ),
    Generator(
        "paged_block_table",
        (number("requests"), number("width"), number("pages")),
        _paged_block_table_shape,
        _paged_block_table,
        random=True,
    ),
)
