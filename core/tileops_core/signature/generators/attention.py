"""Generators for sparse and latent attention: which keys a query looks at."""

from __future__ import annotations

from collections.abc import Sequence

from tileops_core.signature.generators.draws import Draws
from tileops_core.signature.generators.model import (
    Generator,
    Nested,
    at_least,
    lengths_of,
    number,
    seq,
)
from tileops_core.signature.kinds import EnumKind
from tileops_core.signature.primitives import Argument, PrimitiveError


def _key_windows(lengths: Sequence[int], first: int, count: int, edge: str) -> Nested:
    """Where the keys that a query may see begin or end, ``[count]``.

    Queries are the packed tokens ``first`` to ``first + count`` of sequences of these lengths, as
    in a chunk of a prefill; keys are the packed tokens. A query sees the keys of its own sequence
    up to itself: its window starts where the sequence does, and ends behind the query.

    Args:
        lengths: Of the packed sequences, ``[n]``.
        first: The packed token that is the first query.
        count: How many queries there are.
        edge: ``'start'``, or ``'end'`` (which is not in the window any more).

    >>> key_windows(lengths, 1, 3, 'start')
    [0, 2, 2]
    >>> key_windows(lengths, 1, 3, 'end')
    [2, 3, 4]
    """
    starts, begin = [], 0
    for length in lengths:
        starts += [begin] * max(0, min(begin + length, first + count) - max(begin, first))
        begin += length
    return starts if edge == "start" else list(range(first + 1, first + count + 1))


def _key_windows_shape(lengths: Sequence[int], first: int, count: int, edge: str) -> tuple[int]:
    at_least(0, first=first, count=count)
    total = sum(lengths_of(lengths))
    if first + count > total:
        raise PrimitiveError(f"queries {first} to {first + count} of {total} tokens")
    return (count,)


def _causal_topk_indices(
    draws: Draws, batch: int, queries: int, heads: int, k: int, keys: int, first: int, stride: int
) -> Nested:
    """The keys that each query looks at, ``[batch, queries, heads, k]``; ``keys`` is padding.

    Query s stands at position ``first + s``; key t closes at position ``(t + 1) * stride - 1``
    (``stride`` tokens are compressed into it), and is seen from there on. The keys of a query are
    different ones; where it sees fewer than ``k``, the rest is padding.

    >>> causal_topk_indices(1, 3, 1, 2, 3, 2, 2)
    [[[[0, 3]], [[0, 1]], [[0, 1]]]]
    """
    return [
        [
            [
                _padded(draws, min(keys, max(0, (first + s + 1) // stride)), k, keys)
                for _ in range(heads)
            ]
            for s in range(queries)
        ]
        for _ in range(batch)
    ]


def _causal_topk_indices_shape(
    batch: int, queries: int, heads: int, k: int, keys: int, first: int, stride: int
) -> tuple[int, ...]:
    at_least(1, stride=stride)
    at_least(0, keys=keys, first=first)
    return batch, queries, heads, k


def _sparse_topk_positions(draws: Draws, lengths: Sequence[int], queries: int, k: int) -> Nested:
    """The cached positions that each query looks at, ``[len(lengths), queries, k]``; -1 is none.

    The queries of a request are the last of its ``lengths[b]`` cached tokens; each looks at
    different positions up to its own.

    >>> attn.sparse_topk_positions(cached, 2, 3)
    [[[0, 1, 2], [1, 2, 3]], [[1, 2, 3], [0, 1, 2]]]
    """
    return [
        [_padded(draws, length - queries + s + 1, k, -1) for s in range(queries)]
        for length in lengths
    ]


def _sparse_topk_positions_shape(lengths: Sequence[int], queries: int, k: int) -> tuple[int, ...]:
    if lengths and min(lengths) < queries:
        raise PrimitiveError(f"{min(lengths)} cached tokens do not hold {queries} queries")
    return len(lengths), queries, k


def _padded(draws: Draws, seen: int, k: int, padding: int) -> list[int]:
    count = min(seen, k)
    return [*draws.spread(seen, count), *[padding] * (k - count)]


def _nsa_block_indices(
    draws: Draws, lengths: Sequence[int], block: int, selected: int, heads: int
) -> Nested:
    """The blocks of keys that each packed token selects, ``[sum(lengths), heads, selected]``.

    Blocks of ``block`` tokens are numbered within the token's own sequence. Among the selected
    are the first block and the token's own, in ascending order none stands twice, and none lies
    behind the token's own. What is left is filled with ``sum(lengths)``, which is no block.

    >>> nsa_block_indices(lengths, 2, 2, 1)
    [[[0, 5]], [[0, 5]], [[0, 5]], [[0, 5]], [[0, 1]]]
    """
    none = sum(lengths)
    return [
        [_blocks(draws, position // block + 1, selected, none) for _ in range(heads)]
        for length in lengths
        for position in range(length)
    ]


def _blocks(draws: Draws, seen: int, selected: int, none: int) -> list[int]:
    count = min(seen, selected)
    if count < 2:
        return [*[seen - 1] * count, *[none] * (selected - count)]
    between = draws.spread(seen - 2, count - 2)
    shifted = range(between.start + 1, between.stop + 1, between.step)
    return [0, *shifted, seen - 1, *[none] * (selected - count)]


def _nsa_block_indices_shape(
    lengths: Sequence[int], block: int, selected: int, heads: int
) -> tuple[int, ...]:
    at_least(1, block_size=block)
    return sum(lengths_of(lengths)), heads, selected


def _nsa_block_counts(draws: Draws, tokens: int, heads: int, selected: int) -> Nested:
    """How many of its ``selected`` blocks a token uses, from 1 to all, ``[tokens, heads]``.

    >>> nsa_block_counts(3, 2, 4)
    [[2, 2], [3, 3], [4, 2]]
    """
    least = min(1, selected)
    choices, below = selected - least + 1, draws.below
    return [[least + below(choices) for _ in range(heads)] for _ in range(tokens)]


def _nsa_block_counts_shape(tokens: int, heads: int, selected: int) -> tuple[int, ...]:
    at_least(0, selected=selected)
    return tokens, heads


def _edges() -> Argument:
    edges = {"start", "end"}
    return Argument(
        "edge", lambda k: isinstance(k, EnumKind) and set(k.words) <= edges, "'start' or 'end'"
    )


ATTENTION = (
    Generator(
        "key_windows",
        (seq("lengths"), number("first"), number("count"), _edges()),
        _key_windows_shape,
        _key_windows,
    ),
    Generator(
        "causal_topk_indices",
        tuple(map(number, ("batch", "queries", "heads", "k", "keys", "first", "stride"))),
        _causal_topk_indices_shape,
        _causal_topk_indices,
        random=True,
    ),
    Generator(
        "attn.sparse_topk_positions",
        (seq("lengths"), number("queries"), number("k")),
        _sparse_topk_positions_shape,
        _sparse_topk_positions,
        random=True,
    ),
    Generator(
        "nsa_block_indices",
        (seq("lengths"), number("block_size"), number("selected"), number("heads")),
        _nsa_block_indices_shape,
        _nsa_block_indices,
        random=True,
    ),
    Generator(
        "nsa_block_counts",
        (number("tokens"), number("heads"), number("selected")),
        _nsa_block_counts_shape,
        _nsa_block_counts,
        random=True,
    ),
)
