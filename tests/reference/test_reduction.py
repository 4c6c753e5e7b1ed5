"""Sums and softmax: axes, empty axes, casts, special values."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tileops_reference.functions.reduction import (
    argmax,
    cumsum,
    implicit_softmax_dim,
    log_softmax,
    reduce_sum,
    softmax,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2, (1, -3), (0, 1, 2), (), [], None])
def test_sum_takes_one_axis_several_or_all(dim, keepdim):
    """MAN-09, NUM-01: an empty list of axes means all of them."""
    x = torch.arange(24.0).reshape(2, 3, 4)
    axes = {dim % 3} if isinstance(dim, int) else {axis % 3 for axis in dim or range(3)}
    expected = {}
    for index in itertools.product(range(2), range(3), range(4)):
        kept = tuple(0 if axis in axes else i for axis, i in enumerate(index))
        expected[kept] = expected.get(kept, 0) + x[index].item()
    result = reduce_sum(x, dim=dim, keepdim=keepdim)
    shape = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    assert list(result.shape) == (
        shape if keepdim else [n for axis, n in enumerate(x.shape) if axis not in axes]
    )
    for index, value in expected.items():
        assert result.reshape(shape)[index].item() == value


def test_an_empty_sum_is_zero(poisoned_memory):
    """PIPE-01."""
    assert torch.equal(reduce_sum(torch.empty(0, 8), dim=0), torch.zeros(8))
    assert reduce_sum(torch.empty(2, 0)).item() == 0


@pytest.mark.parametrize("dim", [None, 0, -1, ()])
def test_a_scalar_tensor_has_one_axis(dim):
    assert reduce_sum(torch.tensor(3.0), dim=dim).shape == ()
    if dim != ():
        assert softmax(torch.tensor(3.0), dim=dim).item() == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(100_000,), (5, 4099), (4099, 5)])
def test_long_sums_are_accumulated_in_float32(dtype, shape, check_close):
    x = (torch.rand(shape) / 8).to(dtype)
    for dim in range(len(shape)):
        check_close(reduce_sum(x, dim=dim), x.double().sum(dim), terms=shape[dim])


def test_sum_casts_first_and_returns_the_dtype_asked_for():
    x = torch.full((3,), 60_000.0)
    assert reduce_sum(x, dtype=torch.float16).isinf()
    result = reduce_sum(x.half(), dtype=torch.float32)
    assert result.dtype is torch.float32
    assert result.item() == 180_000


@pytest.mark.parametrize(("rank", "dim"), [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1), (5, 1)])
def test_softmax_without_an_axis_takes_torch_s(rank, dim):
    assert implicit_softmax_dim(rank) == dim
    x = torch.randn((2, 3, 4, 5, 6)[:rank])
    with pytest.warns(UserWarning, match="Implicit dimension"):
        assert torch.equal(softmax(x), torch.nn.functional.softmax(x))
    with pytest.warns(UserWarning, match="Implicit dimension"):
        assert torch.equal(log_softmax(x), torch.nn.functional.log_softmax(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [-4, -3, -2, -1, 0, 1, 2, 3])
def test_softmax_along_every_axis_equals_float64(dtype, dim, check_close):
    """MAN-09."""
    x = (4 * torch.randn(2, 33, 5, 17)).to(dtype)
    wide = x.double()
    expected = wide.exp() / wide.exp().sum(dim, keepdim=True)
    # A rounding of x - max is an error of that size of the exponential, relative.
    size = (1 + 2 * wide.abs().amax()) * expected
    check_close(softmax(x, dim=dim), expected, terms=x.shape[dim], magnitude=size)


def test_softmax_casts_before_anything_else():
    x = torch.tensor([1.0, 1.0 + 2**-12])
    result = softmax(x, dim=0, dtype=torch.bfloat16)
    assert result.dtype is torch.bfloat16
    assert torch.equal(result, torch.full((2,), 0.5, dtype=torch.bfloat16))
    wide = softmax(x.half(), dim=0, dtype=torch.float32)
    assert torch.equal(wide, torch.full((2,), 0.5))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_of_infinities_is_what_torch_gives(dtype, dim):
    rows = [[1.0, 2], [-math.inf, 1], [-math.inf, -math.inf], [math.inf, 1], [math.nan, 1]]
    x = torch.tensor(rows, dtype=dtype)
    result = softmax(x.T.contiguous() if dim == 0 else x, dim=dim)
    result = result.T if dim == 0 else result
    assert result[1].tolist() == [0, 1]
    assert result[2:].isnan().sum(1).tolist() == torch.softmax(x, 1)[2:].isnan().sum(1).tolist()
    assert result[2].isnan().all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_softmax_of_nothing_is_nothing(shape):
    assert softmax(torch.empty(shape), dim=-1).shape == shape


def test_shifts_do_not_change_softmax():
    x = torch.tensor([[1000.0, 1001], [-1000, -999]])
    assert torch.equal(softmax(x, dim=1)[0], softmax(x, dim=1)[1])
    assert softmax(x, dim=1).isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [-4, -3, -2, -1, 0, 1, 2, 3])
def test_log_softmax_along_every_axis_equals_float64(dtype, dim, check_close):
    """MAN-09."""
    x = (4 * torch.randn(2, 33, 5, 17)).to(dtype)
    wide = x.double()
    expected = wide - wide.exp().sum(dim, keepdim=True).log()
    size = 2 * wide.abs().amax() + math.log(x.shape[dim])
    check_close(log_softmax(x, dim=dim), expected, terms=x.shape[dim], magnitude=size)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_log_softmax_is_rounded_once(dtype, dim):
    x = (3 * torch.randn(513, 513)).to(dtype)
    exact = torch.log_softmax(x.double(), dim)
    error = ((log_softmax(x, dim=dim).double() - exact).abs() / exact.abs())[exact < -1]
    # One rounding is half a step at most; rounding x - max as well gives many.
    assert error.max() < 0.505 * torch.finfo(dtype).eps


def test_log_softmax_casts_before_anything_else():
    x = torch.tensor([1.0, 1.0 + 2**-12])
    narrow = log_softmax(x, dim=0, dtype=torch.bfloat16)
    assert narrow.dtype is torch.bfloat16
    assert narrow[0] == narrow[1]
    result = log_softmax(x.half(), dim=0, dtype=torch.float32)
    torch.testing.assert_close(result, torch.full((2,), -math.log(2)))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_softmax_of_infinities_is_what_torch_gives(dtype, dim):
    rows = [[1.0, 2], [-math.inf, 1], [-math.inf, -math.inf], [math.inf, 1], [math.nan, 1]]
    x = torch.tensor(rows, dtype=dtype)
    result = log_softmax(x.T.contiguous() if dim == 0 else x, dim=dim)
    result = result.T if dim == 0 else result
    assert result[1].tolist() == [-math.inf, 0]
    assert torch.equal(result.isnan(), torch.log_softmax(x.float(), 1).isnan())
    assert result[2:].isnan().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_softmax_has_no_exponential_that_overflows_or_vanishes(dtype):
    x = torch.tensor([[1000.0, 1001], [-1000, -999], [-2000, 2000]], dtype=dtype)
    result = log_softmax(x, dim=1)
    assert torch.equal(result[0], result[1])
    assert result[2].tolist() == [-4000, 0]
    assert log_softmax(torch.tensor(3.0), dim=0).item() == 0


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_log_softmax_and_cumsum_of_nothing_are_nothing(shape, dtype):
    assert log_softmax(torch.empty(shape, dtype=dtype), dim=-1).shape == shape
    assert cumsum(torch.empty(shape, dtype=dtype), dim=-1).shape == shape


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([1, math.nan, 3, math.nan], 1),
        ([1, 3, 3, 0], 1),
        ([-math.inf, -math.inf], 0),
        ([math.nan, math.inf], 0),
        ([math.inf, math.nan], 1),
        ([-1, -0.0, 0.0], 1),
        ([0, 6e-8], 1),
        ([5], 0),
    ],
    ids=str,
)
def test_argmax_is_the_first_of_the_greatest_and_nan_is_greater_than_all(dtype, values, index):
    """NUM-03."""
    x = torch.tensor(values, dtype=dtype)
    for result in (argmax(x), argmax(x, dim=0), argmax(x[None], dim=1)[0], argmax(x[:, None])):
        assert result.dtype is torch.int64
        assert result.item() == index
    assert argmax(x[:, None], dim=0).tolist() == [index]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("at", [0, 4095, 4096, 4999])
def test_argmax_sees_nan_in_any_part_of_a_long_row(dtype, at):
    """NUM-03."""
    x = torch.zeros(3, 5000, dtype=dtype)
    x[:, 2500] = math.inf
    x[1, at] = x[1, 4999] = math.nan
    assert argmax(x, dim=1).tolist() == [2500, at, 2500]
    assert argmax(x).item() == 5000 + at


@pytest.mark.parametrize(("shape", "dim"), [((4, 128, 512), 0), ((37, 101, 53), 1), ((3, 1, 9), 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_argmax_along_an_axis_is_the_loop_s(shape, dim, keepdim):
    """NUM-19."""
    x = torch.randint(0, 50, shape).float()  # many ties
    result = argmax(x, dim=dim, keepdim=keepdim)
    best = x.amax(dim, keepdim=True)
    first = torch.where(x == best, 0, 1).cumprod(dim).sum(dim, keepdim=keepdim)
    assert torch.equal(result, first)


def test_argmax_without_an_axis_flattens():
    """NUM-19."""
    x = torch.zeros(3, 4, 5)
    x[1, 2, 3] = x[2, 0, 0] = 7
    assert argmax(x).item() == 20 + 2 * 5 + 3
    assert argmax(x, keepdim=True).shape == (1, 1, 1)
    assert argmax(torch.tensor(3.0)).item() == argmax(torch.tensor(3.0), dim=-1).item() == 0


@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2])
def test_cumsum_runs_along_any_axis(dim):
    """MAN-09."""
    x = torch.arange(24.0).reshape(2, 3, 4)
    result, total = cumsum(x, dim=dim), torch.zeros(())
    for i, row in enumerate(x.unbind(dim)):
        total = total + row
        assert torch.equal(result.select(dim, i), total)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_the_running_sum_is_not_rounded(dtype, dim):
    # In 16 bits a sum of ones stops growing where the step becomes 2.
    x = torch.ones(5000, 3, dtype=dtype)
    result = cumsum(x if dim == 0 else x.T.contiguous(), dim=dim)
    expected = torch.arange(1, 5001).to(dtype)
    assert torch.equal(result[:, 1] if dim == 0 else result[1], expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(100_000,), (5, 4099), (4099, 5)])
def test_long_cumulative_sums_equal_float64(dtype, shape, check_close):
    x = torch.randn(shape).to(dtype)
    for dim, length in enumerate(shape):
        exact, size = x.double().cumsum(dim), x.double().abs().cumsum(dim)
        check_close(cumsum(x, dim=dim), exact, terms=length, magnitude=size)


def test_cumsum_casts_first_and_returns_the_dtype_asked_for():
    x = torch.full((3,), 60_000.0)
    assert cumsum(x, dim=0, dtype=torch.float16).tolist() == [60_000, math.inf, math.inf]
    result = cumsum(x.half(), dim=0, dtype=torch.float32)
    assert result.dtype is torch.float32
    assert result.tolist() == [60_000, 120_000, 180_000]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_not_finite_stays_in_the_sum_from_there_on(dtype):
    x = torch.tensor([[1, math.inf, 1, -math.inf, 1], [1, math.nan, 1, 1, 1]], dtype=dtype)
    result = cumsum(x, dim=1)
    assert result[0, :3].tolist() == [1, math.inf, math.inf]
    assert result[0, 3:].isnan().all()
    assert result[1].isnan().tolist() == [False, True, True, True, True]


def test_denormal_numbers_are_summed():
    x = torch.full((4,), 1e-45)
    assert torch.equal(cumsum(x, dim=0), x * torch.arange(1, 5))
