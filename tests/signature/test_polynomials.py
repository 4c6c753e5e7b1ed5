"""Whole numbers as sums of products."""

from __future__ import annotations

import pytest

from tileops_core.signature.polynomials import difference
from tileops_core.spec.grammar import parse_expression


def gap(left, right):
    def at(*_):
        return None

    return difference(parse_expression(left, at), parse_expression(right, at))


@pytest.mark.parametrize(
    ("left", "right", "due"),
    [
        ("a * b", "b * a", 0),
        ("a + 3", "a", 3),
        ("a * (b + c)", "c * a + b * a", 0),
        ("(a + b) * (a + b)", "a * a + 2 * a * b + b * b", 0),
        ("a - a", "0", 0),
        ("-(a - 2)", "-a", 2),
        ("a // b", "a // b", 0),
        ("a", "b", None),
        ("a * a", "a", None),
    ],
)
def test_numbers_differ_by_a_number_or_depend_on_the_call(left, right, due):
    assert gap(left, right) == due


def test_a_long_sum_is_left_alone():
    long = " * ".join(f"(a{i} + b{i})" for i in range(9))
    assert gap(long, long) is None
