"""Numbers in few characters."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tileops_core.pages.quantities import engineering, numbers, shape


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (1000, "1 k"),
        (4096, "4.10 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (34_359_738_368, "34.4 G"),
        (21 * 10**12, "21 T"),
        (10**27, "1000000 Z"),
        (Fraction(1, 4), "0.25"),
        (Fraction(1, 3), "0.333"),
        (Fraction(1, 6144), "0.000163"),
        (Fraction(5000, 3), "1.67 k"),
    ],
)
def test_a_number_has_three_digits_and_a_prefix(value, text) -> None:
    assert engineering(value) == text


def test_a_half_goes_to_the_even_digit() -> None:
    assert engineering(Fraction(1125, 1000)) == "1.12"
    assert engineering(Fraction(1135, 1000)) == "1.14"


@pytest.mark.parametrize(
    ("lengths", "text"), [((4096, 8, 1), "4096×8×1"), ((3,), "3"), ((0, 2), "0×2"), ((), "[]")]
)
def test_a_shape_is_its_lengths(lengths, text) -> None:
    assert shape(lengths) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "[]"),
        ([5, 5], "[5, 5]"),
        ([1, 2, 3, 4, 5, 6], "[1, 2, 3, 4, 5, 6]"),
        ([5, 5, 5], "3 times 5"),
        ([4, 1, 9, 1, 1, 1, 3], "7 from 1 to 9, 20 in all"),
    ],
)
def test_a_long_list_is_told_by_its_length_and_bounds(values, text) -> None:
    assert numbers(values) == text
