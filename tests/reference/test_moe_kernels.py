"""The kernel types for mixtures of experts: their parameters, their identities, their buffers."""

from __future__ import annotations

import pytest
import torch

from tileops_core.interfaces.moe import (
    ContiguousLayout,
    FusedTopKCall,
    IndexedExpertMLPCall,
    MaskedLayout,
    MoEGroupedGEMMCall,
    MoEGroupedGEMMFP8Call,
    MoEPermuteAlignCall,
    MoEPostPermuteCall,
    MoEPrePermuteCall,
    RoutingEpilogueSpec,
    SharedExpertMLPCall,
)
from tileops_reference.functions import moe, moe_fused
from tileops_reference.kernels import moe as kernels

CPU = torch.device("cpu")
BF16, F32 = torch.bfloat16, torch.float32
TIGHT, ALIGNED = ContiguousLayout(), ContiguousLayout("aligned", "per_row", 4)
ENDS = torch.tensor([2, 2, 5], dtype=torch.int32)


def top_k_call(*sizes, dtype=F32, **changes):
    facts = {
        "top_k": 2,
        "scoring_func": "sigmoid",
        "renormalize": True,
        "num_expert_group": 3,
        "topk_group": 2,
        "routed_scaling_factor": 2.5,
        "has_bias": True,
    }
    return FusedTopKCall(CPU, dtype, *sizes, **(facts | changes))


def grouped_call(*sizes, dtype=F32, **changes):
    facts = {"layout": TIGHT, "activation": "swigluoai", "has_bias": True}
    return MoEGroupedGEMMCall(CPU, dtype, F32, *sizes, **(facts | changes))


def build(kernel_type, call):
    identity, factory = kernel_type.entry_for(call)
    hash(identity)
    entry = factory()
    assert isinstance(entry, kernel_type)
    return entry


SAME_PROGRAM = [
    (
        kernels.FusedTopKReference,
        top_k_call(4, 6),
        top_k_call(7, 12, dtype=BF16, has_bias=False),
    ),
    (
        kernels.MoEPermuteAlignReference,
        MoEPermuteAlignCall(CPU, 4, 2, 8, 16),
        MoEPermuteAlignCall(CPU, 9, 3, 8, 16),
    ),
    (
        kernels.MoEPrePermuteReference,
        MoEPrePermuteCall(CPU, F32, 4, 8, 2, 5, 8, TIGHT),
        MoEPrePermuteCall(CPU, BF16, 5, 9, 1, 5, 5, TIGHT),
    ),
    (
        kernels.MoEPostPermuteReference,
        MoEPostPermuteCall(CPU, F32, F32, 4, 8, 2, 20, TIGHT, 2.5),
        MoEPostPermuteCall(CPU, BF16, F32, 5, 9, 1, 30, MaskedLayout(3), 2.5),
    ),
    (
        kernels.MoEGroupedGEMMReference,
        grouped_call(5, 6, 7, 3),
        grouped_call(9, 8, 7, 6, dtype=BF16, has_bias=False),
    ),
    (
        kernels.MoEGroupedGEMMFP8Reference,
        MoEGroupedGEMMFP8Call(CPU, 3, 128, 256, MaskedLayout(4)),
        MoEGroupedGEMMFP8Call(CPU, 5, 256, 128, MaskedLayout(4)),
    ),
    (
        kernels.SharedExpertMLPReference,
        SharedExpertMLPCall(CPU, F32, 4, 8, 6),
        SharedExpertMLPCall(CPU, BF16, 5, 9, 7),
    ),
    (
        kernels.IndexedExpertMLPReference,
        IndexedExpertMLPCall(CPU, F32, 4, 8, 6, 5, 2, 2.5),
        IndexedExpertMLPCall(CPU, BF16, 5, 9, 7, 6, 3, 2.5),
    ),
]


@pytest.mark.parametrize(("kernel_type", "one", "other"), SAME_PROGRAM)
def test_sizes_share_one_entry(kernel_type, one, other):
    assert kernel_type.entry_for(one)[0] == kernel_type.entry_for(other)[0]


@pytest.mark.parametrize(
    ("kernel_type", "one", "other"),
    [
        (kernels.FusedTopKReference, top_k_call(4, 6), top_k_call(4, 6, renormalize=False)),
        (
            kernels.MoEPrePermuteReference,
            MoEPrePermuteCall(CPU, F32, 4, 8, 2, 5, 8, TIGHT),
            MoEPrePermuteCall(CPU, F32, 4, 8, 2, 5, 8, ALIGNED),
        ),
        (
            kernels.MoEGroupedGEMMReference,
            grouped_call(5, 6, 7, 3),
            grouped_call(5, 6, 7, 3, activation=None),
        ),
    ],
)
def test_what_is_compiled_in_tells_entries_apart(kernel_type, one, other):
    assert kernel_type.entry_for(one)[0] != kernel_type.entry_for(other)[0]


