"""``call_spec``: the facts and parameters of a call, each as the one thing it means."""

from __future__ import annotations

import math

import pytest
import torch

from tileops_core import TensorSpec, ops
from tileops_core.interfaces.attention import GQADenseCall
from tileops_core.interfaces.elementwise import ElementwiseCall, GenerativeCall
from tileops_core.interfaces.gemm import BMMCall, GEMMCall
from tileops_core.interfaces.norm import (
    FusedAddLayerNormCall,
    FusedAddRMSNormCall,
    LayerNormCall,
    RMSNormCall,
)
from tileops_core.interfaces.reduction import ArgreduceCall, ReduceCall, ScanCall, SoftmaxCall
from tileops_core.interfaces.rope import LongRoPECall, RoPECall, RoPENeoxPositionIdsCall

CPU = torch.device("cpu")
F16, F32 = torch.float16, torch.float32


def spec(*shape, dtype=F16):
    return TensorSpec(CPU, dtype, shape)


@pytest.mark.parametrize(
    ("flags", "a", "b"),
    [
        ({}, (2, 4), (3, 4)),
        ({"trans_b": False}, (2, 4), (4, 3)),
        ({"trans_a": True}, (4, 2), (3, 4)),
        ({"trans_a": True, "trans_b": False}, (4, 2), (4, 3)),
    ],
)
def test_gemm_reads_its_sizes_through_the_flags(flags, a, b):
    expected = GEMMCall(CPU, F16, m=2, n=3, k=4, **flags)
    assert ops.GEMMFwdOp(**flags).call_spec(spec(*a), spec(*b)) == expected


def test_bmm():
    expected = BMMCall(CPU, F16, batch=5, m=2, n=3, k=4)
    assert ops.BMMFwdOp().call_spec(spec(5, 2, 4), spec(5, 4, 3)) == expected


@pytest.mark.parametrize(
    ("op", "shapes", "rest"),
    [
        (ops.AddFwdOp(alpha=2), ((2, 3), (3,)), ("add", (2,), False)),
        (ops.MulFwdOp(), ((2, 3), (3,)), ("mul", (), False)),
        (ops.GELUFwdOp(approximate="tanh"), ((2, 3),), ("gelu", ("tanh",), False)),
        (ops.ReLUFwdOp(), ((2, 3),), ("relu", (), False)),
        (ops.ReLUFwdOp(inplace=True), ((2, 3),), ("relu", (), True)),
        (ops.TanhFwdOp(), ((2, 3),), ("tanh", (), False)),
        (ops.SiLUAndMulFwdOp(), ((2, 6),), ("silu_and_mul", (), False)),
        (ops.GELUAndMulFwdOp(), ((2, 6),), ("gelu_and_mul", ("none",), False)),
        (ops.GELUAndMulFwdOp(approximate="tanh"), ((2, 6),), ("gelu_and_mul", ("tanh",), False)),
    ],
    ids=lambda x: repr(x) if hasattr(x, "target") else None,
)
def test_elementwise_ops_differ_by_the_function_s_name(op, shapes, rest):
    function, parameters, inplace = rest
    expected = ElementwiseCall(CPU, function, F16, shapes, parameters, inplace)
    assert op.call_spec(*(spec(*shape) for shape in shapes)) == expected


both_softmaxes = pytest.mark.parametrize(
    ("op", "function"),
    [(ops.SoftmaxFwdOp, torch.softmax), (ops.LogSoftmaxFwdOp, torch.log_softmax)],
)


@both_softmaxes
@pytest.mark.parametrize(("dim", "counted"), [(-1, 2), (2, 2), (-3, 0)])
def test_softmax_counts_its_axis_from_the_front(op, function, dim, counted):
    expected = SoftmaxCall(CPU, F16, (2, 3, 4), counted, F32)
    assert op(dim, dtype=F32).call_spec(spec(2, 3, 4)) == expected


@both_softmaxes
@pytest.mark.parametrize(("rank", "axis"), [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1)])
def test_softmax_without_an_axis_warns_and_takes_torch_s(op, function, rank, axis):
    x = torch.randn((2, 3, 4, 5)[:rank])
    match = rf"{op.__name__}: .*axis {axis}; pass dim={axis}"
    with pytest.warns(UserWarning, match=match) as told:
        result = op()(x)
    assert torch.equal(result, function(x, axis))
    assert [warning.filename for warning in told] == [__file__]


