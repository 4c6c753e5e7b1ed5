"""The reference's kernel types: for every op, any device, one entry for all sizes."""

from __future__ import annotations

import pytest
import torch

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
from tileops_core.kernels import Kernel
from tileops_reference import plugin
from tileops_reference.functions import attention, elementwise, gemm, norm, reduction
from tileops_reference.kernels import elementwise as kernels_elementwise
from tileops_reference.kernels.attention import GQADenseReference
from tileops_reference.kernels.elementwise import (
    AddReference,
    AlibiReference,
    GELUAndMulReference,
    GELUReference,
    MulReference,
    ReLUReference,
    SiLUAndMulReference,
    SinusoidalReference,
    TanhReference,
)
from tileops_reference.kernels.gemm import BMMReference, GEMMReference
from tileops_reference.kernels.norm import (
    FusedAddLayerNormReference,
    FusedAddRMSNormReference,
    LayerNormReference,
    RMSNormReference,
)
from tileops_reference.kernels.reduction import (
    ArgmaxReference,
    CumsumReference,
    LogSoftmaxReference,
    SoftmaxReference,
    SumReference,
)
from tileops_reference.kernels.rope import (
    LongRoPEReference,
    RoPENeoxPositionIdsReference,
    RoPEReference,
)

CPU = torch.device("cpu")
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


def build(kernel_type, call):
    identity, factory = kernel_type.entry_for(call)
    hash(identity)
    entry = factory()
    assert isinstance(entry, kernel_type)
    return entry


def elementwise_call(function, *shapes, parameters=(), inplace=False):
    return ElementwiseCall(CPU, function, F32, shapes, parameters, inplace)


def rope_call(*shape, layout="neox", dtype=F32):
    return RoPECall(CPU, dtype, shape, layout, shape[-1], 10000.0)


def position_call(*shape, dtype=F32, positions=torch.int64, rotary_dim=4, max_position=50):
    return RoPENeoxPositionIdsCall(CPU, dtype, shape, positions, rotary_dim, max_position, 10000.0)


def attention_call(**changes):
    facts = {
        "batch": 1,
        "seq_q": 3,
        "seq_kv": 5,
        "heads": 4,
        "heads_kv": 2,
        "head_dim": 8,
        "window_left": -1,
        "window_right": 0,
        "scale": 0.5,
        "softcap": 0.0,
        "rope": "none",
        "rotary_dim": 0,
        "rope_positions": 0,
        "has_scales": False,
        "has_sinks": False,
    }
    return GQADenseCall(CPU, F32, F32, **{**facts, **changes})


@pytest.mark.parametrize("registration", plugin.tileops_kernel_types(), ids=lambda r: r.op)
def test_every_kernel_type_is_general_and_runs_anywhere(registration):
    module, _, name = registration.kernel_type.partition(":")
    kernel_type = getattr(__import__(module, fromlist=[name]), name)
    assert registration.key == "reference"
    assert issubclass(kernel_type, Kernel)
    assert kernel_type.general
    assert kernel_type.devices is None
    assert kernel_type.supported_archs is None


