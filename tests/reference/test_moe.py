"""Mixtures of experts, step by step: against formulas that go token by token in float64."""

from __future__ import annotations

import math

import moe_formulas
import pytest
import torch
from moe_formulas import ACTIVATIONS

from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout, RoutingEpilogueSpec
from tileops_reference.functions import moe

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TIGHT = ContiguousLayout()
TIGHT_ROWS = ContiguousLayout(metadata_kind="per_row")
ALIGNED = ContiguousLayout("aligned", "physical_psum", 4)
ALIGNED_ROWS = ContiguousLayout("aligned", "per_row", 4)
MASKED = MaskedLayout(5)
CONTIGUOUS = (TIGHT, TIGHT_ROWS, ALIGNED, ALIGNED_ROWS)
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def name(layout):
    if layout.kind == "masked":
        return "masked"
    return f"{layout.packing}-{layout.metadata_kind}"


each_contiguous = pytest.mark.parametrize("layout", CONTIGUOUS, ids=name)

# For each layout metadata of four experts, the second without rows and the last one with one, in a
# buffer of 20 rows. Among the aligned ones an expert fills whole blocks, and one has a gap inside.
METADATA = {
    TIGHT: [7, 7, 19, 20],
    TIGHT_ROWS: [0] * 7 + [2] * 12 + [3],
    ALIGNED: [4, 4, 11, 13],
    ALIGNED_ROWS: [0, 0, -1, -1, 0, -1, -1, -1, 2, 2, 2, 2, 3, -1, -1, -1, -1, -1, -1, -1],
    MASKED: [5, 0, 3, 1],
}
each_layout = pytest.mark.parametrize("layout", METADATA, ids=name)


def metadata_of(layout):
    return torch.tensor(METADATA[layout], dtype=torch.int32)


def buffer(layout, width, dtype, fill=math.nan):
    """Rows at random for experts, something that spoils what it touches for the others."""
    rows = torch.full((20, width), fill, dtype=dtype)
    for of_expert in moe_formulas.rows_by_expert(layout, METADATA[layout]):
        rows[of_expert] = torch.randn(len(of_expert), width, dtype=torch.float64).to(dtype)
    return rows.view(4, 5, width) if layout.kind == "masked" else rows


# -- the router -------------------------------------------------------------------------------

ROUTERS = {
    "plain": {"top_k": 3},
    "all of them": {"top_k": 12},
    "one": {"top_k": 1, "renormalize": True},
    "renormalized": {"top_k": 4, "renormalize": True, "routed_scaling_factor": 2.5},
    "grouped": {"top_k": 3, "num_expert_group": 4, "topk_group": 2},
    "one group": {"top_k": 3, "num_expert_group": 4, "topk_group": 1},
    "all groups": {"top_k": 5, "num_expert_group": 6, "topk_group": 6},
    "groups of one": {"top_k": 3, "num_expert_group": 12, "topk_group": 5},
    "sigmoid": {"top_k": 3, "scoring_func": "sigmoid", "routed_scaling_factor": 0.5},
}


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("params", ROUTERS.values(), ids=ROUTERS)
@each_float
def test_the_router_chooses_as_the_formula_does(dtype, params, biased, check_close):
    if biased:
        params = params | {"scoring_func": "sigmoid"}
        if params.get("num_expert_group") == 12:
            params = params | {"num_expert_group": 3, "topk_group": 2}
    logits = torch.randn(9, 12).to(dtype)
    bias = torch.randn(12) if biased else None
    weights, ids = moe.fused_top_k(logits, bias, **params)
    biases = bias.tolist() if biased else None
    rows = [moe_formulas.chosen(row, biases, **params) for row in logits.double().tolist()]
    assert ids.tolist() == [of_row for _, of_row in rows]
    assert ids.dtype is torch.int32
    assert weights.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    assert weights.is_contiguous()
    assert ids.is_contiguous()
    check_close(weights, torch.tensor([w for w, _ in rows], dtype=torch.float64), terms=12)


