"""Ops at the edges of what they accept: empty, 0-d, special values, axes, aliases."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch

from tileops_core import ops
from tileops_core.errors import SignatureError

# Ops in tables are never called themselves: a copy's target is chosen when it is.
pytestmark = pytest.mark.usefixtures("server")

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
X = torch.arange(24.0).reshape(2, 3, 4)
Q = torch.randn(1, 3, 4, 8).half()
K = torch.randn(1, 3, 2, 8).half()

EMPTY = [
    (ops.GEMMFwdOp(), ((0, 3), (2, 3)), (0, 2)),
    (ops.GEMMFwdOp(), ((4, 3), (0, 3)), (4, 0)),
    (ops.BMMFwdOp(), ((0, 2, 3), (0, 3, 4)), (0, 2, 4)),
    (ops.AddFwdOp(), ((0, 3), (1, 3)), (0, 3)),
    (ops.AddFwdOp(), ((3, 1), (3, 0)), (3, 0)),
    (ops.MulFwdOp(), ((0, 3), ()), (0, 3)),
    (ops.GELUFwdOp(), ((2, 0, 3),), (2, 0, 3)),
    (ops.ReLUFwdOp(), ((0,),), (0,)),
    (ops.ReLUFwdOp(inplace=True), ((0, 3),), (0, 3)),
    (ops.SoftmaxFwdOp(-1), ((0, 3),), (0, 3)),
    (ops.SoftmaxFwdOp(1), ((3, 0),), (3, 0)),
    (ops.SumFwdOp(1), ((0, 3),), (0,)),
    (ops.RMSNormFwdOp(3), ((0, 3), (3,)), (0, 3)),
    (ops.LayerNormFwdOp(3), ((0, 3), (3,), (3,)), (0, 3)),
    (ops.FusedAddLayerNormFwdOp(), ((0, 3), (0, 3), (3,), (3,)), (0, 3)),
    (ops.FusedAddRMSNormFwdOp(), ((0, 3), (0, 3), (3,)), (0, 3)),
    (ops.FusedAddRMSNormFwdOp(), ((3, 0), (3, 0), (0,)), (3, 0)),
    (ops.TanhFwdOp(), ((2, 0, 3),), (2, 0, 3)),
    (ops.SiLUAndMulFwdOp(), ((0, 6),), (0, 3)),
    (ops.SiLUAndMulFwdOp(), ((2, 0),), (2, 0)),
    (ops.GELUAndMulFwdOp(), ((0, 6),), (0, 3)),
    (ops.LogSoftmaxFwdOp(-1), ((0, 3),), (0, 3)),
    (ops.LogSoftmaxFwdOp(1), ((3, 0),), (3, 0)),
    (ops.CumsumFwdOp(0), ((0, 3),), (0, 3)),
    (ops.RoPEFwdOp(), ((0, 4),), (0, 4)),
    (ops.RoPEFwdOp("interleaved", "2d"), ((2, 3, 0, 4),), (2, 3, 0, 4)),
    (ops.GQADenseFwdOp(), ((0, 3, 4, 8), (0, 5, 2, 8), (0, 5, 2, 8)), (0, 3, 4, 8)),
    (ops.GQADenseFwdOp(), ((1, 0, 4, 8), (1, 5, 2, 8), (1, 5, 2, 8)), (1, 0, 4, 8)),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(("op", "shapes", "expected"), EMPTY)
def test_empty_tensors_give_an_empty_result_of_the_right_shape(op, shapes, expected, dtype):
    """PIPE-01, MAN-18."""
    result = deepcopy(op)(*(torch.ones(shape, dtype=dtype) for shape in shapes))
    for tensor in result if isinstance(result, tuple) else (result,):
        assert tensor.shape == expected
        assert tensor.dtype is dtype


@pytest.mark.parametrize(
    ("op", "shape", "expected"),
    [
        (ops.SumFwdOp(0), (0, 8), torch.zeros(8)),
        (ops.SumFwdOp(), (2, 0), torch.tensor(0.0)),
        (ops.SumFwdOp((0, 1), True), (0, 0), torch.zeros(1, 1)),
    ],
)
def test_empty_sums_are_zero(op, shape, expected):
    """PIPE-01."""
    assert torch.equal(deepcopy(op)(torch.empty(shape)), expected)


def test_an_empty_contraction_is_zero():
    """PIPE-01."""
    assert torch.equal(ops.GEMMFwdOp()(torch.empty(4, 0), torch.empty(2, 0)), torch.zeros(4, 2))


@pytest.mark.parametrize(
    "op",
    [
        ops.GELUFwdOp(),
        ops.ReLUFwdOp(),
        ops.SoftmaxFwdOp(0),
        ops.SoftmaxFwdOp(-1),
        ops.SumFwdOp(),
        ops.SumFwdOp(0),
        ops.SumFwdOp(-1, True),
        ops.SumFwdOp(()),
        ops.TanhFwdOp(),
        ops.LogSoftmaxFwdOp(0),
        ops.LogSoftmaxFwdOp(-1),
        ops.ArgmaxFwdOp(),
        ops.ArgmaxFwdOp(0),
        ops.ArgmaxFwdOp(-1, True),
    ],
    ids=repr,
)
def test_a_scalar_tensor_is_a_tensor(op):
    assert deepcopy(op)(torch.tensor(3.0)).shape == ()


@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2])
def test_axes_count_from_both_ends(dim):
    """MAN-09."""
    torch.testing.assert_close(ops.SoftmaxFwdOp(dim)(X), torch.softmax(X, dim))
    torch.testing.assert_close(ops.LogSoftmaxFwdOp(dim)(X), torch.log_softmax(X, dim))
    assert torch.equal(ops.SumFwdOp(dim)(X), X.sum(dim))
    assert torch.equal(ops.ArgmaxFwdOp(dim)(-X), (-X).argmax(dim))
    assert torch.equal(ops.CumsumFwdOp(dim)(X), X.cumsum(dim))


@pytest.mark.parametrize("dim", [(), [], None, (0, 1, 2), (-1, -3, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_no_axes_are_all_axes(dim, keepdim):
    """NUM-01: for a sum, as in torch."""
    result = ops.SumFwdOp(dim, keepdim)(X)
    assert result.shape == ((1, 1, 1) if keepdim else ())
    assert result.item() == X.sum().item()


@pytest.mark.parametrize("x", [X, torch.empty(0, 3, 4)], ids=["full", "empty"])
@pytest.mark.parametrize(
    "op",
    [
        ops.SumFwdOp(3),
        ops.SumFwdOp(-4),
        ops.SumFwdOp((0, 7)),
        ops.SoftmaxFwdOp(-46),
        ops.LogSoftmaxFwdOp(3),
        ops.ArgmaxFwdOp(-4),
        ops.CumsumFwdOp(-46),
    ],
    ids=repr,
)
def test_axes_out_of_range_are_refused(op, x):
    """MAN-09, PIPE-03: on empty tensors too."""
    with pytest.raises(SignatureError, match=type(op).__name__) as caught:
        deepcopy(op)(x)
    assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (ops.ArgmaxFwdOp(1), (2, 0)),
        (ops.ArgmaxFwdOp(-1, True), (2, 0)),
        (ops.ArgmaxFwdOp(1), (0, 0)),
        (ops.ArgmaxFwdOp(), (0,)),
        (ops.ArgmaxFwdOp(), (3, 0, 2)),
    ],
)
def test_nothing_has_no_maximum(op, shape):
    """PIPE-01."""
    with pytest.raises(SignatureError, match=r"ArgmaxFwdOp: axis \d has length 0") as caught:
        deepcopy(op)(torch.empty(shape))
    assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize(
    ("op", "shape", "expected"),
    [
        (ops.ArgmaxFwdOp(0), (2, 0), (0,)),
        (ops.ArgmaxFwdOp(0, True), (2, 0), (1, 0)),
        (ops.ArgmaxFwdOp(1), (0, 2, 3), (0, 3)),
    ],
)
def test_no_rows_have_no_maxima(op, shape, expected):
    """PIPE-01."""
    result = deepcopy(op)(torch.empty(shape))
    assert result.shape == expected
    assert result.dtype is torch.int64


def test_a_scalar_has_no_axis_to_add_along():
    for dim in (0, -1):
        with pytest.raises(SignatureError, match=r"CumsumFwdOp: .*len\(S\) > 0"):
            ops.CumsumFwdOp(dim)(torch.tensor(3.0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_argmax_is_the_first_nan_and_else_the_first_maximum(dtype):
    """NUM-03."""
    x = torch.tensor([[1, math.nan, 3, math.nan], [1, 3, 3, 0]], dtype=dtype)
    assert ops.ArgmaxFwdOp(1)(x).tolist() == [1, 1]
    assert ops.ArgmaxFwdOp(keepdim=True)(x).tolist() == [[1]]


@pytest.mark.parametrize("dim", [(0, 0), (1, -2), (2, 0, -1)])
def test_an_axis_named_twice_is_refused(dim):
    """MAN-09."""
    with pytest.raises(SignatureError, match="multiple times"):
        ops.SumFwdOp(dim)(X)


@pytest.mark.parametrize("op", [ops.RMSNormFwdOp(8), ops.LayerNormFwdOp(8)], ids=repr)
def test_a_weight_of_one_element_is_no_row(op):
    """MAN-14."""
    with pytest.raises(SignatureError, match=r"weight has shape \(1,\)"):
        deepcopy(op)(torch.ones(2, 8), torch.ones(1))


def test_the_fused_rms_norm_s_weight_is_a_row():
    """MAN-14."""
    x = torch.ones(2, 8)
    with pytest.raises(SignatureError, match=r"weight has shape \(1,\)"):
        ops.FusedAddRMSNormFwdOp()(x, x, torch.ones(1))
    with pytest.raises(SignatureError, match="residual"):
        ops.FusedAddRMSNormFwdOp()(x, x[:1], torch.ones(8))


@pytest.mark.parametrize("op", [ops.SiLUAndMulFwdOp(), ops.GELUAndMulFwdOp()], ids=repr)
@pytest.mark.parametrize("shape", [(2, 3), (4,), (2, 2, 4), ()])
def test_a_gate_and_its_value_are_halves_of_a_matrix(op, shape):
    with pytest.raises(SignatureError, match=type(op).__name__):
        deepcopy(op)(torch.ones(shape))


@pytest.mark.parametrize("op", [ops.AddFwdOp(), ops.MulFwdOp()], ids=repr)
def test_shapes_that_do_not_broadcast_are_refused(op):
    """MAN-18."""
    for one, other in (((0, 3), (2, 3)), ((4,), (3,)), ((2, 3), (3, 2))):
        with pytest.raises(SignatureError, match=type(op).__name__):
            deepcopy(op)(torch.ones(one), torch.ones(other))


@pytest.mark.parametrize(
    ("alpha", "dtype"), [(0.5, torch.int32), (300, torch.uint8), (-1, torch.uint8), (2, torch.bool)]
)
def test_alpha_must_suit_the_dtype(alpha, dtype):
    op = ops.AddFwdOp(alpha=alpha)
    with pytest.raises(SignatureError, match="AddFwdOp"):
        op(torch.ones(3).to(dtype), torch.ones(3).to(dtype))


@pytest.mark.parametrize("alpha", [2**40, -(2**70), 2**100])
def test_an_alpha_of_any_size_that_the_dtype_holds_scales(alpha):
    result = ops.AddFwdOp(alpha=alpha)(torch.ones(3), torch.ones(3))
    assert torch.equal(result, torch.full((3,), float(alpha)) + 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_eps_is_float32_s_epsilon(dtype):
    """NRM-01."""
    x = torch.tensor([[1e-3, 2e-3]], dtype=dtype)
    result = ops.RMSNormFwdOp(2)(x)
    expected = x.double() / (x.double().pow(2).mean() + 2.0**-23).sqrt()
    torch.testing.assert_close(result, expected.to(dtype))
    assert not ops.RMSNormFwdOp(2)(torch.zeros(1, 2, dtype=dtype)).any()
    assert ops.RMSNormFwdOp(2, 0.0)(torch.zeros(1, 2, dtype=dtype)).isnan().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("inplace", [False, True])
def test_relu_passes_nan_on(dtype, inplace):
    x = torch.tensor([math.nan, math.inf, -math.inf, -1.0], dtype=dtype)
    result = ops.ReLUFwdOp(inplace=inplace)(x)
    assert result[0].isnan()
    assert result[1:].tolist() == [math.inf, 0, 0]
    assert (result is x) == inplace


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_large_values_is_finite(approximate):
    """NUM-16."""
    x = torch.tensor([-1e4, 1e4, -88.8, -104.0])
    assert ops.GELUFwdOp(approximate=approximate)(x).tolist() == [0, 1e4, 0, 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gated_activations_of_large_gates_are_finite(dtype):
    """NUM-16."""
    gate = torch.tensor([[-1e4, 1e4, -88.8, -104]], dtype=dtype)
    x = torch.cat((gate, torch.ones_like(gate)), 1)
    for op in (
        ops.SiLUAndMulFwdOp(),
        ops.GELUAndMulFwdOp(),
        ops.GELUAndMulFwdOp(approximate="tanh"),
    ):
        torch.testing.assert_close(op(x), gate.clamp_min(0), atol=1e-35, rtol=0)
    assert ops.SiLUAndMulFwdOp()(torch.tensor([[2.0, 3.0]])).item() == pytest.approx(5.2848, 1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tanh_keeps_nan_infinity_and_the_sign_of_zero(dtype):
    result = ops.TanhFwdOp()(torch.tensor([math.nan, math.inf, -math.inf, -0.0], dtype=dtype))
    assert result[0].isnan()
    assert result[1:].tolist() == [1, -1, 0]
    assert result[3].signbit()


def test_softmax_of_minus_infinity_alone_is_nan():
    x = torch.tensor([[-math.inf, -math.inf], [-math.inf, 0.0]])
    result = ops.SoftmaxFwdOp(-1)(x)
    assert result[0].isnan().all()
    assert result[1].tolist() == [0, 1]


@pytest.mark.parametrize("view", [lambda x: x[:, ::2], lambda x: x.t(), lambda x: x[1]])
def test_relu_in_place_writes_through_a_view(view):
    base = torch.randn(4, 4)
    expected = base.clone()
    view(expected).relu_()
    given = view(base)
    assert ops.ReLUFwdOp(inplace=True)(given) is given
    assert torch.equal(base, expected)


def test_relu_in_place_refuses_a_tensor_whose_elements_share_memory():
    with pytest.raises(SignatureError, match=r"clone\(\)"):
        ops.ReLUFwdOp(inplace=True)(torch.zeros(1).expand(4))


def test_the_fused_norm_may_get_one_tensor_twice():
    x, row = torch.randn(2, 8), torch.ones(8)
    output, total = ops.FusedAddLayerNormFwdOp()(x, x, row, row)
    assert torch.equal(total, 2 * x)
    assert torch.equal(output, ops.FusedAddLayerNormFwdOp()(x, x.clone(), row, row)[0])


def test_the_fused_rms_norm_may_get_one_tensor_twice():
    """PIPE-11."""
    x, row = torch.randn(2, 8), torch.ones(8)
    output, total = ops.FusedAddRMSNormFwdOp()(x, x, row)
    assert torch.equal(total, 2 * x)
    assert torch.equal(output, ops.FusedAddRMSNormFwdOp()(x, x.clone(), row)[0])


def test_causal_attention_is_aligned_with_the_last_key():
    """ATT-01."""
    q, k = torch.ones(1, 2, 1, 4).half(), torch.ones(1, 3, 1, 4).half()
    v = torch.arange(3).half().view(1, 3, 1, 1).expand(1, 3, 1, 4)
    assert ops.GQADenseFwdOp(is_causal=True)(q, k, v)[0, :, 0, 0].tolist() == [0.5, 1.0]


def test_causal_attention_with_more_queries_than_keys_gives_zero_where_no_key_is_seen():
    """ATT-01, ATT-07."""
    q, k = torch.ones(1, 4, 1, 4).half(), torch.ones(1, 2, 1, 4).half()
    v = torch.tensor([1.0, 2.0]).half().view(1, 2, 1, 1).expand(1, 2, 1, 4)
    op = ops.GQADenseFwdOp(is_causal=True)
    assert op(q, k, v)[0, :, 0, 0].tolist() == [0, 0, 1, 1.5]
    assert op.last_call.indices["pairs"] == 3


def test_attention_maps_heads_by_group_and_refuses_a_ragged_one():
    """ATT-04."""
    v = torch.arange(2).half().view(1, 1, 2, 1).expand(1, 3, 2, 8)
    result = ops.GQADenseFwdOp()(torch.zeros(1, 1, 6, 8).half(), K, v)
    assert result[0, 0, :, 0].tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(SignatureError, match="H % H_kv"):
        ops.GQADenseFwdOp()(torch.zeros(1, 3, 5, 8).half(), K, K)


def test_queries_left_of_all_keys_give_zero():
    """ATT-07."""
    q = torch.randn(1, 5, 4, 8).half()
    result = ops.GQADenseFwdOp(window_size_right=0)(q, K, K)
    assert not result[:, :2].any()
    assert result[:, 2:].isfinite().all()
    assert result[:, 2:].any()


SCALE = torch.ones(1, 2)
TABLE = torch.ones(3, 1).half()
FP8 = torch.float8_e4m3fn


@pytest.mark.parametrize(
    ("params", "inputs", "match"),
    [
        ({}, (Q, K[:, :0], K[:, :0]), "S_kv > 0"),
        ({"softcap": -1.0}, (Q, K, K), "softcap"),
        ({"sm_scale": 0.0}, (Q, K, K), "sm_scale"),
        ({"sm_scale": math.inf}, (Q, K, K), "sm_scale"),
        ({"window_size_left": -2}, (Q, K, K), "window_size_left"),
        ({"rotary_dim": 4}, (Q, K, K), "rotary_dim"),
        (
            {"pos_encoding_mode": "rope", "rotary_dim": 3},
            (Q, K, K, None, None, None, TABLE, TABLE),
            "rotary_dim",
        ),
        ({"pos_encoding_mode": "rope"}, (Q, K, K), "rope_cos"),
        ({"out_dtype": "bfloat16"}, (Q, K, K), "out_dtype"),
        ({}, (Q, K, K, SCALE, SCALE, SCALE), "q_scale"),
        ({"out_dtype": "float16"}, (Q.to(FP8), K.to(FP8), K.to(FP8)), "q_scale"),
        ({}, (Q.to(FP8), K.to(FP8), K.to(FP8), SCALE, SCALE, SCALE), "out_dtype"),
        ({"out_dtype": "float16"}, (Q.to(FP8), K.to(FP8), K.to(FP8), SCALE, SCALE), "v_scale"),
        ({}, (Q, K.bfloat16(), K), "k has dtype bfloat16"),
    ],
)
def test_attention_refuses_what_its_entry_excludes(params, inputs, match):
    with pytest.raises(SignatureError, match=match):
        ops.GQADenseFwdOp(**params)(*inputs)
