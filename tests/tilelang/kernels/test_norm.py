"""Norms: special values, several axes, the order of rounding, degenerate rows."""

from __future__ import annotations

import math

import pytest
import tilelang_cases as cases
import torch
from tilelang_cases import DTYPES

from tileops_core import ops
from tileops_core.kernels import tune_store, tuning
from tileops_tilelang.kernels.norm import RMSNormTileLang

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def tilelang(op, *args, **params):
    return getattr(ops, op)(*args, **params, target="tilelang")


@every_dtype
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 7, 11, 3)])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_several_trailing_axes_are_one_row(dtype, shape, axes, check_close):
    x, normalized = torch.randn(shape).to(dtype), shape[-axes:]
    w, b = torch.randn(2, *normalized).to(dtype)
    flat = x.reshape(-1, math.prod(normalized))
    wide = flat.double(), w.flatten().double(), b.flatten().double()
    exact = cases.rms_norm(*wide[:2])[0]
    result = tilelang("RMSNormFwdOp", normalized, cases.EPS)(x, w)
    assert result.shape == shape
    check_close(result.view_as(flat), exact.value, terms=exact.terms, magnitude=exact.magnitude)
    exact = cases.layer_norm(*wide)[0]
    result = tilelang("LayerNormFwdOp", normalized, cases.EPS)(x, w, b)
    check_close(result.view_as(flat), exact.value, terms=exact.terms, magnitude=exact.magnitude)


@every_dtype
def test_a_vector_is_one_row(dtype, check_close):
    x = torch.randn(40).to(dtype)
    exact = cases.rms_norm(x.double())[0]
    result = tilelang("RMSNormFwdOp", 40, cases.EPS)(x)
    check_close(result, exact.value, terms=40, magnitude=exact.magnitude)


@every_dtype
def test_zero_columns_give_none(dtype):
    """PIPE-01."""
    x, row = torch.ones(3, 0, dtype=dtype), torch.ones(0, dtype=dtype)
    assert tilelang("RMSNormFwdOp", 0)(x, row).shape == (3, 0)
    assert tilelang("LayerNormFwdOp", 0)(x, row, row).shape == (3, 0)
    for result in tilelang("FusedAddRMSNormFwdOp")(x, x, row):
        assert result.shape == (3, 0)
    for result in tilelang("FusedAddLayerNormFwdOp")(x, x, row, row):
        assert result.shape == (3, 0)


@every_dtype
def test_no_eps_is_the_epsilon_of_float32(dtype):
    """NRM-01."""
    x = torch.tensor([[1e-3, 2e-3]], dtype=dtype)
    expected = x.double() / (x.double().pow(2).mean() + 2.0**-23).sqrt()
    torch.testing.assert_close(tilelang("RMSNormFwdOp", 2)(x), expected.to(dtype))
    zeros = torch.zeros(1, 2, dtype=dtype)
    assert not tilelang("RMSNormFwdOp", 2)(zeros).any()
    assert tilelang("RMSNormFwdOp", 2, 0.0)(zeros).isnan().all()


@every_dtype
def test_the_sign_of_a_zero_stays(dtype):
    x = torch.tensor([[-0.0, 0.0, 1.0, -1.0]], dtype=dtype)
    for op in (tilelang("RMSNormFwdOp", 4), tilelang("LayerNormFwdOp", 4)):
        assert op(x).signbit().tolist()[0][2:] == [False, True]
    assert tilelang("RMSNormFwdOp", 4)(x).signbit().tolist() == [[True, False, False, True]]


@every_dtype
def test_infinity_spoils_its_own_row_as_in_the_formula(dtype):
    x = torch.ones(3, 40, dtype=dtype)
    x[1, 5] = math.inf
    result = tilelang("RMSNormFwdOp", 40)(x)
    assert result[1, 5].isnan()
    assert result[1, :5].tolist() == [0] * 5
    assert result[[0, 2]].isfinite().all()
    result = tilelang("LayerNormFwdOp", 40)(x)
    assert result[1].isnan().all()
    assert result[[0, 2]].isfinite().all()


@every_dtype
def test_denormal_elements_count(dtype, check_close):
    x = (torch.randn(5, 40, dtype=torch.float64) * torch.finfo(dtype).tiny / 8).to(dtype)
    assert x.any()
    w = torch.full((40,), 2.0**10, dtype=dtype)
    exact = cases.rms_norm(x.double(), w.double())[0]
    check_close(tilelang("RMSNormFwdOp", 40, cases.EPS)(x, w), exact.value, terms=40)


@every_dtype
def test_a_constant_row_is_the_bias(dtype):
    x, b = torch.full((2, 40), 7.0, dtype=dtype), torch.arange(40).to(dtype)
    op = tilelang("LayerNormFwdOp", 40)
    assert torch.equal(op(x, torch.ones_like(b), b), b.expand(2, 40))