def test_the_bias_decides_and_the_weights_are_the_plain_scores():
    """MOE-03."""
    logits = torch.tensor([[-17.0, -18, -16, -19]])
    weights, ids = moe.fused_top_k(
        logits,
        torch.tensor([12.0, 11, 13, 10]),
        top_k=2,
        scoring_func="sigmoid",
        renormalize=True,
    )
    assert ids.tolist() == [[2, 0]]
    torch.testing.assert_close(weights, torch.tensor([[0.7311, 0.2689]]), atol=1e-4, rtol=0)


def test_equal_scores_go_to_the_lower_index():
    equal = torch.zeros(2, 8)
    for groups in (1, 4):
        _, ids = moe.fused_top_k(equal, top_k=4, num_expert_group=groups, topk_group=groups)
        assert ids.tolist() == [[0, 1, 2, 3]] * 2
    logits = torch.tensor([[1.0, 3, 1, 3, 1, 3, 0, 0]])
    assert moe.fused_top_k(logits, top_k=5)[1].tolist() == [[1, 3, 5, 0, 2]]
    # Groups 0, 1 and 2 have the same best score; the first two of them are chosen from.
    ids = moe.fused_top_k(logits, top_k=3, num_expert_group=4, topk_group=2)[1]
    assert ids.tolist() == [[1, 3, 0]]


def test_an_expert_that_a_bias_forbids_comes_after_all_others_of_its_groups():
    logits = torch.zeros(1, 6)
    bias = torch.tensor([0.0, -math.inf, 1, 1, 0, 0])
    _, ids = moe.fused_top_k(
        logits, bias, top_k=4, scoring_func="sigmoid", num_expert_group=3, topk_group=2
    )
    assert ids.tolist() == [[2, 3, 4, 5]]
    # Group 0 is worth -inf, as is what stands for experts of no chosen group elsewhere.
    _, ids = moe.fused_top_k(
        logits, bias, top_k=6, scoring_func="sigmoid", num_expert_group=3, topk_group=3
    )
    assert ids.tolist() == [[2, 3, 0, 4, 5, 1]]


def test_logits_that_are_no_number_give_experts_that_exist():
    logits = torch.tensor([[math.nan] * 4, [0, math.nan, 1, 2], [-math.inf] * 4])
    for groups in (1, 2):
        _, ids = moe.fused_top_k(logits, top_k=2, num_expert_group=groups, topk_group=1)
        assert ((ids >= 0) & (ids < 4)).all()


def test_scores_that_are_all_zero_cannot_be_renormalized():
    logits = torch.full((1, 4), -200.0)
    weights, ids = moe.fused_top_k(logits, top_k=2, scoring_func="sigmoid", renormalize=True)
    assert weights.isnan().all()
    assert ids.tolist() == [[0, 1]]


# -- sorting ----------------------------------------------------------------------------------

IDS = {
    "spread": [[0, 3], [1, 4], [3, 0], [4, 3], [0, 1]],
    "one expert": [[4, 4]] * 5,
    "the first": [[0, 0]] * 3,
    "twice": [[0, 0]],
    "one token": [[2, 1]],
    "none": [],
}
each_choice = pytest.mark.parametrize("ids", IDS.values(), ids=IDS)


def tensor_of(ids):
    return torch.tensor(ids, dtype=torch.int32).reshape(len(ids), 2)


