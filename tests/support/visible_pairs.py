"""Who sees whom in attention, one pair after the other."""

from __future__ import annotations

from itertools import product


def pairs(queries, keys, causal=False, left=-1, right=-1):
    """Every (query, key) pair that a mask leaves, with the last query at the last key."""
    return [
        (i, j)
        for i, j in product(range(queries), range(keys))
        for p in [i + keys - queries]
        if not (causal and j > p)
        if not (left >= 0 and j < p - left)
        if not (right >= 0 and j > p + right)
    ]