SAME_PROGRAM = [
    (GEMMReference, GEMMCall(CPU, F16, 2, 3, 4), GEMMCall(CPU, F32, 5, 6, 7)),
    (BMMReference, BMMCall(CPU, F16, 1, 2, 3, 4), BMMCall(CPU, F16, 5, 6, 7, 8)),
    (
        AddReference,
        elementwise_call("add", (2, 3), (3,), parameters=(2,)),
        elementwise_call("add", (5,), (1,), parameters=(2,)),
    ),
    (MulReference, elementwise_call("mul", (2, 3), (3,)), elementwise_call("mul", (5,), (1,))),
    (
        GELUReference,
        elementwise_call("gelu", (2, 3), parameters=("none",)),
        elementwise_call("gelu", (5,), parameters=("none",)),
    ),
    (ReLUReference, elementwise_call("relu", (2, 3)), elementwise_call("relu", ())),
    (TanhReference, elementwise_call("tanh", (2, 3)), elementwise_call("tanh", ())),
    (
        SiLUAndMulReference,
        elementwise_call("silu_and_mul", (2, 6)),
        elementwise_call("silu_and_mul", (5, 4)),
    ),
    (
        GELUAndMulReference,
        elementwise_call("gelu_and_mul", (2, 6), parameters=("tanh",)),
        elementwise_call("gelu_and_mul", (5, 4), parameters=("tanh",)),
    ),
    (
        LogSoftmaxReference,
        SoftmaxCall(CPU, F32, (2, 3), 1, F32),
        SoftmaxCall(CPU, F32, (5, 7, 9), 1, F32),
    ),
    (
        ArgmaxReference,
        ArgreduceCall(CPU, "argmax", F16, (2, 3), 1, False),
        ArgreduceCall(CPU, "argmax", F32, (5, 7, 9), 1, False),
    ),
    (
        CumsumReference,
        ScanCall(CPU, "cumsum", F16, (2, 3), 1, F16),
        ScanCall(CPU, "cumsum", F32, (5, 7, 9), 1, F32),
    ),
    (RoPEReference, rope_call(5, 8), rope_call(2, 7, 3, 8, dtype=F16)),
    (
        RoPENeoxPositionIdsReference,
        position_call(5, 3, 8),
        position_call(7, 2, 16, dtype=F16, positions=torch.int32),
    ),
    (
        LongRoPEReference,
        LongRoPECall(CPU, F16, (5, 8), 8, 10000.0, 1.5, F32),
        LongRoPECall(CPU, F32, (2, 7, 3, 8), 8, 10000.0, 1.5, F32),
    ),
    (
        SoftmaxReference,
        SoftmaxCall(CPU, F32, (2, 3), 1, F32),
        SoftmaxCall(CPU, F32, (5, 7), 1, F32),
    ),
    (
        SumReference,
        ReduceCall(CPU, "sum", F16, (2, 3), (0,), False, F16),
        ReduceCall(CPU, "sum", F32, (5, 7), (0,), False, F32),
    ),
    (
        SumReference,
        ReduceCall(CPU, "sum", F16, (2, 3), (0, 1), False, F16),
        ReduceCall(CPU, "sum", F16, (2, 3, 4), (0, 1, 2), False, F16),
    ),
    (
        RMSNormReference,
        RMSNormCall(CPU, F16, (2, 8), (8,), 1e-6, True),
        RMSNormCall(CPU, BF16, (3, 5, 8), (8,), 1e-6, False),
    ),
    (
        LayerNormReference,
        LayerNormCall(CPU, F16, (2, 8), (8,), 1e-6, True, True),
        LayerNormCall(CPU, BF16, (3, 5, 8), (8,), 1e-6, False, True),
    ),
    (
        FusedAddLayerNormReference,
        FusedAddLayerNormCall(CPU, F16, (2, 8), 1e-6),
        FusedAddLayerNormCall(CPU, F32, (3, 5, 9), 1e-6),
    ),
    (
        FusedAddRMSNormReference,
        FusedAddRMSNormCall(CPU, F16, (2, 8), 1e-6),
        FusedAddRMSNormCall(CPU, F32, (3, 5, 9), 1e-6),
    ),
    (GQADenseReference, attention_call(), attention_call(batch=3, seq_q=1, heads=8, head_dim=16)),
]


@pytest.mark.parametrize(("kernel_type", "one", "other"), SAME_PROGRAM)
def test_sizes_share_one_entry(kernel_type, one, other):
    assert kernel_type.entry_for(one)[0] == kernel_type.entry_for(other)[0]


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm(trans_a, trans_b):
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    entry = build(GEMMReference, GEMMCall(CPU, F32, 4, 4, 4, trans_a, trans_b))
    assert torch.equal(entry.forward(a, b), gemm.gemm(a, b, trans_a=trans_a, trans_b=trans_b))


def test_bmm():
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    entry = build(BMMReference, BMMCall(CPU, F32, 2, 3, 5, 4))
    assert torch.equal(entry.forward(a, b), gemm.bmm(a, b))


@pytest.mark.parametrize("alpha", [1, 0, -3, 0.5])
def test_add(alpha):
    x, y = torch.randn(2, 3), torch.randn(3)
    entry = build(AddReference, elementwise_call("add", (2, 3), (3,), parameters=(alpha,)))
    assert torch.equal(entry.forward(x, y), elementwise.add(x, y, alpha=alpha))