@each_choice
@pytest.mark.parametrize("block", [1, 4, 128])
def test_routes_are_sorted_into_whole_blocks(ids, block, poisoned_memory):
    """MOE-02, MOE-04."""
    ids = tensor_of(ids)
    routes, experts = ids.numel(), 5
    found, owners, used = moe.permute_align(ids, num_experts=experts, block_size=block)
    assert [x.dtype for x in (found, owners, used)] == [torch.int32] * 3
    capacity = routes + (experts + 1) * (block - 1)
    assert found.shape == (capacity,)
    assert owners.shape == (math.ceil(capacity / block),)
    counts = [ids.flatten().tolist().count(e) for e in range(experts)]
    blocks = [math.ceil(count / block) for count in counts]
    assert used.tolist() == [sum(blocks) * block]
    due = [e for e in range(experts) for _ in range(blocks[e])]
    assert owners.tolist()[: len(due)] == due
    assert not set(owners.tolist()[len(due) :]) & set(range(experts))
    for e in range(experts):
        rows = slice(due.index(e) * block if e in due else 0, None)
        mine = found[rows][: blocks[e] * block].tolist()
        routed = [route for route, owner in enumerate(ids.flatten().tolist()) if owner == e]
        assert sorted(mine) == routed + [routes] * (len(mine) - len(routed))
    assert (found[used.item() :] == routes).all()


@pytest.mark.parametrize("counts", [(1, 129), (128, 0, 256)])
def test_a_block_more_for_one_route_more(counts):
    """MOE-04: block_size 128 with counts 1 and 129."""
    ids = torch.tensor([e for e, n in enumerate(counts) for _ in range(n)], dtype=torch.int32)
    _, owners, used = moe.permute_align(ids[:, None], num_experts=5, block_size=128)
    due = [e for e, n in enumerate(counts) for _ in range(math.ceil(n / 128))]
    assert used.item() == 128 * len(due)
    assert owners.tolist()[: len(due)] == due


