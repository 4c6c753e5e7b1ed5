"""Rules that hold for every reference function alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tileops_reference.functions import attention, elementwise, gemm, norm, reduction, rope

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@attrs.frozen
class Case:
    """A function, inputs' shapes, parameters, and the same mathematics for float64 tensors."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    formula: Callable[..., Any]
    params: Mapping[str, Any] = {}
    terms: int = 1
    magnitude: Callable[..., Any] | None = None
    inner: bool = False

    def inputs(self, dtype: torch.dtype) -> list[Tensor]:
        return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in self.shapes]

    def check(self, check_close: Callable[..., None], results: Any, inputs: list[Tensor]) -> None:
        wide = [tensor.double() for tensor in inputs]
        expected = self.formula(*wide)
        size = self.magnitude(*wide) if self.magnitude else None
        inner = inputs[0].dtype if self.inner else None
        if not isinstance(results, tuple):
            results, expected = (results,), (expected,)
        for result, right in zip(results, expected, strict=True):
            assert result.dtype is inputs[0].dtype
            check_close(result, right, terms=self.terms, magnitude=size, inner=inner)


def _rms(x: Tensor, w: Tensor) -> Tensor:
    return x / torch.sqrt((x * x).mean((-2, -1), keepdim=True) + 1e-5) * w


def _layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered**2).mean(-1, keepdim=True) + 1e-5) * w + b


