from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops_core.signature.primitives import PRIMITIVES, PrimitiveError
from tileops_core.signature.values import LISTS, MAX_ITEMS

PROFILE = settings(max_examples=100, derandomize=True, database=None, deadline=None)


def run(name, *args):
    return LISTS[name].run(*args)


def test_a_value_is_repeated():
    assert run("repeat", 512, 3) == (512, 512, 512)
    assert run("repeat", -1, 0) == ()


def test_a_total_is_shared_out_in_parts_that_differ_by_at_most_one():
    assert run("balanced_sizes", 10, 4) == (3, 3, 2, 2)
    assert run("balanced_sizes", 2, 3) == (1, 1, 0)
    assert run("balanced_sizes", 0, 0) == ()


@PROFILE
@given(st.integers(0, 10**6), st.integers(1, 300))
def test_nothing_of_a_total_is_lost(total, count):
    sizes = run("balanced_sizes", total, count)
    assert (sum(sizes), len(sizes)) == (total, count)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("repeat", (1, -1), "repeat: a list has from 0"),
        ("repeat", (1, MAX_ITEMS + 1), str(MAX_ITEMS)),
        ("balanced_sizes", (1, 2**40), "balanced_sizes: a list has from 0"),
        ("balanced_sizes", (3, 0), "3 cannot be shared out in 0"),
        ("balanced_sizes", (-3, 2), "-3 cannot"),
    ],
)
def test_lists_that_are_none_are_refused(name, args, message):
    with pytest.raises(PrimitiveError, match=message):
        run(name, *args)


def test_a_list_is_no_quantity_of_a_call():
    assert not LISTS.keys() & PRIMITIVES.keys()