def test_mul():
    x, y = torch.randn(2, 3), torch.randn(3)
    entry = build(MulReference, elementwise_call("mul", (2, 3), (3,)))
    assert torch.equal(entry.forward(x, y), elementwise.mul(x, y))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate):
    x = torch.randn(2, 3)
    entry = build(GELUReference, elementwise_call("gelu", (2, 3), parameters=(approximate,)))
    assert torch.equal(entry.forward(x), elementwise.gelu(x, approximate=approximate))


def test_relu():
    x = torch.tensor([-1.0, 2.0])
    assert build(ReLUReference, elementwise_call("relu", (2,))).forward(x).tolist() == [0, 2]
    assert x.tolist() == [-1, 2]


def test_relu_in_place():
    x = torch.tensor([-1.0, 2.0])
    entry = build(ReLUReference, elementwise_call("relu", (2,), inplace=True))
    assert entry.forward(x) is x
    assert x.tolist() == [0, 2]


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize(("dtype", "out_dtype"), [(F16, F16), (F32, F32), (F32, F16), (F16, F32)])
def test_softmax(dim, dtype, out_dtype):
    x = torch.randn(2, 3, 4).to(dtype)
    result = build(SoftmaxReference, SoftmaxCall(CPU, dtype, (2, 3, 4), dim, out_dtype)).forward(x)
    assert result.dtype is out_dtype
    assert torch.equal(result, reduction.softmax(x, dim=dim, dtype=out_dtype))


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(("dtype", "out_dtype"), [(F16, F16), (F32, F16), (F16, F32)])
def test_sum(dims, keepdim, dtype, out_dtype):
    x = torch.randn(2, 3, 4).to(dtype)
    call = ReduceCall(CPU, "sum", dtype, (2, 3, 4), dims, keepdim, out_dtype)
    result = build(SumReference, call).forward(x)
    expected = reduction.reduce_sum(x, dim=dims, keepdim=keepdim, dtype=out_dtype)
    assert result.dtype is out_dtype
    assert torch.equal(result, expected)


def test_sum_of_a_scalar():
    x = torch.tensor(3.0)
    for keepdim in (False, True):
        entry = build(SumReference, ReduceCall(CPU, "sum", F32, (), (), keepdim, F32))
        assert torch.equal(entry.forward(x), x)


@pytest.mark.parametrize("rows", [3, 3000])
@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm(rows, weighted):
    x, weight = torch.randn(rows, 8), torch.randn(8) if weighted else None
    entry = build(RMSNormReference, RMSNormCall(CPU, F32, (rows, 8), (8,), 1e-3, weighted))
    expected = norm.rms_norm(x, weight, normalized_shape=(8,), eps=1e-3)
    assert torch.equal(entry.forward(x, weight), expected)


def test_layer_norm():
    x, weight, bias = torch.randn(3, 8), torch.randn(8), torch.randn(8)
    entry = build(LayerNormReference, LayerNormCall(CPU, F32, (3, 8), (8,), 1e-3, True, True))
    expected = norm.layer_norm(x, weight, bias, normalized_shape=(8,), eps=1e-3)
    assert torch.equal(entry.forward(x, weight, bias), expected)
    assert torch.equal(
        entry.forward(x, None, None), norm.layer_norm(x, normalized_shape=(8,), eps=1e-3)
    )


def test_fused_add_layer_norm():
    x, residual, weight, bias = torch.randn(3, 8), torch.randn(3, 8), *torch.randn(2, 8)
    entry = build(FusedAddLayerNormReference, FusedAddLayerNormCall(CPU, F32, (3, 8), 1e-3))
    expected = norm.fused_add_layer_norm(x, residual, weight, bias, eps=1e-3)
    for result, right in zip(entry.forward(x, residual, weight, bias), expected, strict=True):
        assert torch.equal(result, right)


def test_attention():
    q, k, v = torch.randn(1, 3, 4, 8), *torch.randn(2, 1, 5, 2, 8)
    tables = torch.randn(2, 5, 2)
    call = attention_call(
        window_left=2, softcap=7.0, rope="interleaved", rotary_dim=4, rope_positions=5
    )
    result = build(GQADenseReference, call).forward(q, k, v, None, None, None, *tables, None)
    expected = attention.gqa_dense(
        q,
        k,
        v,
        rope_cos=tables[0],
        rope_sin=tables[1],
        is_causal=True,
        window_size_left=2,
        sm_scale=0.5,
        softcap=7.0,
        pos_encoding_mode="rope",
        rotary_dim=4,
        rope_layout="interleaved",
    )
    assert torch.equal(result, expected)


