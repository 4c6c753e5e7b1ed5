from __future__ import annotations

import pytest
import torch

from tileops_core.conformance.tolerances import TABLE, accumulation, bound

FLOATS = list(TABLE)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_rounding_is_half_the_distance_of_neighbors(dtype):
    assert TABLE[dtype].rounding == torch.finfo(dtype).eps / 2


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_step_is_no_smaller_than_the_dtype_has(dtype):
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    assert smallest <= TABLE[dtype].step <= torch.finfo(dtype).smallest_normal


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_number_has_its_reason(dtype):
    assert "float" in TABLE[dtype].why


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_results_of_16_bits_are_summed_in_float32(dtype):
    assert accumulation(dtype) == TABLE[torch.float32].rounding


@pytest.mark.parametrize("terms", [1, 100, 10_000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_sum_in_float32_that_is_rounded_once_is_within_the_bound(terms, dtype):
    x = torch.randn(200, terms, generator=torch.Generator().manual_seed(0)).to(dtype)
    total = torch.zeros(200)
    for part in x.float().unbind(1):
        total += part
    exact, size = x.double().sum(1), x.double().abs().sum(1)
    allowed = bound(exact, dtype, terms=terms, magnitude=size / terms**0.5)
    assert ((total.to(dtype).double() - exact).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_sum_in_16_bits_is_not(dtype):
    x = (torch.rand(50, 4096, generator=torch.Generator().manual_seed(0)) + 0.5).to(dtype)
    total = torch.zeros(50, dtype=dtype)
    for part in x.unbind(1):
        total = total + part
    exact = x.double().sum(1)
    beyond = (total.double() - exact).abs() > bound(exact, dtype, terms=4096)
    assert beyond.double().mean() > 0.7


def test_factors_that_were_rounded_widen_the_bound():
    exact = torch.ones(1, dtype=torch.float64)
    plain = bound(exact, torch.float32, magnitude=10.0)
    rounded = bound(exact, torch.float32, magnitude=10.0, inner=torch.bfloat16)
    assert torch.allclose(rounded - plain, torch.full((1,), 10 * 2.0**-8, dtype=torch.float64))
