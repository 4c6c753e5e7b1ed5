"""Mixtures of experts through the public API: edges, layouts, what the entries exclude."""

from __future__ import annotations

import math

import moe_formulas
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops_core import checks, ops
from tileops_core.errors import SignatureError
from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout, RoutingEpilogueSpec

pytestmark = pytest.mark.usefixtures("server")

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
TIGHT, MASKED = ContiguousLayout(), MaskedLayout(4)
ALIGNED = ContiguousLayout("aligned", "per_row", 4)
CONTIGUOUS = (
    TIGHT,
    ContiguousLayout(metadata_kind="per_row"),
    ContiguousLayout("aligned", "physical_psum", 4),
    ALIGNED,
)


def int32(values):
    return torch.tensor(values, dtype=torch.int32)


# -- the router -------------------------------------------------------------------------------


def test_the_bias_decides_and_the_weights_are_the_plain_scores():
    """MOE-03."""
    op = ops.FusedTopKFwdOp(2, "sigmoid", renormalize=True)
    weights, ids = op(torch.tensor([[-17.0, -18, -16, -19]]), torch.tensor([12.0, 11, 13, 10]))
    assert ids.tolist() == [[2, 0]]
    torch.testing.assert_close(weights, torch.tensor([[0.7311, 0.2689]]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_logits_go_to_the_lower_expert(dtype):
    logits = torch.tensor([[0.0, 2, 1, 2, 2, 1, 0, 1]]).to(dtype)
    assert ops.FusedTopKFwdOp(5)(logits)[1].tolist() == [[1, 3, 4, 2, 5]]
    grouped = ops.FusedTopKFwdOp(3, num_expert_group=4, topk_group=2)
    assert grouped(logits)[1].tolist() == [[1, 3, 2]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_tokens_choose_no_experts(dtype):
    """MOE-02."""
    weights, ids = ops.FusedTopKFwdOp(2)(torch.empty(0, 8, dtype=dtype))
    assert (weights.shape, weights.dtype) == ((0, 2), torch.float32)
    assert (ids.shape, ids.dtype) == ((0, 2), torch.int32)


LOGITS, BIAS = torch.zeros(2, 8), torch.zeros(8)


@pytest.mark.parametrize(
    ("params", "inputs", "match"),
    [
        ({"top_k": 0}, (LOGITS,), "top_k > 0"),
        ({"top_k": 9}, (LOGITS,), "top_k <= E"),
        ({"top_k": 2}, (LOGITS, BIAS), "scoring_func == 'sigmoid'"),
        ({"top_k": 2, "num_expert_group": 3}, (LOGITS,), "E % num_expert_group"),
        ({"top_k": 2, "topk_group": 2}, (LOGITS,), "topk_group <= num_expert_group"),
        ({"top_k": 3, "num_expert_group": 4}, (LOGITS,), "top_k <= topk_group"),
        ({"top_k": 2, "routed_scaling_factor": 0.0}, (LOGITS,), "routed_scaling_factor > 0"),
        (
            {"top_k": 1, "scoring_func": "sigmoid", "num_expert_group": 8},
            (LOGITS, BIAS),
            "E // num_expert_group >= 2",
        ),
        ({"top_k": 2, "scoring_func": "sigmoid"}, (LOGITS, BIAS.half()), "correction_bias"),
        ({"top_k": 2}, (LOGITS.t().contiguous().t(),), "not contiguous"),
    ],
)
def test_the_router_refuses_what_its_entry_excludes(params, inputs, match):
    with pytest.raises(SignatureError, match=f"FusedTopKFwdOp.*{match}"):
        ops.FusedTopKFwdOp(**params)(*inputs)


# -- permutation ------------------------------------------------------------------------------


def test_a_token_that_lists_an_expert_twice_has_two_routes():
    """MOE-04: topk_ids [[0, 0]], five experts, blocks of four."""
    found, owners, used = ops.MoEPermuteAlignFwdOp(5, 4)(int32([[0, 0]]))
    assert sorted(found[:2].tolist()) == [0, 1]
    assert found[2:].tolist() == [2] * (found.shape[0] - 2)
    assert owners[0] == 0
    assert not set(owners[1:].tolist()) & set(range(5))
    assert used.tolist() == [4]


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (4, 0)])
def test_no_routes_need_no_blocks(shape):
    """MOE-02."""
    found, owners, used = ops.MoEPermuteAlignFwdOp(3, 4)(int32([]).reshape(shape))
    assert found.tolist() == [0] * 12
    assert not set(owners.tolist()) & {0, 1, 2}
    assert used.tolist() == [0]


@pytest.mark.parametrize("layout", CONTIGUOUS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tokens_go_to_their_experts_and_back(layout, dtype):
    hidden, ids = torch.randn(5, 6).to(dtype), int32([[0, 3], [1, 4], [3, 0], [4, 3], [0, 1]])
    rows, metadata, inverse = ops.MoEPrePermuteFwdOp(layout, 5)(hidden, ids)
    by_expert = moe_formulas.rows_by_expert(layout, metadata.tolist())
    for row, owner in zip(inverse.tolist(), ids.flatten().tolist(), strict=True):
        assert row in by_expert[owner]
    back = ops.MoEPostPermuteFwdOp(layout)(rows, torch.full((5, 2), 0.5), inverse)
    assert torch.equal(back, hidden)


@pytest.mark.parametrize("layout", CONTIGUOUS, ids=str)
def test_without_tokens_the_metadata_is_written_all_the_same(layout):
    """MOE-02: results without elements cost no launch, but this one has some."""
    rows, metadata, inverse = ops.MoEPrePermuteFwdOp(layout, 5)(
        torch.empty(0, 6), int32([]).reshape(0, 2)
    )
    assert (rows.shape, inverse.shape) == ((0, 6), (0,))
    assert metadata.tolist() == ([] if layout.metadata_kind == "per_row" else [0] * 5)
    result = ops.MoEGroupedGEMMFwdOp(layout)(rows, torch.ones(5, 3, 6), metadata)
    assert result.shape == (0, 3)
    back = ops.MoEPostPermuteFwdOp(layout)(rows, torch.empty(0, 2), inverse)
    assert back.shape == (0, 6)


def test_a_masked_layout_does_not_permute():
    with pytest.raises(SignatureError, match=r"MoEPrePermuteFwdOp.*layout.kind == 'contiguous'"):
        ops.MoEPrePermuteFwdOp(MASKED, 5)(torch.ones(2, 6), int32([[0], [1]]))


@pytest.mark.parametrize("params", [("tight", "per_row", 2), ("aligned", "per_row", 0)])
def test_an_alignment_goes_with_its_packing(params):
    with pytest.raises(SignatureError, match="MoEPrePermuteFwdOp: layout"):
        ops.MoEPrePermuteFwdOp(ContiguousLayout(*params), 5)


# -- products ---------------------------------------------------------------------------------


def test_rows_of_an_aligned_buffer_are_whole_blocks():
    op = ops.MoEGroupedGEMMFwdOp(ALIGNED)
    with pytest.raises(SignatureError, match=r"P % layout.alignment"):
        op(torch.ones(6, 3), torch.ones(2, 5, 3), int32([0] * 6))


def test_an_activation_needs_gates_and_values():
    op = ops.MoEGroupedGEMMFwdOp(TIGHT, activation="silu_and_mul")
    with pytest.raises(SignatureError, match="MoEGroupedGEMMFwdOp: b"):
        op(torch.ones(2, 3), torch.ones(1, 5, 3), int32([2]))


def test_the_bias_is_taken_by_name_alone():
    op, bias = ops.MoEGroupedGEMMFwdOp(TIGHT), torch.ones(1, 5)
    inputs = torch.zeros(2, 3), torch.ones(1, 5, 3), int32([2])
    with pytest.raises(TypeError, match="MoEGroupedGEMMFwdOp"):
        op(*inputs, bias)
    assert op(*inputs, bias=bias).tolist() == [[1] * 5] * 2
    assert not op(*inputs).any()


@pytest.mark.parametrize("count", [-3, 9, 2**31 - 1])
def test_float8_counts_out_of_range_are_taken_for_the_nearest(count):
    a = torch.ones(2, 4, 128).to(torch.float8_e4m3fn)
    b = torch.ones(2, 128, 128).to(torch.float8_e4m3fn)
    op = ops.MoEGroupedGEMMFP8FwdOp(MASKED)
    result = op(a, torch.ones(2, 4, 1), b, torch.ones(2, 1, 1), int32([count, 2]))
    rows = min(max(count, 0), 4)
    assert (result[0, :rows] == 128).all()
    assert (result[1, :2] == 128).all()


@pytest.mark.parametrize("sizes", [(64, 128), (128, 64)])
def test_float8_products_have_whole_blocks(sizes):
    n, k = sizes
    a, b = (torch.ones(s).to(torch.float8_e4m3fn) for s in ((1, 4, k), (1, n, k)))
    with pytest.raises(SignatureError, match="% 128"):
        ops.MoEGroupedGEMMFP8FwdOp(MASKED)(
            a, torch.ones(1, 4, 1), b, torch.ones(1, 1, 1), int32([2])
        )


def test_scales_of_float8_codes_may_be_strided():
    """PIPE-06: the only inputs here that need not be contiguous."""
    a = torch.randn(1, 4, 256).to(torch.float8_e4m3fn)
    b = torch.randn(1, 128, 256).to(torch.float8_e4m3fn)
    a_scale, b_scale = torch.rand(1, 4, 2), torch.rand(1, 1, 2)
    op = ops.MoEGroupedGEMMFP8FwdOp(MASKED)
    due = op(a, a_scale, b, b_scale, int32([4]))
    strided = a_scale.mT.contiguous().mT, torch.stack((b_scale, b_scale), -1)[..., 0]
    assert torch.equal(op(a, strided[0], b, strided[1], int32([4])), due)


def test_a_sum_may_have_a_factor_and_a_dtype_of_its_own():
    rows, at = torch.tensor([[1.0], [3.0]]).half(), int32([1, 0])
    op = ops.MoEPostPermuteFwdOp(TIGHT, RoutingEpilogueSpec(2.5), torch.bfloat16)
    result = op(rows, torch.tensor([[2.0, 4.0]]), at)
    assert result.tolist() == [[25]]
    assert result.dtype is torch.bfloat16


# -- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: ops.MoEPermuteAlignFwdOp(3, 4)(int32([[0, 3]])), r"topk_ids.*3"),
        (
            lambda: ops.MoEPrePermuteFwdOp(TIGHT, 3)(torch.ones(1, 2), int32([[-1]])),
            r"local_expert_ids.*-1",
        ),
        (
            lambda: ops.MoEGroupedGEMMFwdOp(TIGHT)(
                torch.ones(4, 3), torch.ones(2, 5, 3), int32([3, 2])
            ),
            "layout_metadata",
        ),
        (
            lambda: ops.MoEGroupedGEMMFwdOp(ALIGNED)(
                torch.ones(4, 3), torch.ones(2, 5, 3), int32([0, 1, -1, -1])
            ),
            "layout_metadata",
        ),
        (
            lambda: ops.MoEPostPermuteFwdOp(TIGHT)(torch.ones(2, 3), torch.ones(1, 1), int32([2])),
            "inverse_indices",
        ),
    ],
)
def test_checking_tells_ids_and_metadata_that_are_wrong(call, match):
    with checks(metadata=True), pytest.raises(SignatureError, match=match):
        call()