@both_softmaxes
def test_softmax_without_a_cast_keeps_the_dtype(op, function):
    assert op(0).call_spec(spec()) == SoftmaxCall(CPU, F16, (), 0, F16)


@pytest.mark.parametrize(
    ("dim", "dims"),
    [
        (None, (0, 1, 2)),
        ((), (0, 1, 2)),
        (0, (0,)),
        (-1, (2,)),
        ((2, 0), (0, 2)),
        ([-1, -3], (0, 2)),
    ],
)
def test_sum_lists_its_axes_in_order(dim, dims):
    expected = ReduceCall(CPU, "sum", F16, (2, 3, 4), dims, True, F32)
    assert ops.SumFwdOp(dim, True, dtype=F32).call_spec(spec(2, 3, 4)) == expected


@pytest.mark.parametrize("dim", [None, 0, -1, ()])
def test_a_scalar_has_no_axes_to_reduce(dim):
    expected = ReduceCall(CPU, "sum", F16, (), (), False, F16)
    assert ops.SumFwdOp(dim).call_spec(spec()) == expected


@pytest.mark.parametrize(("dim", "counted"), [(None, None), (-1, 2), (2, 2), (-3, 0)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_argmax_counts_its_axis_from_the_front_or_has_none(dim, counted, keepdim):
    expected = ArgreduceCall(CPU, "argmax", F16, (2, 3, 4), counted, keepdim)
    assert ops.ArgmaxFwdOp(dim, keepdim).call_spec(spec(2, 3, 4)) == expected


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_a_scalar_is_flat_for_argmax(dim):
    expected = ArgreduceCall(CPU, "argmax", F16, (), None, False)
    assert ops.ArgmaxFwdOp(dim).call_spec(spec()) == expected


@pytest.mark.parametrize(("dim", "counted"), [(-1, 2), (2, 2), (-3, 0)])
@pytest.mark.parametrize("dtype", [None, F32])
def test_cumsum_counts_its_axis_from_the_front(dim, counted, dtype):
    expected = ScanCall(CPU, "cumsum", F16, (2, 3, 4), counted, dtype or F16)
    assert ops.CumsumFwdOp(dim, dtype=dtype).call_spec(spec(2, 3, 4)) == expected


def test_rope_states_pairs_width_and_base():
    expected = RoPECall(CPU, F16, (5, 6), layout="neox", rotary_dim=6, base=10000.0)
    assert ops.RoPEFwdOp().call_spec(spec(5, 6)) == expected
    shape = (2, 5, 3, 6)
    expected = RoPECall(CPU, F16, shape, layout="interleaved", rotary_dim=6, base=500.0)
    assert ops.RoPEFwdOp("interleaved", "2d", 500.0).call_spec(spec(*shape)) == expected


@pytest.mark.parametrize(
    ("longest", "trained", "amplitude"),
    [(4096, 4096, 1.0), (512, 4096, 1.0), (131072, 4096, math.sqrt(17 / 12)), (1, 1, 1.0)],
)
def test_long_rope_states_its_amplitude_and_what_its_factors_are(longest, trained, amplitude):
    for factors in (None, torch.ones(3, dtype=torch.bfloat16)):
        op = ops.LongRoPEFwdOp("1d", 500.0, factors, longest, trained)
        call = op.call_spec(spec(5, 6))
        dtype = None if factors is None else factors.dtype
        assert call == LongRoPECall(CPU, F16, (5, 6), 6, 500.0, call.amplitude, dtype)
        assert call.amplitude == pytest.approx(amplitude, rel=1e-15)


def test_a_tensor_without_inputs_is_stated_by_name_type_and_place():
    biases = ops.AlibiFwdOp(seq_len=5, num_heads=3, out_dtype="float16", device="cpu")
    assert biases.call_spec() == GenerativeCall(CPU, "alibi", F16, (3, 5, 5))
    encoding = ops.SinusoidalFwdOp(seq_len=5, d_model=3, device="meta")
    assert encoding.call_spec() == GenerativeCall("meta", "sinusoidal", F32, (5, 3))


@pytest.mark.parametrize(("rotary_dim", "turned"), [(None, 8), (6, 6)])
@pytest.mark.parametrize("positions", [torch.int32, torch.int64])
def test_rope_by_position_states_what_fixes_its_angles(rotary_dim, turned, positions):
    expected = RoPENeoxPositionIdsCall(
        CPU,
        F16,
        (5, 3, 8),
        positions_dtype=positions,
        rotary_dim=turned,
        max_position=99,
        base=500.0,
    )
    op = ops.RoPENeoxPositionIdsFwdOp(99, 500.0, rotary_dim)
    assert op.call_spec(spec(5, 3, 8), spec(5, dtype=positions)) == expected


def test_rms_norm_has_a_number_for_eps():
    expected = RMSNormCall(CPU, F16, (2, 3), (3,), torch.finfo(F32).eps, False)
    assert ops.RMSNormFwdOp(3).call_spec(spec(2, 3), None) == expected
    expected = RMSNormCall(CPU, F16, (2, 3), (2, 3), 0.0, True)
    assert ops.RMSNormFwdOp((2, 3), 0.0).call_spec(spec(2, 3), spec(2, 3)) == expected


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm_says_which_of_weight_and_bias_there_are(weight, bias):
    expected = LayerNormCall(CPU, F16, (2, 3), (3,), 1e-5, weight, bias)
    optional = (spec(3) if weight else None, spec(3) if bias else None)
    assert ops.LayerNormFwdOp(3).call_spec(spec(2, 3), *optional) == expected


def test_fused_add_layer_norm():
    expected = FusedAddLayerNormCall(CPU, F16, (2, 3), 1e-6)
    call = ops.FusedAddLayerNormFwdOp().call_spec(spec(2, 3), spec(2, 3), spec(3), spec(3))
    assert call == expected


def test_fused_add_rms_norm():
    expected = FusedAddRMSNormCall(CPU, F16, (2, 3), 1e-6)
    assert ops.FusedAddRMSNormFwdOp().call_spec(spec(2, 3), spec(2, 3), spec(3)) == expected


def attention(op, *, rope=False, scales=False, sinks=False, dtype=F16):
    return op.call_spec(
        spec(1, 3, 4, 16, dtype=dtype),
        *[spec(1, 5, 2, 16, dtype=dtype)] * 2,
        *[spec(1, 2, dtype=F32) if scales else None] * 3,
        *[spec(9, 4) if rope else None] * 2,
        spec(4, dtype=F32) if sinks else None,
    )


def expected_attention(**changes):
    facts = {
        "dtype": F16,
        "out_dtype": F16,
        "batch": 1,
        "seq_q": 3,
        "seq_kv": 5,
        "heads": 4,
        "heads_kv": 2,
        "head_dim": 16,
        "window_left": -1,
        "window_right": -1,
        "scale": 0.25,
        "softcap": 0.0,
        "rope": "none",
        "rotary_dim": 0,
        "rope_positions": 0,
        "has_scales": False,
        "has_sinks": False,
    }
    return GQADenseCall(CPU, **{**facts, **changes})


def test_attention_without_parameters():
    assert attention(ops.GQADenseFwdOp()) == expected_attention()


def test_causality_is_a_window_that_ends_at_the_query():
    op = ops.GQADenseFwdOp(is_causal=True, window_size_left=7, window_size_right=2)
    assert attention(op) == expected_attention(window_left=7, window_right=0)


@pytest.mark.parametrize("softcap", [None, 0.0])
def test_no_cap_has_one_form(softcap):
    assert attention(ops.GQADenseFwdOp(softcap=softcap)) == expected_attention()


def test_rotary_embedding_has_one_form():
    op = ops.GQADenseFwdOp(pos_encoding_mode="rope", rotary_dim=8, rope_layout="interleaved")
    expected = expected_attention(rope="interleaved", rotary_dim=8, rope_positions=9)
    assert attention(op, rope=True) == expected
    op = ops.GQADenseFwdOp(pos_encoding_mode="rope")
    expected = expected_attention(rope="neox", rotary_dim=16, rope_positions=9)
    assert attention(op, rope=True) == expected
    assert attention(ops.GQADenseFwdOp(rope_layout="interleaved")) == expected_attention()


def test_fp8_and_sinks_are_seen():
    op = ops.GQADenseFwdOp(out_dtype=torch.bfloat16, sm_scale=0.5, softcap=30.0)
    expected = expected_attention(
        dtype=torch.float8_e4m3fn,
        out_dtype=torch.bfloat16,
        scale=0.5,
        softcap=30.0,
        has_scales=True,
        has_sinks=True,
    )
    assert attention(op, scales=True, sinks=True, dtype=torch.float8_e4m3fn) == expected
