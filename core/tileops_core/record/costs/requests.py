"""What costs of attention over several requests share: lengths, visible keys, pages that are read.

A request has ``queries`` rows of q and ``keys`` rows of k and v. Its query i stands at key position
``i + keys - queries``, so that the last query sees the last key, and sees the keys from ``left``
before that position to ``right`` after it, -1 being no limit; causal is ``right`` 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

SOFTMAX = 5
"""Operations of a softmax per visible pair: scale, compare, subtract, exp, add."""


def lengths(offsets: Sequence[int]) -> list[int]:
    """How long the segments between prefix ``offsets`` are, of which the first is 0."""
    return [end - start for start, end in pairwise(offsets)]


def visible_pairs(
    queries: int, keys: int, causal: bool = False, left: int = -1, right: int = -1
) -> int:
    """How many pairs of a query and a key that it sees one request has.

    A query at p sees as many keys as there are below p + right + 1, less those below p - left.
    Summed over the positions of the queries, each is a difference of two values of
    :func:`_keys_below`.
    """
    left = left if left >= 0 else keys
    right = 0 if causal else right if right >= 0 else queries
    first, end = keys - queries, keys
    return (
        _keys_below(end + right, keys)
        - _keys_below(first + right, keys)
        - _keys_below(end - left - 1, keys)
        + _keys_below(first - left - 1, keys)
    )


def _keys_below(x: int, keys: int) -> int:
    """The sum over all t <= x of the number of keys below t, which is t within [0, keys]."""
    inside = min(max(x, 0), keys)
    return inside * (inside + 1) // 2 + max(x - keys, 0) * keys


def seen_keys(queries: int, keys: int, left: int = -1) -> int:
    """How many keys at least one query of a request sees; they are the last ones.

    The last query sees the last key whatever ``right`` is, so only the first one's reach counts.
    """
    if queries == 0:
        return 0
    return keys if left < 0 else min(keys, queries + left)


def slots_read(
    block_table: Sequence[Sequence[int]], spans: Iterable[tuple[int, int]], page_size: int
) -> int:
    """How many different slots of a paged cache hold the positions that requests read.

    Args:
        block_table: The pages of each request.
        spans: The first position that each request reads, and the one behind the last.
        page_size: Positions per page.
    """
    read: dict[int, list[tuple[int, int]]] = {}
    for pages, (start, end) in zip(block_table, spans, strict=True):
        for i in range(start // page_size, -(-end // page_size) if start < end else 0):
            span = max(start - i * page_size, 0), min(end - i * page_size, page_size)
            read.setdefault(pages[i], []).append(span)
    return sum(covered(spans_of_page) for spans_of_page in read.values())


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """How many positions lie in at least one of the ``spans``."""
    count = reached = 0
    for start, end in sorted(spans):
        count += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return count