def test_what_the_permutation_tells_is_what_the_products_require():
    hidden, ids = torch.randn(5, 6), int32([[0, 3], [1, 4], [3, 0], [4, 3], [0, 1]])
    with checks(metadata=True):
        for layout in CONTIGUOUS:
            rows, metadata, inverse = ops.MoEPrePermuteFwdOp(layout, 5)(hidden, ids)
            result = ops.MoEGroupedGEMMFwdOp(layout)(rows, torch.randn(5, 3, 6), metadata)
            ops.MoEPostPermuteFwdOp(layout)(result, torch.ones(5, 2), inverse)


# -- a caller's memory ------------------------------------------------------------------------


def of_each():
    """Every op that takes ``out``, with a call of it."""
    hidden, ids = torch.randn(3, 6), int32([[0, 1], [1, 2], [2, 2]])
    w_gate_up, w_down = torch.randn(3, 8, 6), torch.randn(3, 6, 4)
    chosen, ends = torch.rand(3, 2), int32([1, 2, 3])
    fp8 = [torch.randn(s).to(torch.float8_e4m3fn) for s in ((1, 4, 128), (1, 128, 128))]
    scales = torch.ones(1, 4, 1), torch.ones(1, 1, 1)
    return {
        "product": (ops.MoEGroupedGEMMFwdOp(TIGHT), (hidden, w_gate_up, ends)),
        "float8": (
            ops.MoEGroupedGEMMFP8FwdOp(MASKED),
            (fp8[0], scales[0], fp8[1], scales[1], int32([3])),
        ),
        "sum": (ops.MoEPostPermuteFwdOp(TIGHT), (torch.randn(6, 5), chosen, int32(range(6)))),
        "indexed": (ops.IndexedExpertMLPFwdOp(), (hidden, w_gate_up, w_down, chosen, ids)),
        "mlp": (ops.MoEExpertMLPFwdOp(TIGHT), (hidden, w_gate_up, w_down, ends)),
        "experts": (ops.FusedMoEExpertsFwdOp(), (hidden, w_gate_up, w_down, chosen, ids)),
    }


