"""Softmax along every axis into every dtype, and argmax."""

from __future__ import annotations

import math

import pytest
import tilelang_cases as cases
import torch
from tilelang_cases import DTYPES

from tileops_core import ops

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def softmax(dim, dtype=None):
    return ops.SoftmaxFwdOp(dim, dtype=dtype, target="tilelang")


def argmax(*args):
    return ops.ArgmaxFwdOp(*args, target="tilelang")


@every_dtype
@pytest.mark.parametrize("dim", [-4, -3, -2, -1, 0, 1, 2, 3])
def test_softmax_along_every_axis_equals_float64(dtype, dim, check_close):
    """MAN-09."""
    x = (4 * torch.randn(2, 33, 5, 17)).to(dtype)
    exact = cases.softmax(x.double(), dim)[0]
    result = softmax(dim)(x)
    assert result.is_contiguous()
    check_close(result, exact.value, terms=exact.terms, magnitude=exact.magnitude)


@every_dtype
@pytest.mark.parametrize("out", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_casts_before_anything_else(dtype, out, dim, check_close):
    x = (4 * torch.randn(70, 33)).to(dtype)
    exact = cases.softmax(x.to(out).double(), dim)[0]
    result = softmax(dim, out)(x)
    assert result.dtype is out
    check_close(result, exact.value, terms=exact.terms, magnitude=exact.magnitude)


def test_what_overflows_the_dtype_that_is_asked_for_makes_its_row_nan():
    x = torch.tensor([[1e5, 1.0], [2.0, 1.0]])
    result = softmax(1, torch.float16)(x)
    assert torch.equal(result.isnan(), torch.softmax(x, 1, torch.float16).isnan())
    assert result.isnan().tolist() == [[True, True], [False, False]]


@every_dtype
def test_softmax_of_special_values_is_torchs(dtype):
    inf, nan = math.inf, math.nan
    x = torch.tensor(
        [[-inf, -inf], [-inf, 0.0], [inf, 0.0], [nan, 0.0], [-0.0, 0.0], [inf, -inf]], dtype=dtype
    )
    result = softmax(-1)(x)
    torch.testing.assert_close(result, torch.softmax(x, -1), equal_nan=True)


@every_dtype
def test_large_logits_do_not_overflow(dtype):
    most = torch.finfo(dtype).max
    x = torch.tensor([[most, most, -most], [-most, -most, -most]], dtype=dtype)
    expected = torch.tensor([[0.5, 0.5, 0.0], [1 / 3] * 3]).to(dtype)
    torch.testing.assert_close(softmax(-1)(x), expected)


@every_dtype
def test_a_probability_below_the_normal_range_is_kept(dtype, check_close):
    x = torch.tensor([[0.0, math.log(torch.finfo(dtype).tiny) - 2]]).to(dtype)
    exact = cases.softmax(x.double())[0]
    result = softmax(-1)(x)
    assert 0 < result[0, 1] < torch.finfo(dtype).tiny
    check_close(result, exact.value, magnitude=exact.magnitude)


@every_dtype
@pytest.mark.parametrize("op", [softmax(0), softmax(-1), argmax(), argmax(0), argmax(-1, True)])
def test_a_scalar_is_a_row_of_one(op, dtype):
    for value in (3.0, -math.inf):
        x = torch.tensor(value, dtype=dtype)
        result = op(x)
        assert result.shape == ()
        if result.dtype is torch.int64:
            assert result.item() == 0
        else:
            torch.testing.assert_close(result, torch.softmax(x, 0), equal_nan=True)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_of_nothing_is_nothing(shape, dim):
    """PIPE-01."""
    assert softmax(dim)(torch.empty(shape)).shape == shape


@every_dtype
@pytest.mark.parametrize("dim", [None, -3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("shape", [(3, 41, 5), (2, 1, 700), (1, 1, 1), (64, 33, 2)])
def test_argmax_is_torchs_bit_for_bit(dtype, dim, keepdim, shape):
    """NUM-19: with many ties."""
    x = torch.randint(-3, 4, shape).to(dtype)
    result, expected = argmax(dim, keepdim)(x), torch.argmax(x, dim, keepdim)
    assert result.shape == expected.shape
    assert result.dtype is torch.int64
    # torch does not promise which of several; the first is what the entry says.
    flat = x.flatten() if dim is None else x
    first = (
        (flat == flat.amax(0 if dim is None else dim, True)).int().argmax(0 if dim is None else dim)
    )
    assert torch.equal(result.flatten(), first.flatten())
    assert torch.equal(result, expected)


@every_dtype
@pytest.mark.parametrize("at", [0, 1, 31, 32, 33, 511, 512, 1000, 1023])
def test_the_first_nan_is_the_maximum(dtype, at):
    """NUM-03: wherever it stands, and however many follow."""
    x = torch.randn(3, 1024).to(dtype)
    x[1, at:] = math.nan
    x[2, at] = math.nan
    x[2, 0 if at > 5 else 1000] = math.inf
    assert argmax(-1)(x)[1:].tolist() == [at, at]


@every_dtype
def test_a_nan_of_either_sign_counts(dtype):
    """NUM-03."""
    x = torch.tensor([[1, 2, -math.nan, math.nan]], dtype=dtype)
    assert argmax(-1)(x).tolist() == [2]


@every_dtype
@pytest.mark.parametrize("width", [1, 31, 33, 513])
def test_the_maximum_of_minus_infinities_is_the_first(dtype, width):
    """NUM-04."""
    x = torch.full((2, width), -math.inf, dtype=dtype)
    x[1, -1] = -torch.finfo(dtype).max
    assert argmax(-1)(x).tolist() == [0, width - 1]


@every_dtype
def test_zeros_of_either_sign_are_equal(dtype):
    assert argmax(-1)(torch.tensor([[-0.0, 0.0], [0.0, -0.0]], dtype=dtype)).tolist() == [0, 0]


@every_dtype
def test_denormal_numbers_differ_from_zero(dtype):
    """NUM-09."""
    step = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    x = torch.tensor([[0.0, step, 0.0], [-step, 0.0, -step], [step, 2 * step, step]], dtype=dtype)
    assert x[0, 1] > 0
    assert argmax(-1)(x).tolist() == [1, 1, 1]


@every_dtype
def test_argmax_of_random_numbers_of_any_bits_is_torchs(dtype):
    kind = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    bound = torch.iinfo(kind)
    x = torch.randint(bound.min, bound.max + 1, (500, 77), dtype=kind).view(dtype)
    assert torch.equal(argmax(-1)(x), torch.argmax(x, -1))


@pytest.mark.slow
def test_places_are_counted_in_64_bits():
    """PIPE-13: only the last row of more than 2**31 elements holds anything."""
    rows, columns = 2**16 + 1, 2**15
    x = torch.zeros(rows, columns, dtype=torch.float16)  # pages that nobody writes cost nothing
    x[-1, 12345] = 1
    result = argmax(-1)(x)
    assert result[-1].item() == 12345
    assert not result[:-1].any()