@pytest.mark.parametrize(
    ("kernel_type", "function", "shape"),
    [(AlibiReference, "alibi", (3, 5, 5)), (SinusoidalReference, "sinusoidal", (5, 3))],
)
def test_a_tensor_without_inputs_has_one_entry_per_type_and_device(kernel_type, function, shape):
    calls = [
        GenerativeCall(device, function, dtype, (*shape[:1], length, *shape[2:]))
        for device in ("cpu", "meta")
        for dtype in (F16, F32)
        for length in (5, 7)
    ]
    identities = [kernel_type.entry_for(call)[0] for call in calls]
    assert len(set(identities)) == len(calls)


def test_alibi():
    entry = build(AlibiReference, GenerativeCall(CPU, "alibi", BF16, (3, 5, 5)))
    expected = elementwise.alibi(seq_len=5, num_heads=3, out_dtype=BF16, device="cpu")
    results = [entry.forward() for _ in range(2)]
    assert all(torch.equal(result, expected) for result in results)
    assert results[0].data_ptr() != results[1].data_ptr()


@pytest.mark.parametrize("most", [1 << 20, 1])
def test_a_sinusoidal_table_is_kept_where_it_is_small(most, monkeypatch):
    monkeypatch.setattr(kernels_elementwise, "_MOST_BYTES", most)
    entry = build(SinusoidalReference, GenerativeCall(CPU, "sinusoidal", F16, (5, 3)))
    assert (entry.table is None) == (most == 1)
    expected = elementwise.sinusoidal(seq_len=5, d_model=3, out_dtype=F16, device="cpu")
    results = [entry.forward() for _ in range(2)]
    assert all(torch.equal(result, expected) for result in results)
    assert results[0].data_ptr() != results[1].data_ptr()


def test_tanh():
    x = torch.randn(2, 3)
    assert torch.equal(build(TanhReference, elementwise_call("tanh", (2, 3))).forward(x), x.tanh())


def test_gated_silu():
    x = torch.randn(2, 6)
    entry = build(SiLUAndMulReference, elementwise_call("silu_and_mul", (2, 6)))
    assert torch.equal(entry.forward(x), elementwise.silu_and_mul(x))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gated_gelu(approximate):
    x = torch.randn(2, 6)
    call = elementwise_call("gelu_and_mul", (2, 6), parameters=(approximate,))
    expected = elementwise.gelu_and_mul(x, approximate=approximate)
    assert torch.equal(build(GELUAndMulReference, call).forward(x), expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize(("dtype", "out_dtype"), [(F16, F16), (F32, F32), (F32, F16), (F16, F32)])
def test_log_softmax_and_cumsum(dim, dtype, out_dtype):
    x, shape = torch.randn(2, 3, 4).to(dtype), (2, 3, 4)
    for kernel_type, call, function in (
        (LogSoftmaxReference, SoftmaxCall(CPU, dtype, shape, dim, out_dtype), "log_softmax"),
        (CumsumReference, ScanCall(CPU, "cumsum", dtype, shape, dim, out_dtype), "cumsum"),
    ):
        result = build(kernel_type, call).forward(x)
        assert result.dtype is out_dtype
        assert torch.equal(result, getattr(reduction, function)(x, dim=dim, dtype=out_dtype))


@pytest.mark.parametrize("dim", [None, 0, 1, 2])
@pytest.mark.parametrize("keepdim", [False, True])
def test_argmax(dim, keepdim):
    x = torch.randn(2, 3, 4)
    call = ArgreduceCall(CPU, "argmax", F32, (2, 3, 4), dim, keepdim)
    result = build(ArgmaxReference, call).forward(x)
    assert torch.equal(result, reduction.argmax(x, dim=dim, keepdim=keepdim))


@pytest.mark.parametrize("dtype", [F16, F32])
def test_fused_add_rms_norm(dtype):
    x, residual, weight = (torch.randn(s).to(dtype) for s in ((3, 8), (3, 8), (8,)))
    entry = build(FusedAddRMSNormReference, FusedAddRMSNormCall(CPU, dtype, (3, 8), 1e-3))
    expected = norm.fused_add_rms_norm(x, residual, weight, eps=1e-3)
    for result, right in zip(entry.forward(x, residual, weight), expected, strict=True):
        assert torch.equal(result, right)
