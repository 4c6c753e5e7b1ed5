"""Norms: the meaning of eps, the order of rounding, degenerate rows."""

from __future__ import annotations

import math

import pytest
import torch

from tileops_reference.functions.norm import (
    fused_add_layer_norm,
    fused_add_rms_norm,
    layer_norm,
    rms_norm,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
FEW, MANY = 1, 9000
"""Rows of two elements: on either side of where RMSNorm changes its road."""


@pytest.mark.parametrize("rows", [FEW, MANY])
@pytest.mark.parametrize(
    ("dtype", "row", "expected"),
    [
        (torch.float32, [1e-4, 2e-4], [0.2633, 0.5267]),
        (torch.float16, [1e-3, 2e-3], [0.6177, 1.2354]),
        (torch.bfloat16, [0.0, 0.0], [0.0, 0.0]),
        (torch.float16, [0.0, 0.0], [0.0, 0.0]),
    ],
    ids=str,
)
def test_no_eps_is_the_epsilon_of_float32_for_every_dtype(rows, dtype, row, expected):
    """NRM-01."""
    x = torch.tensor([row], dtype=dtype).repeat(rows, 1)
    result = rms_norm(x, normalized_shape=(2,))
    torch.testing.assert_close(
        result, torch.tensor([expected], dtype=dtype).expand(rows, 2), rtol=5e-4, atol=0
    )


@pytest.mark.parametrize("rows", [FEW, MANY])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_eps_of_zero_is_zero(rows, dtype):
    """NRM-01: a row of zeros is 0/0."""
    result = rms_norm(torch.zeros(rows, 2, dtype=dtype), normalized_shape=(2,), eps=0.0)
    assert result.isnan().all()


@pytest.mark.parametrize("rows", [2, 64])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_the_weight_is_applied_before_the_only_rounding(rows, dtype):
    """NRM-05."""
    x, weight = torch.randn(rows, 4096).to(dtype), torch.randn(4096).to(dtype)
    wide = x.double()
    exact = wide / (wide.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
    result = rms_norm(x, weight, normalized_shape=(4096,), eps=1e-6)
    # One rounding is half a step at most; rounding before the weight as well gives one.
    normal = exact.abs() > torch.finfo(dtype).tiny
    error = ((result.double() - exact).abs() / exact.abs())[normal]
    assert error.max() < 0.505 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [3, 400])
@pytest.mark.parametrize("width", [1, 7, 384, 2049])
def test_norms_of_any_width_equal_float64(dtype, rows, width, check_close):
    x, weight, bias = (torch.randn(s).to(dtype) for s in ((rows, width), (width,), (width,)))
    wide, w, b = x.double(), weight.double(), bias.double()
    exact = wide * (wide.pow(2).mean(-1, keepdim=True) + 1e-3).rsqrt() * w
    result = rms_norm(x, weight, normalized_shape=(width,), eps=1e-3)
    check_close(result, exact, terms=width)

    centered = wide - wide.mean(-1, keepdim=True)
    deviation = (centered.pow(2).mean(-1, keepdim=True) + 1e-3).sqrt()
    exact = centered / deviation * w + b
    size = wide.abs().amax(-1, keepdim=True) / deviation * w.abs() + b.abs()
    result = layer_norm(x, weight, bias, normalized_shape=(width,), eps=1e-3)
    check_close(result, exact, terms=width, magnitude=size)


@pytest.mark.parametrize("weight", [None, torch.tensor([2.0, 3.0])], ids=["no_weight", "weight"])
@pytest.mark.parametrize("bias", [None, torch.tensor([5.0, 7.0])], ids=["no_bias", "bias"])
def test_layer_norm_takes_weight_and_bias_by_themselves(weight, bias):
    x = torch.tensor([[1.0, 3.0]])
    result = layer_norm(x, weight, bias, normalized_shape=(2,), eps=0.0)
    w = [1, 1] if weight is None else weight.tolist()
    b = [0, 0] if bias is None else bias.tolist()
    assert result.tolist() == [[-w[0] + b[0], w[1] + b[1]]]


def test_layer_norm_uses_the_biased_variance_and_its_own_default():
    x = torch.tensor([[0.0, 1e-3]])
    expected = 5e-4 / math.sqrt(2.5e-7 + 1e-5)
    assert layer_norm(x, normalized_shape=(2,))[0, 1].item() == pytest.approx(expected, rel=1e-5)


def test_a_constant_row_is_the_bias():
    x, weight, bias = torch.full((2, 5), 7.0), torch.ones(5), torch.arange(5.0)
    assert torch.equal(layer_norm(x, weight, bias, normalized_shape=(5,)), bias.expand(2, 5))


def test_a_large_mean_does_not_drown_the_variance():
    x = torch.tensor([[10_000.0, 10_001, 10_002]])
    result = layer_norm(x, normalized_shape=(3,), eps=0.0)
    torch.testing.assert_close(result, torch.tensor([[-math.sqrt(1.5), 0, math.sqrt(1.5)]]))


@pytest.mark.parametrize("shape", [(2, 3, 5), (700, 3, 11)])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_several_trailing_axes_are_one_row(shape, axes):
    x = torch.randn(shape)
    normalized = shape[-axes:]
    weight = torch.randn(normalized)
    flat = x.reshape(*shape[:-axes], -1)
    parameters = {"normalized_shape": flat.shape[-1:], "eps": 1e-5}
    for function in (rms_norm, layer_norm):
        result = function(x, weight, normalized_shape=normalized, eps=1e-5)
        expected = function(flat, weight.flatten(), **parameters)
        torch.testing.assert_close(result, expected.reshape(shape))


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_norms_of_nothing_are_nothing(shape, dtype):
    x, row = torch.empty(shape, dtype=dtype), torch.ones(shape[1], dtype=dtype)
    assert rms_norm(x, row, normalized_shape=shape[1:]).shape == shape
    assert layer_norm(x, row, row, normalized_shape=shape[1:]).shape == shape
    output, total = fused_add_layer_norm(x, x, row, row)
    assert output.shape == total.shape == shape
    assert output.dtype is total.dtype is dtype
    output, total = fused_add_rms_norm(x, x, row)
    assert output.shape == total.shape == shape
    assert output.dtype is total.dtype is dtype


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_the_fused_norm_reads_the_sum_before_it_is_rounded(dtype):
    step = torch.finfo(dtype).eps
    # Next to 1 half a step vanishes from the rounded sum, but the norm still sees it.
    x = torch.tensor([[1.0, 1.0]], dtype=dtype)
    residual = torch.tensor([[0.0, step / 4]], dtype=dtype)
    ones, zeros = torch.ones(2, dtype=dtype), torch.zeros(2, dtype=dtype)
    output, total = fused_add_layer_norm(x, residual, ones, zeros, eps=0.0)
    assert torch.equal(total, x)
    assert output.tolist() == [[-1, 1]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_fused_norm_may_add_a_tensor_to_itself(dtype):
    x, ones = torch.randn(2, 8).to(dtype), torch.ones(8, dtype=dtype)
    output, total = fused_add_layer_norm(x, x, ones, ones)
    assert torch.equal(total, 2 * x)
    assert torch.equal(output, fused_add_layer_norm(x, x.clone(), ones, ones)[0])


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("rows", [2, 4000])
def test_a_row_that_is_not_finite_spoils_itself_alone(value, rows):
    x = torch.ones(rows, 8)
    x[0, 3] = value
    for result in (rms_norm(x, normalized_shape=(8,)), layer_norm(x, normalized_shape=(8,))):
        assert result[0].isnan().any()
        assert result[1:].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [3, 400])
@pytest.mark.parametrize("width", [1, 7, 384, 2049])
def test_the_fused_rms_norm_of_any_width_equals_float64(dtype, rows, width, check_close):
    x, residual, weight = (torch.randn(s).to(dtype) for s in ((rows, width), (rows, width), width))
    exact = x.double() + residual.double()
    output, total = fused_add_rms_norm(x, residual, weight, eps=1e-3)
    check_close(total, exact, magnitude=x.double().abs() + residual.double().abs())
    scale = (exact.pow(2).mean(-1, keepdim=True) + 1e-3).rsqrt() * weight.double()
    size = (x.double().abs() + residual.double().abs()) * scale.abs()
    check_close(output, exact * scale, terms=width, magnitude=size)


@pytest.mark.parametrize("rows", [1, 9000])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_the_fused_rms_norm_reads_the_sum_before_it_is_rounded(dtype, rows):
    step = torch.finfo(dtype).eps
    # Two sums that are rounded to one, and weights that show the difference.
    x = torch.tensor([1.0, 1.0], dtype=dtype).repeat(rows, 1)
    residual = torch.tensor([-step / 4, step / 2], dtype=dtype).repeat(rows, 1)
    weight = torch.tensor([512.0, 512.0], dtype=dtype)
    exact = x.double() + residual.double()
    exact = exact * exact.pow(2).mean(-1, keepdim=True).rsqrt() * 512
    output, total = fused_add_rms_norm(x, residual, weight, eps=0.0)
    assert torch.equal(total, x)
    assert torch.equal(output, exact.to(dtype))
    assert not torch.equal(output[:, 0], output[:, 1])


@pytest.mark.parametrize("rows", [2, 64])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_the_fused_rms_norm_applies_the_weight_before_its_rounding(dtype, rows):
    """NRM-05."""
    x, residual, weight = ((torch.rand(s) + 1).to(dtype) for s in ((rows, 4096),) * 2 + (4096,))
    exact = x.double() + residual.double()
    exact = exact / (exact.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
    output, _ = fused_add_rms_norm(x, residual, weight)
    error = (output.double() - exact).abs() / exact
    assert error.max() < 0.505 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_fused_rms_norm_may_add_a_tensor_to_itself(dtype):
    """PIPE-11."""
    x, ones = torch.randn(2, 8).to(dtype), torch.ones(8, dtype=dtype)
    output, total = fused_add_rms_norm(x, x, ones)
    assert torch.equal(total, 2 * x)
    assert torch.equal(output, fused_add_rms_norm(x, x.clone(), ones)[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 9000])
def test_rows_of_zeros_are_zero_and_without_eps_not_a_number(dtype, rows):
    zeros, ones = torch.zeros(rows, 2, dtype=dtype), torch.ones(2, dtype=dtype)
    assert not fused_add_rms_norm(zeros, -zeros, ones)[0].any()
    assert fused_add_rms_norm(zeros, zeros, ones, eps=0.0)[0].isnan().all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rows", [2, 4000])
def test_a_sum_that_is_not_finite_spoils_its_own_row(value, rows):
    x, residual, ones = torch.ones(rows, 8), torch.ones(rows, 8), torch.ones(8)
    residual[0, 3] = value
    output, total = fused_add_rms_norm(x, residual, ones)
    assert output[0].isnan().any()
    assert output[1:].isfinite().all()
    assert total.isfinite().sum() == total.numel() - 1


def test_sums_of_denormal_numbers_are_summed():
    x = torch.full((1, 4), 1e-40)
    output, total = fused_add_rms_norm(x, x, torch.ones(4), eps=0.25)
    assert torch.equal(total, 2 * x)
    assert torch.equal(output, 4 * x)
