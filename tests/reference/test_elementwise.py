"""Element by element: dtypes, broadcasting, special values, writing in place."""

from __future__ import annotations

import math

import pytest
import torch

from tileops_reference.functions.elementwise import (
    add,
    alibi,
    gelu,
    gelu_and_mul,
    mul,
    relu,
    silu_and_mul,
    sinusoidal,
    tanh,
)

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


@pytest.mark.parametrize("function", [gelu, relu, tanh])
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


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_tanh_is_relatively_right_down_to_the_smallest_numbers(dtype, check_close):
    tiny = torch.finfo(dtype).smallest_normal
    values = [1e-3, -0.1, 0.5, -2.0, 20.0, tiny, -tiny / 2, tiny * torch.finfo(dtype).eps]
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    expected = torch.tensor([math.tanh(v) for v in x.double().tolist()], dtype=torch.float64)
    assert x.count_nonzero() == len(values)
    check_close(tanh(x), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_tanh_keeps_nan_and_the_sign_of_zero_and_of_infinity(dtype):
    result = tanh(torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0], dtype=dtype))
    assert result[0].isnan()
    assert result[1:].tolist() == [1, -1, 0, 0]
    assert result.signbit().tolist()[1:] == [False, True, True, False]


GATED = {
    "silu": (silu_and_mul, {}, lambda x: x / (1 + math.exp(-x))),
    "gelu": (gelu_and_mul, {}, lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    "gelu_tanh": (
        gelu_and_mul,
        {"approximate": "tanh"},
        lambda x: x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
}
gated = pytest.mark.parametrize("name", GATED)


@gated
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 33), (130, 5)])
def test_gated_activations_equal_float64_at_any_width(name, dtype, shape, check_close):
    function, params, activation = GATED[name]
    gate, value = (3 * torch.randn(2, *shape)).to(dtype)
    exact = gate.double().apply_(activation) * value.double()
    size = gate.double().abs() * value.double().abs()
    check_close(function(torch.cat((gate, value), 1), **params), exact, magnitude=size)


def test_the_gate_comes_first():
    """NUM-16."""
    x = torch.tensor([[2.0, 3.0]])
    assert silu_and_mul(x).item() == pytest.approx(5.2848, abs=1e-4)
    assert gelu_and_mul(x).item() == pytest.approx(3 * 1.954500, abs=1e-4)
    assert gelu_and_mul(x, approximate="tanh").item() == pytest.approx(3 * 1.954598, abs=1e-4)


@gated
@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_the_activation_is_not_rounded_by_itself(name, dtype):
    function, params, activation = GATED[name]
    gate, value = (torch.rand(2, 64, 64) + 1).to(dtype)
    exact = gate.double().apply_(activation) * value.double()
    result = function(torch.cat((gate, value), 1), **params)
    error = (result.double() - exact).abs() / exact
    # One rounding is half a step at most; rounding the activation as well gives one.
    assert error.max() < 0.505 * torch.finfo(dtype).eps


@gated
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_large_gates_pass_the_value_or_nothing(name, dtype):
    """NUM-16."""
    function, params, _ = GATED[name]
    gate = torch.tensor([[-1e4, 1e4, -104, -100]], dtype=dtype)
    result = function(torch.cat((gate, torch.ones_like(gate)), 1), **params)
    torch.testing.assert_close(result, gate.clamp_min(0), atol=1e-35, rtol=0)


@gated
def test_a_gate_or_value_of_nan_spoils_its_own_element(name):
    function, params, _ = GATED[name]
    x = torch.ones(2, 6)
    x[0, 1] = x[1, 5] = math.nan
    assert function(x, **params).isnan().tolist() == [[False, True, False], [False, False, True]]


@gated
@pytest.mark.parametrize("shape", [(0, 6), (3, 0)])
def test_gated_activations_of_nothing_are_nothing(name, shape):
    function, params, _ = GATED[name]
    assert function(torch.empty(shape), **params).shape == (shape[0], shape[1] // 2)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize(("length", "heads"), [(1, 1), (7, 3), (5, 8), (37, 12), (700, 1)])
def test_biases_are_the_formula_rounded_once(length, heads, dtype):
    result = alibi(seq_len=length, num_heads=heads, out_dtype=dtype, device="cpu")
    expected = torch.tensor(
        [
            [[-(2.0 ** (-8 * (h + 1) / heads)) * abs(i - j) for j in range(length)] for i in rows]
            for h, rows in ((h, range(length)) for h in range(heads))
        ],
        dtype=torch.float64,
    )
    assert result.is_contiguous()
    torch.testing.assert_close(result, expected.to(dtype), rtol=2**-50, atol=0)


def test_the_bias_of_the_diagonal_is_no_negative_zero():
    result = alibi(seq_len=3, num_heads=2, out_dtype=torch.float32, device="cpu")
    assert not result.signbit().diagonal(dim1=1, dim2=2).any()


def test_slopes_halve_where_eight_heads_have_them():
    result = alibi(seq_len=2, num_heads=8, out_dtype=torch.float32, device="cpu")
    assert result[:, 0, 1].tolist() == [-(2.0**-h) for h in range(1, 9)]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize(("length", "width"), [(1, 1), (2, 3), (7, 8), (700, 5), (3, 31)])
def test_a_position_encoding_is_the_formula_rounded_once(length, width, dtype):
    result = sinusoidal(seq_len=length, d_model=width, out_dtype=dtype, device="cpu")
    expected = torch.tensor(
        [
            [
                (math.cos if c % 2 else math.sin)(p / 10000 ** (2 * (c // 2) / width))
                for c in range(width)
            ]
            for p in range(length)
        ],
        dtype=torch.float64,
    )
    assert result.is_contiguous()
    info = torch.finfo(dtype)
    # Of the angle in float64 as many roundings as it has bits; else one, or half of a subnormal.
    atol = 2.0**-43 if dtype is torch.float64 else info.tiny * info.eps
    torch.testing.assert_close(result.double(), expected, rtol=info.eps / 2 * 1.001, atol=atol)


def test_an_encoding_of_odd_width_ends_in_a_sine():
    """POS-02."""
    result = sinusoidal(seq_len=2, d_model=3, out_dtype=torch.float32, device="cpu")
    expected = torch.tensor([[0, 1, 0], [0.8415, 0.5403, 0.0022]])
    torch.testing.assert_close(result, expected, rtol=0, atol=5e-5)


def test_a_far_position_has_its_exact_angle():
    result = sinusoidal(seq_len=100_001, d_model=1, out_dtype=torch.float32, device="cpu")
    assert result[-1, 0].item() == pytest.approx(math.sin(100_000), rel=1e-7)
