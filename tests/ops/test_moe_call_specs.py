"""``call_spec`` of the ops for mixtures of experts: sizes, layouts, and what is there."""

from __future__ import annotations

import pytest
import torch

from tileops_core import TensorSpec, ops
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

CPU = torch.device("cpu")
F16, F32 = torch.float16, torch.float32
TIGHT, MASKED = ContiguousLayout(), MaskedLayout(5)
ALIGNED = ContiguousLayout("aligned", "per_row", 4)


def spec(*shape, dtype=F16):
    return TensorSpec(CPU, dtype, shape)


def ids(*shape):
    return spec(*shape, dtype=torch.int32)


@pytest.mark.parametrize("bias", [None, spec(6, dtype=F32)], ids=["plain", "biased"])
def test_the_router(bias):
    op = ops.FusedTopKFwdOp(2, "sigmoid", True, 3, 2, 2.5)
    expected = FusedTopKCall(
        CPU,
        F16,
        tokens=4,
        experts=6,
        top_k=2,
        scoring_func="sigmoid",
        renormalize=True,
        num_expert_group=3,
        topk_group=2,
        routed_scaling_factor=2.5,
        has_bias=bias is not None,
    )
    assert op.call_spec(spec(4, 6), bias) == expected


def test_aligned_routes():
    expected = MoEPermuteAlignCall(CPU, tokens=4, top_k=2, num_experts=6, block_size=16)
    assert ops.MoEPermuteAlignFwdOp(6, 16).call_spec(ids(4, 2)) == expected


@pytest.mark.parametrize(
    ("layout", "tokens", "rows"), [(TIGHT, 4, 12), (ALIGNED, 4, 28), (ALIGNED, 1, 12)]
)
def test_permuted_tokens_say_how_many_rows_there_are(layout, tokens, rows):
    op = ops.MoEPrePermuteFwdOp(layout, 6)
    expected = MoEPrePermuteCall(
        CPU, F16, tokens=tokens, width=8, top_k=3, num_local_experts=6, rows=rows, layout=layout
    )
    assert op.call_spec(spec(tokens, 8), ids(tokens, 3)) == expected


@pytest.mark.parametrize(("layout", "rows"), [(TIGHT, (15, 8)), (MASKED, (3, 5, 8))])
@pytest.mark.parametrize("factor", [None, 2.5])
@pytest.mark.parametrize("out_dtype", [None, F32])
def test_summed_rows_are_counted_through(layout, rows, factor, out_dtype):
    epilogue = None if factor is None else RoutingEpilogueSpec(factor)
    op = ops.MoEPostPermuteFwdOp(layout, epilogue, out_dtype)
    expected = MoEPostPermuteCall(
        CPU,
        F16,
        out_dtype or F16,
        tokens=4,
        width=8,
        top_k=3,
        rows=15,
        layout=layout,
        routed_scaling_factor=factor or 1.0,
    )
    assert op.call_spec(spec(*rows), spec(4, 3, dtype=F32), ids(12)) == expected


@pytest.mark.parametrize(("layout", "rows"), [(TIGHT, (15, 7)), (MASKED, (3, 5, 7))])
@pytest.mark.parametrize("activation", [None, "gelu_and_mul"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("out_dtype", [None, F32])
def test_a_grouped_product_counts_rows_and_the_result_s_columns(
    layout, rows, activation, biased, out_dtype
):
    op = ops.MoEGroupedGEMMFwdOp(layout, activation=activation, out_dtype=out_dtype)
    expected = MoEGroupedGEMMCall(
        CPU,
        F16,
        out_dtype or F16,
        rows=15,
        n=10 if activation is None else 5,
        k=7,
        experts=3,
        layout=layout,
        activation=activation,
        has_bias=biased,
    )
    bias = spec(3, 10) if biased else None
    assert op.call_spec(spec(*rows), spec(3, 10, 7), ids(3), bias) == expected


def test_a_float8_product():
    op = ops.MoEGroupedGEMMFP8FwdOp(MASKED)
    expected = MoEGroupedGEMMFP8Call(CPU, experts=3, n=256, k=128, layout=MASKED)
    a, b = (spec(*s, dtype=torch.float8_e4m3fn) for s in ((3, 5, 128), (3, 256, 128)))
    scales = (spec(*s, dtype=F32) for s in ((3, 5, 1), (3, 2, 1)))
    a_scale, b_scale = scales
    assert op.call_spec(a, a_scale, b, b_scale, ids(3)) == expected


def test_the_shared_expert():
    expected = SharedExpertMLPCall(CPU, F16, tokens=4, width=8, inner=6)
    op = ops.SharedExpertMLPFwdOp()
    assert op.call_spec(spec(4, 8), spec(12, 8), spec(8, 6)) == expected


def test_indexed_experts():
    op = ops.IndexedExpertMLPFwdOp(2.5)
    expected = IndexedExpertMLPCall(
        CPU, F16, tokens=4, width=8, inner=6, experts=5, top_k=3, routed_scaling_factor=2.5
    )
    inputs = spec(4, 8), spec(5, 12, 8), spec(5, 8, 6), spec(4, 3, dtype=F32), ids(4, 3)
    assert op.call_spec(*inputs) == expected