@each_contiguous
@each_choice
@each_float
def test_rows_are_copied_to_their_experts(layout, ids, dtype, poisoned_memory):
    """MOE-02."""
    ids = tensor_of(ids)
    hidden = torch.randn(ids.shape[0], 3).to(dtype)
    rows, metadata, inverse = moe.pre_permute(hidden, ids, layout=layout, num_local_experts=5)
    routes = ids.numel()
    if layout.packing == "tight":
        assert rows.shape[0] == routes
    else:
        used = min(routes, 5)
        assert rows.shape[0] == (routes + used * 3) // 4 * 4
    assert (rows.dtype, metadata.dtype, inverse.dtype) == (dtype, torch.int32, torch.int32)
    assert metadata.shape == ((rows.shape[0],) if layout.metadata_kind == "per_row" else (5,))
    assert inverse.shape == (routes,)
    assert len(set(inverse.tolist())) == routes
    by_expert = moe_formulas.rows_by_expert(layout, metadata.tolist())
    for route, (row, owner) in enumerate(
        zip(inverse.tolist(), ids.flatten().tolist(), strict=True)
    ):
        assert row in by_expert[owner]
        assert torch.equal(rows[row], hidden[route // 2])
    assert sum(map(len, by_expert)) == routes
    assert all(not of_expert or of_expert[0] % layout.alignment == 0 for of_expert in by_expert)


@each_contiguous
def test_without_tokens_the_metadata_says_that_no_expert_has_any(layout):
    """MOE-02."""
    ids = torch.empty(0, 2, dtype=torch.int32)
    rows, metadata, inverse = moe.pre_permute(
        torch.empty(0, 3), ids, layout=layout, num_local_experts=5
    )
    assert rows.shape == (0, 3)
    assert inverse.shape == (0,)
    assert metadata.tolist() == ([] if layout.metadata_kind == "per_row" else [0] * 5)


@each_float
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("factor", [None, 1.0, 2.5])
@pytest.mark.parametrize("out_dtype", [None, torch.float32, torch.bfloat16])
def test_sums_are_weighted_and_rounded_once(dtype, masked, factor, out_dtype, check_close):
    if dtype is torch.float64 and out_dtype is not None:
        out_dtype = torch.float64
    rows = torch.randn(20, 7).to(dtype)
    rows[[3, 17]] = math.nan  # nobody's
    weights = torch.rand(6, 3)
    inverse = torch.tensor([r for r in range(20) if r not in (3, 17)])[torch.randperm(18)]
    result = moe.post_permute(
        rows.view(4, 5, 7) if masked else rows,
        weights,
        inverse.to(torch.int32),
        layout=MASKED if masked else TIGHT,
        epilogue=None if factor is None else RoutingEpilogueSpec(factor),
        out_dtype=out_dtype,
    )
    exact = torch.zeros(6, 7, dtype=torch.float64)
    size = torch.zeros_like(exact)
    for route, row in enumerate(inverse.tolist()):
        term = weights.flatten()[route].double() * rows[row].double() * (factor or 1.0)
        exact[route // 3] += term
        size[route // 3] += term.abs()
    assert result.dtype is (out_dtype or dtype)
    check_close(result, exact, terms=3, magnitude=size)


def test_a_token_with_no_experts_gets_zero(poisoned_memory):
    rows, none = torch.randn(4, 3).half(), torch.empty(2, 0)
    result = moe.post_permute(rows, none, torch.empty(0, dtype=torch.int32), layout=TIGHT)
    assert result.tolist() == [[0] * 3] * 2
    assert result.dtype is torch.float16


def test_a_row_may_serve_two_tokens():
    rows = torch.tensor([[1.0], [10.0]])
    at = torch.tensor([1, 0, 1, 1], dtype=torch.int32)
    result = moe.post_permute(rows, torch.ones(2, 2), at, layout=TIGHT)
    assert result.tolist() == [[11], [20]]


# -- grouped products -------------------------------------------------------------------------


@each_layout
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("biased", [False, True])
@each_float
def test_every_row_is_multiplied_by_its_expert(
    layout, activation, biased, dtype, poisoned_memory, check_close
):
    """MOE-02: an expert without rows; rows of padding hold NaN, and spoil nothing."""
    width = 6 if activation is None else 12
    a = buffer(layout, 9, dtype)
    b = torch.randn(4, width, 9).to(dtype)
    bias = torch.randn(4, width).to(dtype) if biased else None
    result = moe.grouped_gemm(a, b, metadata_of(layout), bias, layout=layout, activation=activation)
    assert result.dtype is dtype
    assert result.shape == (*a.shape[:-1], 6)
    rows, results = a.flatten(0, -2), result.flatten(0, -2)
    padding = set(range(20))
    for expert, of_expert in enumerate(moe_formulas.rows_by_expert(layout, METADATA[layout])):
        padding -= set(of_expert)
        for row in of_expert:
            exact, size = moe_formulas.product(
                rows[row], b[expert], None if bias is None else bias[expert], activation
            )
            check_close(results[row], exact, terms=9, magnitude=size + exact.abs())
    assert not results[sorted(padding)].any()


@pytest.mark.parametrize("activation", [None, "silu_and_mul"])
def test_a_wider_result_is_not_rounded_on_the_way(activation, check_close):
    a, b = buffer(MASKED, 9, torch.bfloat16), torch.randn(4, 4, 9).bfloat16()
    result = moe.grouped_gemm(
        a, b, metadata_of(MASKED), layout=MASKED, activation=activation, out_dtype=torch.float32
    )
    assert result.dtype is torch.float32
    exact, size = moe_formulas.product(a[2, 1], b[2], None, activation)
    check_close(result[2, 1], exact, terms=9, magnitude=size)


@pytest.mark.parametrize("dtype", FLOATS[:3], ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_and_its_activation_are_rounded_once(dtype, biased):
    """Half a step at most; another rounding before the activation would show."""
    x, w = (torch.rand(50, 64) + 0.5).to(dtype), (torch.rand(1, 64, 64) + 0.5).to(dtype)
    bias = torch.rand(1, 64).to(dtype) if biased else None
    ends = torch.tensor([50], dtype=torch.int32)
    result = moe.grouped_gemm(x, w, ends, bias, layout=TIGHT, activation="silu_and_mul").double()
    for row in range(50):
        exact, _ = moe_formulas.product(
            x[row], w[0], None if bias is None else bias[0], "silu_and_mul"
        )
        error = (result[row] - exact).abs() / exact
        assert error.max() < 0.51 * torch.finfo(dtype).eps + 2.0**-19


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_swigluoai_is_limited(dtype):
    x = torch.tensor([[100.0, 1, 7, 1, -100, 1, 1, 100, 1, -100]]).to(dtype)
    w = torch.eye(10, dtype=dtype)[None]
    ends = torch.tensor([1], dtype=torch.int32)
    result = moe.grouped_gemm(x, w, ends, layout=TIGHT, activation="swigluoai")[0].double()
    seven = 7 / (1 + math.exp(-1.702 * 7)) * 2
    one = 1 / (1 + math.exp(-1.702))
    expected = torch.tensor([seven, seven, 0, one * 8, one * -6], dtype=torch.float64)
    torch.testing.assert_close(
        result, expected, rtol=2e-2 if dtype is FLOATS[1] else 2e-3, atol=1e-9
    )


@pytest.mark.parametrize("activation", ["silu_and_mul", "gelu_and_mul"])
def test_large_gates_are_finite(activation):
    """NUM-16."""
    x = torch.tensor([[-1e4, 1e4, -88.8, -104, 1, 1, 1, 1]])
    ends = torch.tensor([1], dtype=torch.int32)
    result = moe.grouped_gemm(x, torch.eye(8)[None], ends, layout=TIGHT, activation=activation)
    torch.testing.assert_close(result, torch.tensor([[0, 1e4, 0, 0]]), atol=1e-30, rtol=0)


@each_layout
def test_grouped_inputs_may_be_strided(layout):
    """PIPE-06."""
    a, b = buffer(layout, 9, torch.float32, fill=0.0), torch.randn(4, 6, 9)
    wide_a, wide_b = torch.full((*a.shape, 2), math.nan), torch.full((*b.shape, 2), math.nan)
    wide_a[..., 0], wide_b[..., 0] = a, b
    due = moe.grouped_gemm(a, b, metadata_of(layout), layout=layout)
    assert torch.allclose(
        moe.grouped_gemm(wide_a[..., 0], wide_b[..., 0], metadata_of(layout), layout=layout), due
    )


def test_no_rows_at_all_give_none():
    """MOE-02."""
    for layout, metadata in ((TIGHT, [0, 0]), (TIGHT_ROWS, []), (MaskedLayout(0), [0, 0])):
        rows = (2, 0, 3) if layout.kind == "masked" else (0, 3)
        given = torch.tensor(metadata, dtype=torch.int32)
        result = moe.grouped_gemm(torch.empty(rows), torch.ones(2, 5, 3), given, layout=layout)
        assert result.shape == (*rows[:-1], 5)


# -- float8 -----------------------------------------------------------------------------------

FP8 = torch.float8_e4m3fn


def float8_inputs(counts, rows=3, columns=128, contraction=256):
    experts = len(counts)
    a = torch.randn(experts, rows, contraction).to(FP8)
    b = torch.randn(experts, columns, contraction).to(FP8)
    a_scale = torch.rand(experts, rows, contraction // 128) + 0.5
    b_scale = torch.rand(experts, columns // 128, contraction // 128) + 0.5
    return a, a_scale, b, b_scale, torch.tensor(counts, dtype=torch.int32)


def exact_float8(inputs, expert, row):
    a, a_scale, b, b_scale, _ = (x.double() for x in inputs)
    columns, contraction = b.shape[1:]
    total, size = torch.zeros(columns).double(), torch.zeros(columns).double()
    for n in range(columns):
        for block in range(contraction // 128):
            at = slice(block * 128, (block + 1) * 128)
            scale = a_scale[expert, row, block] * b_scale[expert, n // 128, block]
            terms = a[expert, row, at] * b[expert, n, at]
            total[n] += terms.sum() * scale
            size[n] += terms.abs().sum() * scale
    return total, size


@pytest.mark.parametrize("columns", [128, 256])
def test_float8_codes_are_scaled_block_by_block(columns, poisoned_memory, check_close):
    """A count below 0 is 0, one above max_m is max_m; rows behind the count spoil nothing."""
    inputs = float8_inputs([2, 0, 7, -4], columns=columns)
    inputs[0][0, 2], inputs[1][0, 2] = math.nan, math.nan
    result = moe.grouped_gemm_fp8(*inputs, layout=MaskedLayout(3))
    assert result.dtype is torch.bfloat16
    assert result.shape == (4, 3, columns)
    for expert, rows in enumerate((2, 0, 3, 0)):
        for row in range(rows):
            exact, size = exact_float8(inputs, expert, row)
            check_close(result[expert, row], exact, terms=256, magnitude=size)
        assert not result[expert, rows:].any()


def test_scales_of_very_different_size_do_not_meet_the_codes():
    inputs = list(float8_inputs([1], rows=1, contraction=128))
    plain = moe.grouped_gemm_fp8(*inputs, layout=MaskedLayout(1))
    inputs[1], inputs[3] = inputs[1] * 2.0**120, inputs[3] * 2.0**-120
    assert torch.equal(moe.grouped_gemm_fp8(*inputs, layout=MaskedLayout(1)), plain)


def test_float64_codes_give_a_float64_result():
    inputs = [x.double() if x.is_floating_point() else x for x in float8_inputs([3, 1])]
    result = moe.grouped_gemm_fp8(*inputs, layout=MaskedLayout(3))
    torch.testing.assert_close(result[1, 0], exact_float8(inputs, 1, 0)[0])
    assert result.dtype is torch.float64


# -- all --------------------------------------------------------------------------------------


def calls(dtype):
    """Every function of the module, with inputs that it must not write."""
    ids = tensor_of(IDS["spread"])
    a, b = buffer(TIGHT, 9, dtype), torch.randn(4, 12, 9).to(dtype)
    swiglu = {"layout": TIGHT, "activation": "swigluoai"}
    return [
        (moe.fused_top_k, (torch.randn(3, 6).to(dtype), torch.randn(6)), {"top_k": 2}),
        (moe.permute_align, (ids,), {"num_experts": 5}),
        (
            moe.pre_permute,
            (torch.randn(5, 3).to(dtype), ids),
            {"layout": TIGHT, "num_local_experts": 5},
        ),
        (
            moe.post_permute,
            (a, torch.rand(10, 2), torch.arange(20, dtype=torch.int32)),
            {"layout": TIGHT, "epilogue": RoutingEpilogueSpec(2.0)},
        ),
        (moe.grouped_gemm, (a, b, metadata_of(TIGHT), torch.randn(4, 12).to(dtype)), swiglu),
        (moe.grouped_gemm, (a, b, metadata_of(TIGHT)), {"layout": TIGHT}),
        (moe.grouped_gemm_fp8, float8_inputs([2, 1]), {"layout": MaskedLayout(3)}),
    ]


@each_float
def test_inputs_are_not_written_and_results_have_memory_of_their_own(dtype):
    """PIPE-04."""
    for function, inputs, params in calls(dtype):
        copies = [x.clone() for x in inputs]
        results = function(*inputs, **params)
        results = results if isinstance(results, tuple) else (results,)
        for x, copy in zip(inputs, copies, strict=True):
            assert torch.equal(x.view(torch.uint8), copy.view(torch.uint8)), function
        pointers = [x.untyped_storage().data_ptr() for x in (*results, *inputs)]
        assert len(set(pointers)) == len(pointers), function
        assert all(x.is_contiguous() for x in results), function