def _fused(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return _layer(x + r, w, b), x + r


def _fused_rms(x: Tensor, r: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    total = x + r
    return total / torch.sqrt((total * total).mean(-1, keepdim=True) + 1e-5) * w, total


def _gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def _silu_and_mul(x: Tensor) -> Tensor:
    gate, value = x.hsplit(2)
    return gate / (1 + torch.exp(-gate)) * value


POSITIONS = torch.tensor([4, 0, 9, 4, 1])


def _by_position(x: Tensor, **params: Any) -> Tensor:
    return rope.rope_neox_position_ids(x, POSITIONS.to(x.device), **params)


FACTORS = torch.tensor([1.0, 1.5, -2.0, 10.0, 64.0], dtype=torch.float64)


def _long_rope(x: Tensor, **params: Any) -> Tensor:
    return rope.long_rope(x, rescale_factors=FACTORS, **params)


def _turned(
    x: Tensor,
    positions: Tensor,
    features: int,
    interleaved: bool = False,
    factors: Tensor | float = 1.0,
) -> Tensor:
    """``x`` is ``[..., positions, heads, width]``; pairs by their complex product."""
    rates = [10000.0 ** (-2 * i / features) for i in range(features // 2)]
    angles = positions.double()[:, None, None] * torch.tensor(rates, dtype=torch.float64) / factors
    turn = torch.polar(torch.ones_like(angles), angles)
    pairs = x[..., :features].unflatten(-1, (-1, 2) if interleaved else (2, -1))
    axis = -1 if interleaved else -2
    one, two = pairs.unbind(axis)
    product = torch.complex(one, two) * turn
    result = torch.stack((product.real, product.imag), axis).flatten(-2)
    return torch.cat((result, x[..., features:]), -1)


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    logits = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    hidden = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).triu(k.shape[1] - q.shape[1] + 1)
    weights = torch.softmax(logits.masked_fill(hidden, -math.inf), -1)
    return torch.einsum("bhij,bjhd->bihd", weights, v)


CASES = [
    Case(
        "gemm",
        gemm.gemm,
        ((5, 37), (9, 37)),
        lambda a, b: a @ b.T,
        terms=37,
        magnitude=lambda a, b: a.abs() @ b.abs().T,
    ),
    Case(
        "gemm_tn",
        gemm.gemm,
        ((37, 5), (37, 9)),
        lambda a, b: a.T @ b,
        {"trans_a": True, "trans_b": False},
        terms=37,
        magnitude=lambda a, b: a.T.abs() @ b.abs(),
    ),
    Case(
        "bmm",
        gemm.bmm,
        ((3, 5, 37), (3, 37, 9)),
        lambda a, b: a @ b,
        terms=37,
        magnitude=lambda a, b: a.abs() @ b.abs(),
    ),
    Case(
        "add",
        elementwise.add,
        ((3, 1, 7), (5, 1)),
        lambda x, y: x - 2 * y,
        {"alpha": -2},
        magnitude=lambda x, y: x.abs() + 2 * y.abs(),
    ),
    Case("mul", elementwise.mul, ((3, 1, 7), (5, 1)), lambda x, y: x * y),
    Case(
        "gelu",
        elementwise.gelu,
        ((3, 35),),
        _gelu,
        # In the negative tail 1 + erf cancels: the error is relative to x, not to the result.
        magnitude=lambda x: x,
    ),
    Case(
        "gelu_tanh",
        elementwise.gelu,
        ((3, 35),),
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        {"approximate": "tanh"},
        magnitude=lambda x: x,
    ),
    Case("relu", elementwise.relu, ((3, 35),), lambda x: torch.where(x > 0, x, 0.0)),
    Case(
        "tanh",
        elementwise.tanh,
        ((3, 35),),
        lambda x: torch.expm1(2 * x) / (torch.expm1(2 * x) + 2),
    ),
    Case("silu_and_mul", elementwise.silu_and_mul, ((5, 34),), _silu_and_mul),
    Case(
        "gelu_and_mul",
        elementwise.gelu_and_mul,
        ((5, 34),),
        lambda x: _gelu(x[:, :17]) * x[:, 17:],
        magnitude=lambda x: x[:, :17] * x[:, 17:],
    ),
    Case(
        "softmax",
        reduction.softmax,
        ((3, 19, 5),),
        lambda x: x.exp() / x.exp().sum(1, keepdim=True),
        {"dim": 1},
        terms=19,
    ),
    Case(
        "sum",
        reduction.reduce_sum,
        ((3, 19, 5),),
        lambda x: x.sum(0).sum(-1),
        {"dim": (0, -1)},
        terms=15,
        magnitude=lambda x: x.abs().sum(0).sum(-1),
    ),
    Case(
        "log_softmax",
        reduction.log_softmax,
        ((3, 19, 5),),
        lambda x: x - x.exp().sum(1, keepdim=True).log(),
        {"dim": 1},
        terms=19,
        magnitude=lambda x: 2 * x.abs().amax() + math.log(19),
    ),
    Case(
        "log_softmax_last",
        reduction.log_softmax,
        ((3, 35),),
        lambda x: x - x.exp().sum(-1, keepdim=True).log(),
        {"dim": -1},
        terms=35,
        magnitude=lambda x: 2 * x.abs().amax() + math.log(35),
    ),
    Case(
        "cumsum",
        reduction.cumsum,
        ((3, 19, 5),),
        lambda x: torch.stack([x[:, : i + 1].sum(1) for i in range(19)], 1),
        {"dim": 1},
        terms=19,
        magnitude=lambda x: x.abs().sum(1, keepdim=True).expand(x.shape),
    ),
    Case(
        "rope",
        rope.rope,
        ((7, 10),),
        lambda x: _turned(x[:, None], torch.arange(7), 10)[:, 0],
        magnitude=lambda x: 2 * x.abs().amax(),
    ),
    Case(
        "rope_interleaved",
        rope.rope,
        ((2, 7, 3, 10),),
        lambda x: _turned(x, torch.arange(7), 10, interleaved=True),
        {"rope_layout": "interleaved", "input_layout": "2d"},
        magnitude=lambda x: 2 * x.abs().amax(),
    ),
    Case(
        "rope_neox_position_ids",
        _by_position,
        ((5, 3, 10),),
        lambda x: _turned(x, POSITIONS, 6),
        {"max_position": 10, "rotary_dim": 6},
        magnitude=lambda x: 2 * x.abs().amax(),
    ),
    Case(
        "long_rope",
        _long_rope,
        ((2, 7, 3, 10),),
        lambda x: _turned(x, torch.arange(7), 10, factors=FACTORS) * math.sqrt(1.5),
        {"input_layout": "2d", "max_position": 512, "original_max_position": 64},
        magnitude=lambda x: 4 * x.abs().amax(),
    ),
    Case(
        "rms_norm",
        norm.rms_norm,
        ((4, 6, 11), (6, 11)),
        _rms,
        {"normalized_shape": (6, 11), "eps": 1e-5},
        terms=66,
    ),
    Case(
        "rms_norm_large",
        norm.rms_norm,
        ((260, 7, 11), (7, 11)),
        _rms,
        {"normalized_shape": (7, 11), "eps": 1e-5},
        terms=77,
    ),
    Case(
        "layer_norm",
        norm.layer_norm,
        ((4, 33), (33,), (33,)),
        _layer,
        {"normalized_shape": (33,), "eps": 1e-5},
        terms=33,
        magnitude=lambda x, w, b: _layer(x, w, b).abs() + 2 * x.abs().amax() * w.abs() + b.abs(),
    ),
    Case(
        "fused_add_layer_norm",
        norm.fused_add_layer_norm,
        ((4, 33), (4, 33), (33,), (33,)),
        _fused,
        {"eps": 1e-5},
        terms=33,
        magnitude=lambda x, r, w, b: 2 * (x.abs() + r.abs()).amax() * (1 + w.abs()) + b.abs(),
    ),
    Case(
        "fused_add_rms_norm",
        norm.fused_add_rms_norm,
        ((4, 33), (4, 33), (33,)),
        _fused_rms,
        {"eps": 1e-5},
        terms=33,
        magnitude=lambda x, r, w: 2 * (x.abs() + r.abs()).amax() * (1 + w.abs()),
    ),
    Case(
        "fused_add_rms_norm_large",
        norm.fused_add_rms_norm,
        ((300, 77), (300, 77), (77,)),
        _fused_rms,
        {"eps": 1e-5},
        terms=77,
        magnitude=lambda x, r, w: 2 * (x.abs() + r.abs()).amax() * (1 + w.abs()),
    ),
    Case(
        "gqa_dense",
        attention.gqa_dense,
        ((2, 5, 6, 16), (2, 13, 2, 16), (2, 13, 2, 16)),
        _attention,
        {"is_causal": True},
        terms=13,
        magnitude=lambda q, k, v: (1 + q.abs().amax() * k.abs().amax()) * v.abs().amax(),
        inner=True,
    ),
    Case(
        "gqa_dense_explicit",
        attention.gqa_dense,
        ((2, 5, 6, 16), (2, 13, 2, 16), (2, 13, 2, 16)),
        _attention,
        {"is_causal": True, "softcap": 1e12},
        terms=13,
        magnitude=lambda q, k, v: (1 + q.abs().amax() * k.abs().amax()) * v.abs().amax(),
    ),
]

each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT if tensor.ndim > 1 else pitched(tensor)


def pitched(tensor: Tensor) -> Tensor:
    """The same values inside rows that are longer, beginning at an odd offset."""
    wide = torch.full((*tensor.shape[:-1], tensor.shape[-1] + 3), math.nan, dtype=tensor.dtype)
    view = wide[..., 1 : tensor.shape[-1] + 1]
    view.copy_(tensor)
    return view


def every_second(tensor: Tensor) -> Tensor:
    wide = torch.full((*tensor.shape, 2), math.nan, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


@each
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_equals_the_formula_in_float64(case, dtype, check_close):
    inputs = case.inputs(dtype)
    case.check(check_close, case.function(*inputs, **case.params), inputs)


@each
@pytest.mark.parametrize("layout", [transposed, pitched, every_second])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_strides_and_offsets_do_not_matter(case, layout, dtype, check_close):
    """PIPE-06."""
    inputs = [layout(tensor) for tensor in case.inputs(dtype)]
    case.check(check_close, case.function(*inputs, **case.params), inputs)


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_expanded_inputs_give_what_copies_give(case, dtype, check_close):
    """PIPE-06: axes of stride 0."""
    inputs = [tensor[:1].expand(tensor.shape) for tensor in case.inputs(dtype)]
    case.check(check_close, case.function(*inputs, **case.params), inputs)


@each
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_inputs_are_not_written(case, dtype):
    """PIPE-04: bits and versions stay."""
    inputs = case.inputs(dtype)
    copies = [tensor.clone() for tensor in inputs]
    versions = [tensor._version for tensor in inputs]
    case.function(*inputs, **case.params)
    assert all(torch.equal(now, then) for now, then in zip(inputs, copies, strict=True))
    assert [tensor._version for tensor in inputs] == versions


@each
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_results_share_no_memory_with_inputs_and_are_contiguous(case, dtype):
    inputs = case.inputs(dtype)
    results = case.function(*inputs, **case.params)
    results = results if isinstance(results, tuple) else (results,)
    pointers = [tensor.untyped_storage().data_ptr() for tensor in (*results, *inputs)]
    assert len(set(pointers)) == len(pointers)
    assert all(result.is_contiguous() for result in results)


@each
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_element_is_written(case, dtype, poisoned_memory, check_close):
    inputs = case.inputs(dtype)
    case.check(check_close, case.function(*inputs, **case.params), inputs)


@each
def test_runs_on_the_device_of_its_inputs(case):
    inputs = [tensor.to("meta") for tensor in case.inputs(torch.float16)]
    results = case.function(*inputs, **case.params)
    for result in results if isinstance(results, tuple) else (results,):
        assert result.device.type == "meta"


REFERENCE_APIS = {
    "gemm": functional.linear,
    "bmm": torch.bmm,
    "add": lambda x, y: torch.add(x, y, alpha=-2),
    "mul": torch.mul,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "tanh": torch.tanh,
    "sum": lambda x: torch.sum(x, (0, -1)),
    "rms_norm": lambda x, w: functional.rms_norm(x, (6, 11), w, 1e-5),
    "layer_norm": lambda x, w, b: functional.layer_norm(x, (33,), w, b),
}


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name in REFERENCE_APIS], ids=lambda c: c.name
)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_equals_the_reference_api_bit_by_bit(case, dtype):
    inputs = case.inputs(dtype)
    result = case.function(*inputs, **case.params)
    assert torch.equal(result, REFERENCE_APIS[case.name](*inputs))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_large_rms_norm_is_as_near_to_the_reference_api_as_rounding_allows(dtype):
    x, weight = torch.randn(300, 77).to(dtype), torch.randn(77).to(dtype)
    result = norm.rms_norm(x, weight, normalized_shape=(77,), eps=1e-6)
    torch.testing.assert_close(
        result,
        functional.rms_norm(x, (77,), weight, 1e-6),
        rtol=8 * torch.finfo(dtype).eps,  # each within 4 roundings
        atol=2 * torch.finfo(dtype).tiny,
    )
