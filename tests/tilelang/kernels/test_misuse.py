"""Kernel objects and kernel types used directly, around the op and its checks."""

from __future__ import annotations

import pytest
import torch

from tileops_core.interfaces.elementwise import ElementwiseCall
from tileops_core.interfaces.norm import (
    FusedAddLayerNormCall,
    FusedAddRMSNormCall,
    LayerNormCall,
    RMSNormCall,
)
from tileops_core.interfaces.reduction import ArgreduceCall, SoftmaxCall
from tileops_core.interfaces.rope import RoPECall, RoPENeoxPositionIdsCall
from tileops_tilelang.cpu import toolchain
from tileops_tilelang.kernels.elementwise import GatedTileLang
from tileops_tilelang.kernels.norm import (
    FusedAddLayerNormTileLang,
    FusedAddRMSNormTileLang,
    LayerNormTileLang,
    RMSNormTileLang,
)
from tileops_tilelang.kernels.reduction import ArgmaxTileLang, SoftmaxTileLang
from tileops_tilelang.kernels.rope import RoPENeoxPositionIdsTileLang, RoPETileLang

CPU, F32, F16, I64 = torch.device("cpu"), torch.float32, torch.float16, torch.int64

X, ROW, AT = torch.randn(4, 8), torch.randn(8), torch.arange(4)
SEQUENCE, TOKENS = torch.randn(2, 3, 5, 8), torch.randn(4, 2, 8)

KERNELS = {
    "rms_norm": (RMSNormTileLang, RMSNormCall(CPU, F32, (4, 8), (8,), 1e-6, True), (X, ROW)),
    "rms_norm-plain": (
        RMSNormTileLang,
        RMSNormCall(CPU, F32, (4, 8), (8,), 1e-6, False),
        (X, None),
    ),
    "layer_norm": (
        LayerNormTileLang,
        LayerNormCall(CPU, F32, (4, 8), (8,), 1e-6, True, True),
        (X, ROW, ROW),
    ),
    "fused_add_rms_norm": (
        FusedAddRMSNormTileLang,
        FusedAddRMSNormCall(CPU, F32, (4, 8), 1e-6),
        (X, X, ROW),
    ),
    "fused_add_layer_norm": (
        FusedAddLayerNormTileLang,
        FusedAddLayerNormCall(CPU, F32, (4, 8), 1e-6),
        (X, X, ROW, ROW),
    ),
    "gated": (GatedTileLang, ElementwiseCall(CPU, "silu_and_mul", F32, ((4, 8),)), (X,)),
    "softmax": (SoftmaxTileLang, SoftmaxCall(CPU, F32, (4, 8), 1, F32), (X,)),
    "softmax-inner": (SoftmaxTileLang, SoftmaxCall(CPU, F32, (4, 8), 0, F32), (X,)),
    "softmax-narrow": (SoftmaxTileLang, SoftmaxCall(CPU, F32, (4, 8), 1, F16), (X,)),
    "argmax": (ArgmaxTileLang, ArgreduceCall(CPU, "argmax", F32, (4, 8), 1, False), (X,)),
    "argmax-inner": (ArgmaxTileLang, ArgreduceCall(CPU, "argmax", F32, (4, 8), 0, False), (X,)),
    "argmax-all": (ArgmaxTileLang, ArgreduceCall(CPU, "argmax", F32, (4, 8), None, True), (X,)),
    "rope": (RoPETileLang, RoPECall(CPU, F32, (4, 8), "neox", 8, 1e4), (X,)),
    "rope-2d": (RoPETileLang, RoPECall(CPU, F32, (2, 3, 5, 8), "neox", 8, 1e4), (SEQUENCE,)),
    "rope-positions": (
        RoPENeoxPositionIdsTileLang,
        RoPENeoxPositionIdsCall(CPU, F32, (4, 2, 8), I64, 4, 50, 1e4),
        (TOKENS, AT),
    ),
}


def wrong_dtype(x):
    return x.double() if x.is_floating_point() else x.int()


def wrong_dtype_of_one_size(x):
    return x.view(torch.int32) if x.is_floating_point() else x.view(torch.float64)


def other_device(x):
    return x.to("meta")


def negative(x):
    return torch._neg_view(x) if x.is_floating_point() else x.double()


def strided(x):
    return torch.stack((x, x), -1)[..., 0]


def cut(x):
    return x[:-1] if x.ndim == 1 else x[..., :-1].contiguous()


def longer(x):
    return torch.cat((x, x), -1)


WRONGS = [wrong_dtype, wrong_dtype_of_one_size, other_device, negative, strided, cut, longer]

# What fits all the same, in the one argument: rows of another length where no length is built in,
# more rows than before, and what is brought into order on the way.
FITS = {
    ("rms_norm", longer),
    ("rms_norm-plain", longer),
    ("layer_norm", longer),
    ("gated", longer),
    *((name, wrong) for name in ("softmax", "softmax-inner") for wrong in (cut, longer)),
    *(("softmax-narrow", wrong) for wrong in (cut, longer)),
    *((name, wrong) for name in ("argmax", "argmax-inner") for wrong in (cut, longer)),
    *(("argmax-all", wrong) for wrong in (cut, longer)),
    *(("rope-positions", wrong) for wrong in (cut, longer)),
    *((name, strided) for name in ("softmax-inner", "argmax-inner")),
    *((name, negative) for name in ("softmax-inner", "argmax-inner")),
}

