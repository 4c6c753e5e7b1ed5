"""Whether two configurations of a kernel compute the same."""

from __future__ import annotations

import pytest
import torch

from tileops_core.kernels.agreement import disagreement, tolerance

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_difference_of_rounding_is_none(dtype):
    one = torch.ones(8, dtype=dtype)
    other = one.clone()
    other[3] += tolerance(dtype) / 2
    assert disagreement(one, other) is None


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_wrong_number_is_told(dtype):
    one = torch.ones(8, dtype=dtype)
    other = one.clone()
    other[3] += 0.5
    assert "is off by 0.5" in disagreement(one, other)


def test_what_is_small_beside_the_greatest_result_may_differ():
    one = torch.tensor([1e4, 1e-6])
    assert disagreement(one, torch.tensor([1e4, 2e-6])) is None


def test_a_float8_may_be_its_neighbor():
    one = torch.tensor([1.0, 0.5]).to(torch.float8_e4m3fn)
    assert disagreement(one, torch.tensor([1.125, 0.5]).to(torch.float8_e4m3fn)) is None
    assert disagreement(one, torch.tensor([2.0, 0.5]).to(torch.float8_e4m3fn)) is not None


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8], ids=str)
def test_whole_numbers_are_the_same(dtype):
    one = torch.ones(4, dtype=dtype)
    assert disagreement(one, one.clone()) is None
    assert disagreement(one, torch.zeros_like(one)) == "gives other numbers"


def test_nans_and_infinities_stand_at_the_same_places():
    one = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    assert disagreement(one, one.clone()) is None
    assert "NaNs" in disagreement(one, one.flip(0))
    assert "NaNs" in disagreement(one.nan_to_num(), one)


def test_shape_and_dtype_are_the_same():
    one = torch.ones(2, 3)
    assert "[3, 2]" in disagreement(one, torch.ones(3, 2))
    assert "float64" in disagreement(one, one.double())


def test_results_may_be_several_and_some_of_them_none():
    one = [(torch.ones(2), None), 3]
    assert disagreement(one, [(torch.ones(2), None), 3]) is None
    assert disagreement(one, [(torch.ones(2),), 3]) == "returns another number of results"
    assert "in place of a tensor" in disagreement(one, [(None, None), 3])
    assert "in place of None" in disagreement(one, [(torch.ones(2), torch.ones(1)), 3])
    assert disagreement(one, [(torch.ones(2), None), 4]) == "returns 4 in place of 3"


def test_empty_results_agree():
    assert disagreement(torch.ones(0, 3), torch.ones(0, 3)) is None
