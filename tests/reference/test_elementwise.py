"""Element by element: dtypes, broadcasting, special values, writing in place."""

from __future__ import annotations

import math

import pytest
import torch

from tileops_reference.functions.elementwise import add, gelu, mul, relu

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("function", [add, mul])
@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS], ids=str)
def test_binary_functions_keep_each_of_nine_dtypes(function, dtype):
    x, y = torch.tensor([0, 1, 1]).to(dtype), torch.tensor([1, 1, 0]).to(dtype)
    result = function(x, y)
    assert result.dtype is dtype
    if dtype is torch.bool:
        expected = x | y if function is add else x & y
    else:
        expected = torch.tensor([1, 2, 1] if function is add else [0, 1, 0]).to(dtype)
    assert torch.equal(result, expected)


def test_integers_wrap_around():
    assert add(torch.tensor([255], dtype=torch.uint8), torch.tensor([2], dtype=torch.uint8)) == 1
    assert mul(torch.tensor([-128], dtype=torch.int8), torch.tensor([-1], dtype=torch.int8)) == -128


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("alpha", [0, 1, -2, 0.1])
def test_alpha_scales_the_second_operand(dtype, alpha, check_close):
    x, y = torch.randn(100).to(dtype), torch.randn(100).to(dtype)
    exact = x.double() + alpha * y.double()
    size = x.double().abs() + abs(alpha) * y.double().abs()
    # torch rounds alpha to the operands' dtype, and so do we.
    check_close(add(x, y, alpha=alpha), exact, magnitude=size, inner=dtype)
    assert torch.equal(add(x, y, alpha=alpha), torch.add(x, y, alpha=alpha))


@pytest.mark.parametrize(
    ("one", "other", "shape"),
    [
        ((), (), ()),
        ((), (2, 3), (2, 3)),
        ((3, 1), (1, 4), (3, 4)),
        ((0, 3), (1, 3), (0, 3)),
        ((3, 1), (3, 0), (3, 0)),
        ((2, 1, 1), (5,), (2, 1, 5)),
    ],
)
@pytest.mark.parametrize("function", [add, mul])
def test_operands_broadcast(function, one, other, shape):
    """MAN-18: a length of 0 is no length of 1."""
    assert function(torch.ones(one), torch.ones(other)).shape == shape
    with pytest.raises(RuntimeError):
        function(torch.ones(0, 3), torch.ones(2, 3))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_large_finite_values_is_finite(dtype, approximate):
    """NUM-16."""
    x = torch.tensor([-1e4, 1e4, -88.8, -104, -100], dtype=dtype)
    result = gelu(x, approximate=approximate)
    assert torch.equal(result, torch.where(x > 0, x, torch.zeros_like(x)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_two_gelus_differ(dtype):
    """NUM-16: the variants are not mixed up."""
    x = torch.tensor([2.0], dtype=dtype)
    exact, tanh = 2 * 0.5 * (1 + math.erf(2 / math.sqrt(2))), 1.954597694087775
    assert abs(gelu(x).double().item() - exact) <= 2 * torch.finfo(dtype).eps
    assert abs(gelu(x, approximate="tanh").double().item() - tanh) <= 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("function", [gelu, relu])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_unary_functions_take_any_rank(function, shape):
    assert function(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("inplace", [False, True])
def test_relu_passes_nan_and_infinity_on(dtype, inplace):
    x = torch.tensor([math.nan, math.inf, -math.inf, -0.0], dtype=dtype)
    result = relu(x, inplace=inplace)
    assert result[0].isnan()
    assert result[1:].tolist() == [math.inf, 0, 0]


def test_relu_in_place_writes_the_input_and_returns_it():
    x = torch.tensor([[-1.0, 2], [3, -4]])
    view = x[:, :1]
    assert relu(view, inplace=True) is view
    assert x.tolist() == [[0, 2], [3, -4]]
