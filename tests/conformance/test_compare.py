from __future__ import annotations

import math

import pytest
import torch

from tileops_core.conformance import compare

NAN, INF = math.nan, math.inf


def f32(*values):
    return torch.tensor(values, dtype=torch.float32)


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_close_allows_a_difference_and_no_more():
    allowed = f64(0.1, 0.1)
    assert compare.close(f32(1.05, 2.0), f64(1.0, 2.0), allowed) is None
    wrong = compare.close(f32(1.05, 2.5), f64(1.0, 2.0), allowed)
    assert wrong.startswith("differs, by up to 5 times what is allowed: 1 of 2 elements (50.0%)")
    assert wrong.endswith("at [1]: 2.5, due is 2")


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(NAN, 1.0), (1.0, NAN), (INF, 1.0), (-INF, INF), (INF, NAN), (1.0, INF)],
)
def test_close_wants_nan_and_infinity_where_they_are_due(actual, expected):
    wrong = compare.close(f32(0.0, actual), f64(0.0, expected), f64(1e3))
    assert "NaN or infinity stands where it should not, or not where: 1 of 2" in wrong


@pytest.mark.parametrize(("actual", "expected"), [(NAN, NAN), (INF, INF), (-INF, -INF)])
def test_close_takes_nan_and_infinity_where_they_are_due(actual, expected):
    assert compare.close(f32(actual), f64(expected), f64(1e-3)) is None


def test_what_overflows_the_dtype_is_infinite():
    half = torch.tensor([INF, 65504.0], dtype=torch.float16)
    assert compare.close(half, f64(1e6, 65504.0), f64(1.0)) is None
    assert compare.close(half[1:], f64(1e6), f64(1.0)) is not None


def test_either_side_of_the_last_number_is_right():
    for value in (65504.0, INF):
        half = torch.tensor([value], dtype=torch.float16)
        assert compare.close(half, f64(65519.0), f64(32.0)) is None


def test_close_compares_complex_numbers_by_their_parts():
    actual = torch.tensor([1 + 2j], dtype=torch.complex64)
    assert compare.close(actual, actual.to(torch.complex128), f64(1e-6)) is None
    assert compare.close(actual, torch.tensor([1 + 3j], dtype=torch.complex128), f64(1e-6))


def test_a_shape_is_told_with_the_one_due():
    for comparator in (compare.exact, compare.one_code, compare.as_sets):
        wrong = comparator(torch.zeros(2, 3), torch.zeros(3, 2))
        assert wrong == "has shape (2, 3), due is (3, 2)"


def test_exact_wants_the_same_bits():
    assert compare.exact(f32(1.0, NAN, -0.0), f32(1.0, NAN, -0.0)) is None
    assert "differs in bits: 1 of 1" in compare.exact(f32(0.0), f32(-0.0))
    assert compare.exact(torch.tensor([True]), torch.tensor([False])) is not None


def test_one_code_takes_neighbors():
    ints = torch.tensor([3, -4], dtype=torch.int8)
    assert compare.one_code(ints, ints + 1) is None
    assert "is up to 2 codes away: 1 of 2" in compare.one_code(ints, ints + torch.tensor([2, 0]))


def test_one_code_knows_the_order_of_small_floats():
    codes = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn)
    assert compare.one_code(codes[1:], codes[:-1]) is None
    assert compare.one_code(codes[2:], codes[:-2]) is not None
    below = torch.tensor([-0.0], dtype=torch.float8_e4m3fn)
    assert compare.one_code(below, codes[:1]) is None


def test_sets_may_come_in_any_order():
    one = torch.tensor([[3, 1, 2], [7, 8, -1]])
    assert compare.as_sets(one, one.flip(-1)) is None
    assert compare.as_sets(one, torch.tensor([[3, 1, 2], [7, 9, -1]])) is not None


SCORES = f32(5.0, 1.0, 5.0, 5.0)


@pytest.mark.parametrize("chosen", [(0, 2), (2, 3), (3, 0)])
def test_of_equal_scores_any_may_be_chosen(chosen):
    assert compare.ties(torch.tensor(chosen), torch.tensor([0, 2]), SCORES) is None


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ((0, 1), "lower scores"),
        ((0, 0), "twice"),
        ((0, 4), "no index below 4"),
        ((0, -2), "no index"),
        ((0, -1), "more or fewer"),
    ],
)
def test_worse_choices_are_told(chosen, says):
    assert says in compare.ties(torch.tensor(chosen), torch.tensor([0, 2]), SCORES)


def test_slots_without_a_choice_stay_without():
    due = torch.tensor([2, -1])
    assert compare.ties(due, due, SCORES) is None
    assert compare.ties(torch.tensor([2, 0]), due, SCORES) is not None


def test_masked_looks_at_what_counts():
    counts = torch.tensor([True, False])
    assert compare.masked(f32(1.0, NAN), f64(1.0, 2.0), f64(0.1), counts) is None
    assert compare.masked(f32(NAN, 2.0), f64(1.0, 2.0), f64(0.1), counts) is not None


def test_draws_come_as_often_as_is_due():
    generator = torch.Generator().manual_seed(0)
    due = torch.tensor([0.5, 0.3, 0.2, 0.0])
    drawn = torch.multinomial(due, 10_000, replacement=True, generator=generator)
    assert compare.distribution(drawn, due) is None
    other = torch.multinomial(due[[1, 0, 2, 3]], 10_000, replacement=True, generator=generator)
    assert "too often or too rarely in 10000" in compare.distribution(other, due)
    assert "probability 0" in compare.distribution(torch.tensor([3]), due)
    assert "outside of 0 to 3" in compare.distribution(torch.tensor([4]), due)


def test_check_close_raises_with_the_dtype():
    compare.check_close(torch.tensor([1]), torch.tensor([1]))
    with pytest.raises(AssertionError, match=r"torch.float16: differs, by up to"):
        compare.check_close(torch.ones(1).half(), f64(1.1))