def test_a_large_mean_does_not_drown_the_variance():
    x = torch.tensor([[10_000.0, 10_001, 10_002]])
    result = tilelang("LayerNormFwdOp", 3, 0.0)(x)
    torch.testing.assert_close(result, torch.tensor([[-math.sqrt(1.5), 0, math.sqrt(1.5)]]))


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_the_weight_is_applied_before_the_only_rounding(dtype):
    """NRM-05."""
    x, w = torch.randn(8, 4096).to(dtype), torch.randn(4096).to(dtype)
    exact = cases.rms_norm(x.double(), w.double())[0].value
    result = tilelang("RMSNormFwdOp", 4096, cases.EPS)(x, w)
    normal = exact.abs() > torch.finfo(dtype).tiny
    error = ((result.double() - exact).abs() / exact.abs())[normal]
    assert error.max() < 0.505 * torch.finfo(dtype).eps


def test_the_sum_that_overflows_float16_is_normalized_before_it_is_rounded():
    x = torch.tensor([[60000.0, -60000.0, 1.0, 2.0]]).half()
    ones, zeros = torch.ones(4).half(), torch.zeros(4).half()
    y, r = tilelang("FusedAddRMSNormFwdOp")(x, x, ones)
    assert r.tolist() == [[math.inf, -math.inf, 2, 4]]
    torch.testing.assert_close(
        y[0, :2].float(), torch.tensor([1.0, -1.0]) * 2**0.5, rtol=1e-3, atol=0
    )
    y, r = tilelang("FusedAddLayerNormFwdOp")(x, x, ones, zeros)
    assert r.tolist() == [[math.inf, -math.inf, 2, 4]]
    assert y.isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_the_fused_norm_reads_the_sum_before_it_is_rounded(dtype):
    step = torch.finfo(dtype).eps
    x = torch.tensor([[1.0, 1.0]], dtype=dtype)
    residual = torch.tensor([[0.0, step / 4]], dtype=dtype)
    ones, zeros = torch.ones(2, dtype=dtype), torch.zeros(2, dtype=dtype)
    y, r = tilelang("FusedAddLayerNormFwdOp", eps=0.0)(x, residual, ones, zeros)
    assert torch.equal(r, x)
    assert y.tolist() == [[-1, 1]]


@every_dtype
def test_a_tensor_may_be_added_to_itself(dtype):
    """PIPE-11."""
    x, row = torch.randn(5, 40).to(dtype), torch.ones(40, dtype=dtype)
    for op, rows in (("FusedAddRMSNormFwdOp", [row]), ("FusedAddLayerNormFwdOp", [row, row])):
        same, copied = tilelang(op)(x, x, *rows), tilelang(op)(x, x.clone(), *rows)
        assert all(torch.equal(a, b) for a, b in zip(same, copied, strict=True))
        assert torch.equal(same[1], x + x)


def test_weights_of_one_op_may_come_and_go():
    x, w, b = torch.randn(3, 40), torch.randn(40), torch.randn(40)
    op = tilelang("LayerNormFwdOp", 40)
    for weight, bias in ((None, None), (w, None), (None, b), (w, b), (None, None)):
        expected = torch.nn.functional.layer_norm(x, (40,), weight, bias)
        torch.testing.assert_close(op(x, weight, bias), expected)


CONFIGS = RMSNormTileLang.autotune_configs


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("length", [1, 127, 129, 4097])
def test_every_number_of_partial_sums_gives_the_norm(config, length, check_close):
    """Around each number of them too."""
    kernel = RMSNormTileLang(torch.float32, length, cases.EPS, True).with_config(config)
    x, w = torch.randn(3, length), torch.randn(length)
    exact = cases.rms_norm(x.double(), w.double())[0]
    check_close(kernel(x, w), exact.value, terms=exact.terms, magnitude=exact.magnitude)
    assert kernel.config == config


def test_the_norm_is_tuned_at_the_next_call(monkeypatch):
    """With the slowest first, so that the choice shows."""
    monkeypatch.setattr(tune_store, "chosen", lambda key, count: None)
    monkeypatch.setattr(tune_store, "keep", lambda key, number, seconds: None)
    seconds = iter(range(len(CONFIGS), 0, -1))
    monkeypatch.setattr(tuning, "measure", lambda run, device: float(next(seconds)))
    op, x = ops.RMSNormFwdOp(129, target="tilelang"), torch.randn(5, 129)
    before = op(x)
    op.request_tune()
    torch.testing.assert_close(op(x), before)
    assert op.kernel_config() == CONFIGS[-1]