MISUSES = [
    pytest.param(name, at, wrong, id=f"{name}-{at}-{wrong.__name__}")
    for name, (_, _, inputs) in KERNELS.items()
    for at, given in enumerate(inputs)
    if given is not None
    for wrong in WRONGS
    if at or (name, wrong) not in FITS
]


@pytest.fixture
def never_called(monkeypatch):
    """Makes a kernel whose library must not be called."""

    def guard(entry):
        def fail(*args):
            raise AssertionError("the library was called")

        monkeypatch.setattr(entry, "run", fail)
        return entry

    return guard


def changed(call, **facts):
    """The same call spec with other facts."""
    return type(call)(**{**{name: getattr(call, name) for name in call._fields}, **facts})


def entry_of(name):
    kernel_type, call, inputs = KERNELS[name]
    return kernel_type.entry_for(call)[1](), list(inputs)


@pytest.mark.parametrize(("name", "at", "wrong"), MISUSES)
def test_a_tensor_that_does_not_fit_is_refused_before_memory_is_touched(
    name, at, wrong, never_called
):
    entry, inputs = entry_of(name)
    entry.forward(*inputs)
    inputs[at] = wrong(inputs[at])
    with pytest.raises(ValueError, match=r"call the op|unpack"):
        never_called(entry).forward(*inputs)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_a_weight_that_was_built_in_cannot_be_left_out(name, never_called):
    entry, inputs = entry_of(name)
    for at in range(1, len(inputs)):
        given = [None if i == at else x for i, x in enumerate(inputs)]
        with pytest.raises(ValueError, match="call the op"):
            never_called(entry).forward(*given)


@pytest.mark.parametrize("shape", [(8,), (2, 2, 8), (1, 1, 1, 1, 8), ()])
def test_rotary_embedding_of_another_rank_is_refused(shape, never_called):
    for name in ("rope", "rope-positions"):
        entry, inputs = entry_of(name)
        if name == "rope-positions" and len(shape) == 3:
            continue
        with pytest.raises(ValueError, match=r"call the op|unpack"):
            never_called(entry).forward(torch.ones(shape), *inputs[1:])


@pytest.mark.parametrize("name", KERNELS)
def test_a_call_of_this_machine_is_not_refused(name):
    kernel_type, call, _ = KERNELS[name]
    assert kernel_type.refusal(call) is None
    hash(kernel_type.entry_for(call)[0])


@pytest.mark.parametrize("name", KERNELS)
def test_a_dtype_without_programs_is_refused(name):
    kernel_type, call, _ = KERNELS[name]
    reason = kernel_type.refusal(changed(call, dtype=torch.float64))
    assert reason == "has programs for float32, float16, bfloat16, not torch.float64"


def test_a_result_s_dtype_without_programs_is_refused():
    call = SoftmaxCall(CPU, F32, (4, 8), 1, torch.float64)
    assert "not torch.float64" in SoftmaxTileLang.refusal(call)


def test_another_function_than_argmax_is_refused():
    call = ArgreduceCall(CPU, "argmin", F32, (4, 8), 1, False)
    assert ArgmaxTileLang.refusal(call) == "has a program for argmax, not argmin"


MANY = 2**31 - 1


@pytest.mark.parametrize(
    ("kernel_type", "call"),
    [
        (RMSNormTileLang, RMSNormCall(CPU, F16, (1, MANY), (MANY,), 1e-6, True)),
        (RMSNormTileLang, RMSNormCall(CPU, F16, (2**16, 2**15, 1), (1,), 1e-6, True)),
        (LayerNormTileLang, LayerNormCall(CPU, F16, (2, 2**16, 2**15), (2**16, 2**15), 1e-6, 0, 0)),
        (FusedAddRMSNormTileLang, FusedAddRMSNormCall(CPU, F16, (MANY, 2), 1e-6)),
        (GatedTileLang, ElementwiseCall(CPU, "silu_and_mul", F16, ((1, MANY + 1),))),
        (SoftmaxTileLang, SoftmaxCall(CPU, F16, (MANY, 1, 2), 1, F16)),
        (ArgmaxTileLang, ArgreduceCall(CPU, "argmax", F16, (2**16, 2**16), None, False)),
        (ArgmaxTileLang, ArgreduceCall(CPU, "argmax", F16, (2, MANY), 1, False)),
        (RoPETileLang, RoPECall(CPU, F16, (2**10, 2**11, 2**10, 2), "neox", 2, 1e4)),
        (
            RoPENeoxPositionIdsTileLang,
            RoPENeoxPositionIdsCall(CPU, F16, (2**20, 2**11, 2), I64, 2, 50, 1e4),
        ),
    ],
)
def test_more_rows_or_columns_than_are_counted_are_refused(kernel_type, call):
    """PIPE-13: also so near the end of 32 bits that a whole block more has no number."""
    assert kernel_type.refusal(call).startswith("counts rows and columns in 32 bits")


def test_a_machine_without_a_compiler_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    for kernel_type, call, _ in KERNELS.values():
        assert kernel_type.refusal(call) == toolchain.missing()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("rms_norm", (2, 9, 8)),
        ("softmax", (9, 5)),
        ("argmax", (9, 5)),
        ("rope", (9, 8)),
        ("rope-2d", (1, 9, 2, 8)),
        ("rope-positions", (9, 3, 16)),
    ],
)
def test_calls_that_differ_in_size_alone_share_an_entry(name, shape):
    kernel_type, call, _ = KERNELS[name]
    other = changed(call, shape=shape)
    assert kernel_type.entry_for(call)[0] == kernel_type.entry_for(other)[0]