def test_the_router_has_its_functions_parameters():
    logits, bias = torch.randn(4, 6), torch.randn(6)
    results = build(kernels.FusedTopKReference, top_k_call(4, 6)).forward(logits, bias)
    expected = moe.fused_top_k(
        logits,
        bias,
        top_k=2,
        scoring_func="sigmoid",
        renormalize=True,
        num_expert_group=3,
        topk_group=2,
        routed_scaling_factor=2.5,
    )
    for result, right in zip(results, expected, strict=True):
        assert torch.equal(result, right)


def test_routes_are_sorted_into_the_calls_blocks():
    ids = torch.tensor([[0, 7], [7, 3]], dtype=torch.int32)
    entry = build(kernels.MoEPermuteAlignReference, MoEPermuteAlignCall(CPU, 2, 2, 8, 16))
    expected = moe.permute_align(ids, num_experts=8, block_size=16)
    for result, right in zip(entry.forward(ids), expected, strict=True):
        assert torch.equal(result, right)


@pytest.mark.parametrize("layout", [TIGHT, ALIGNED], ids=str)
def test_rows_are_copied_by_the_calls_layout(layout):
    hidden, ids = torch.randn(3, 4), torch.tensor([[0, 2], [2, 1], [1, 0]], dtype=torch.int32)
    call = MoEPrePermuteCall(CPU, F32, 3, 4, 2, 5, 6, layout)
    results = build(kernels.MoEPrePermuteReference, call).forward(hidden, ids)
    expected = moe.pre_permute(hidden, ids, layout=layout, num_local_experts=5)
    for result, right in zip(results, expected, strict=True):
        assert torch.equal(result, right)


@pytest.mark.parametrize("given", [False, True])
def test_sums_go_into_the_callers_memory(given):
    rows, weights = torch.randn(6, 4).bfloat16(), torch.rand(2, 3)
    at = torch.randperm(6).int()
    call = MoEPostPermuteCall(CPU, BF16, F32, 2, 4, 3, 6, TIGHT, 2.5)
    out = torch.empty(2, 4) if given else None
    entry = build(kernels.MoEPostPermuteReference, call)
    result = entry.forward(rows, weights, at, out=out)
    expected = moe.post_permute(
        rows, weights, at, layout=TIGHT, epilogue=RoutingEpilogueSpec(2.5), out_dtype=F32
    )
    assert torch.equal(result, expected)
    assert (result is out) == given


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("activation", [None, "swigluoai"])
def test_products_go_into_the_callers_memory(given, biased, activation):
    a, b = torch.randn(6, 7).bfloat16(), torch.randn(3, 8, 7).bfloat16()
    bias = torch.randn(3, 8).bfloat16() if biased else None
    columns = 8 if activation is None else 4
    call = grouped_call(6, columns, 7, 3, dtype=BF16, activation=activation, has_bias=biased)
    out = torch.full((6, columns), torch.nan) if given else None
    entry = build(kernels.MoEGroupedGEMMReference, call)
    result = entry.forward(a, b, ENDS, bias=bias, out=out)
    expected = moe.grouped_gemm(
        a, b, ENDS, bias, layout=TIGHT, activation=activation, out_dtype=F32
    )
    assert torch.equal(result, expected)
    assert (result is out) == given


@pytest.mark.parametrize("given", [False, True])
def test_float8_products_go_into_the_callers_memory(given):
    a, b = torch.randn(3, 4, 128).to(torch.float8_e4m3fn), torch.randn(3, 128, 128)
    inputs = (a, torch.rand(3, 4, 1), b.to(a.dtype), torch.rand(3, 1, 1), ENDS)
    call = MoEGroupedGEMMFP8Call(CPU, 3, 128, 128, MaskedLayout(4))
    out = torch.full((3, 4, 128), torch.nan).bfloat16() if given else None
    result = build(kernels.MoEGroupedGEMMFP8Reference, call).forward(*inputs, out=out)
    assert torch.equal(result, moe.grouped_gemm_fp8(*inputs, layout=MaskedLayout(4)))
    assert (result is out) == given


@pytest.mark.parametrize("given", [False, True])
def test_experts_go_into_the_callers_memory(given):
    hidden, w_gate_up, w_down = torch.randn(4, 8), torch.randn(5, 12, 8), torch.randn(5, 8, 6)
    inputs = (hidden, w_gate_up, w_down, torch.rand(4, 2), torch.randint(5, (4, 2)).int())
    call = IndexedExpertMLPCall(CPU, F32, 4, 8, 6, 5, 2, 2.5)
    out = torch.empty(4, 8) if given else None
    result = build(kernels.IndexedExpertMLPReference, call).forward(*inputs, out=out)
    expected = moe_fused.indexed_expert_mlp(*inputs, routed_scaling_factor=2.5)
    assert torch.equal(result, expected)
    assert (result is out) == given


def test_the_shared_expert_is_its_function():
    inputs = torch.randn(4, 8), torch.randn(12, 8), torch.randn(8, 6)
    entry = build(kernels.SharedExpertMLPReference, SharedExpertMLPCall(CPU, F32, 4, 8, 6))
    assert torch.equal(entry.forward(*inputs), moe_fused.shared_expert_mlp(*inputs))
