"""Gated activations: special values, the order of the halves, rounding."""

from __future__ import annotations

import math

import pytest
import torch
from tilelang_cases import ACTIVATIONS, DTYPES

from tileops_core import ops

OPS = {
    "silu": lambda: ops.SiLUAndMulFwdOp(target="tilelang"),
    "gelu": lambda: ops.GELUAndMulFwdOp(target="tilelang"),
    "gelu_tanh": lambda: ops.GELUAndMulFwdOp(approximate="tanh", target="tilelang"),
}
every_op = pytest.mark.parametrize("name", OPS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@every_op
@every_dtype
def test_a_gate_of_every_size_equals_float64(name, dtype, check_close):
    gate = torch.linspace(-30, 30, 20_000).to(dtype)[None]
    value = torch.full_like(gate, 3.0)
    exact = ACTIVATIONS[name](gate.double()) * 3
    result = OPS[name]()(torch.cat((gate, value), 1))
    check_close(result, exact, magnitude=3 * gate.double().abs())


@every_op
@every_dtype
def test_large_gates_pass_the_value_or_nothing(name, dtype):
    """NUM-16."""
    gate = torch.tensor([[-1e4, 1e4, -88.8, -104, -100, 6e4, -6e4]], dtype=dtype)
    result = OPS[name]()(torch.cat((gate, torch.ones_like(gate)), 1))
    torch.testing.assert_close(result, gate.clamp_min(0), atol=1e-35, rtol=0)


@every_op
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_largest_gates_do_not_become_nan(name, dtype):
    most = torch.finfo(dtype).max
    gate = torch.tensor([[most, -most, 1e30, -1e30, 1e20, -1e20]], dtype=dtype)
    result = OPS[name]()(torch.cat((gate, torch.ones_like(gate)), 1))
    torch.testing.assert_close(result, gate.clamp_min(0), atol=1e-35, rtol=0)


@every_op
@every_dtype
def test_special_values_are_what_torch_makes_of_them(name, dtype):
    function = {
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }[name]
    finite = [-0.0, 0.0, 1.0, -1.0]
    # Not infinite gates: torch's own functions disagree there with their formulas (NUM-16).
    gates = torch.tensor([math.nan, *finite])
    values = torch.tensor([math.nan, math.inf, -math.inf, *finite])
    gate, value = (t.flatten()[None] for t in torch.meshgrid(gates, values, indexing="ij"))
    expected = function(gate) * value
    result = OPS[name]()(torch.cat((gate, value), 1).to(dtype)).float()
    torch.testing.assert_close(result, expected.to(dtype).float(), equal_nan=True)
    sure = ~expected.isnan()
    assert torch.equal(result[sure].signbit(), expected[sure].signbit())


@every_op
@every_dtype
def test_a_gate_that_is_not_finite_spoils_its_own_element_alone(name, dtype):
    x = torch.ones(1, 80, dtype=dtype)
    for value in (math.nan, math.inf, -math.inf):
        x[0, 35] = value
        finite = OPS[name]()(x).isfinite()[0]
        assert (~finite).nonzero().flatten().tolist() == [35]


@every_op
@every_dtype
def test_denormal_gates_and_values_count(name, dtype, check_close):
    tiny = torch.finfo(dtype).tiny
    gate = (torch.randn(1, 400, dtype=torch.float64) * tiny / 4).to(dtype)
    value = torch.full_like(gate, 2.0)
    for one, two in ((gate, value), (value, gate)):
        exact = ACTIVATIONS[name](one.double()) * two.double()
        result = OPS[name]()(torch.cat((one, two), 1))
        assert result.any()
        check_close(result, exact, magnitude=one.double().abs() * two.double().abs())


@every_op
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_the_activation_is_not_rounded_by_itself(name, dtype):
    gate, value = (torch.rand(2, 64, 64) + 1).to(dtype)
    exact = ACTIVATIONS[name](gate.double()) * value.double()
    error = (OPS[name]()(torch.cat((gate, value), 1)).double() - exact).abs() / exact
    assert error.max() < 0.505 * torch.finfo(dtype).eps


@every_op
def test_what_overflows_float16_is_infinite(name):
    x = torch.tensor([[300.0, -300.0, 300.0, 1.0]]).half()
    x[0, 2:] = torch.tensor([300.0, 1.0])
    assert OPS[name]()(x)[0, 0] == math.inf
    assert OPS[name]()(x)[0, 1] == 0


def test_the_gate_comes_first():
    """NUM-16."""
    result = OPS["silu"]()(torch.tensor([[2.0, 3.0]]))
    assert result.item() == pytest.approx(5.2848, abs=1e-4)


@every_op
@every_dtype
def test_zero_columns_give_none(name, dtype):
    """PIPE-01."""
    assert OPS[name]()(torch.empty(3, 0, dtype=dtype)).shape == (3, 0)
