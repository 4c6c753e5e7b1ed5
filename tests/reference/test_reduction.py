"""Sums and softmax: axes, empty axes, casts, special values."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tileops_reference.functions.reduction import implicit_softmax_dim, reduce_sum, softmax

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