@pytest.mark.parametrize("name", of_each())
def test_a_result_goes_into_the_callers_memory(name, server):
    if server is not None:
        pytest.skip("the loopback's functions take no buffer")
    op, inputs = of_each()[name]
    due = op(*inputs)
    out = torch.full_like(due, math.nan)
    for _ in range(2):  # the call that selects who serves, and one on a known route
        assert op(*inputs, out=out) is out
        # Of the float8 product's rows the last belongs to nobody.
        assert torch.equal(out[:, :3], due[:, :3])
        out.fill_(math.nan)


@pytest.mark.parametrize("name", of_each())
def test_a_buffer_that_does_not_fit_is_refused(name):
    op, inputs = of_each()[name]
    due = op(*inputs)
    strided = torch.stack((due, due), -1)[..., 0]
    for wrong in (due.new_empty(1), due.double(), due.new_empty((*due.shape, 1)), strided):
        with pytest.raises(SignatureError, match=f"{type(op).__name__}: out"):
            op(*inputs, out=wrong)


# -- shapes alone -----------------------------------------------------------------------------


def test_a_call_with_shapes_alone_gives_shapes():
    """CMP-16."""
    for op, inputs in of_each().values():
        due = op(*inputs)
        with FakeTensorMode() as mode:
            result = op(*(mode.from_tensor(x) for x in inputs))
        assert result.shape == due.shape
        assert result.dtype is due.dtype
        meta = op(*(x.to("meta") for x in inputs))
        assert (meta.shape, meta.device.type) == (due.shape, "meta")
