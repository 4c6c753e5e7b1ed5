"""Closed forms of the costs of attention, against counting one by one."""

from __future__ import annotations

from itertools import product

import pytest
from visible_pairs import pairs

from tileops_core.record.costs.requests import lengths, seen_keys, slots_read, visible_pairs


@pytest.mark.parametrize("queries", [0, 1, 3, 8])
@pytest.mark.parametrize("keys", [0, 1, 5, 6])
def test_visible_pairs_and_keys(queries, keys):
    for mask in product((False, True), (-1, 0, 2, 9), (-1, 0, 1, 9)):
        seen = pairs(queries, keys, *mask)
        assert visible_pairs(queries, keys, *mask) == len(seen), mask
        assert seen_keys(queries, keys, mask[1]) == len({j for _, j in seen}), mask


def test_the_keys_that_are_seen_are_the_last_ones():
    assert {j for _, j in pairs(2, 6, True, 1, -1)} == {3, 4, 5}


def test_lengths_of_segments():
    assert lengths([0, 3, 3, 7]) == [3, 0, 4]
    assert lengths([0]) == []


@pytest.mark.parametrize(
    ("table", "spans"),
    [
        ([[0, 1, 2], [3, 4, 5]], [(0, 9), (0, 4)]),
        ([[0, 1, 2], [0, 1, 7]], [(0, 9), (0, 10)]),  # a common prefix, then one page each
        ([[0, 1, 2], [0, 1, 7]], [(3, 9), (5, 5)]),  # a window; a request that reads nothing
        ([[3, 3, 3]], [(2, 11)]),
        ([[0], [0]], [(0, 1), (3, 4)]),
        ([[], []], [(0, 0), (0, 0)]),
    ],
)
def test_slots_that_are_read(table, spans):
    slots = {
        (pages[t // 4], t % 4)
        for pages, (start, end) in zip(table, spans, strict=True)
        for t in range(start, end)
    }
    assert slots_read(table, spans, 4) == len(slots)
