"""Experts and whole layers: against formulas that go token by token in float64."""

from __future__ import annotations

import moe_formulas
import pytest
import torch
from moe_formulas import ACTIVATIONS

from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout
from tileops_reference.functions import moe, moe_fused

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TOKENS, WIDTH, INNER, EXPERTS, TOP_K = 6, 10, 8, 5, 2
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
each_activation = pytest.mark.parametrize("activation", ACTIVATIONS)

IDS = {
    "spread": [[0, 3], [1, 4], [3, 0], [4, 3], [0, 1], [1, 0]],
    "one expert": [[4, 4]] * 6,
    "without the middle": [[0, 4], [4, 0]] * 3,
}
each_choice = pytest.mark.parametrize("ids", IDS.values(), ids=IDS)


def weights_of(dtype, biased):
    shapes = [(EXPERTS, 2 * INNER, WIDTH), (EXPERTS, WIDTH, INNER)]
    shapes += [(EXPERTS, 2 * INNER), (EXPERTS, WIDTH)] if biased else []
    made = [torch.randn(shape).to(dtype) for shape in shapes]
    return made + [None] * (4 - len(made))


def inner(dtype):
    """What activated values, and each expert's results, are rounded to."""
    return dtype if dtype.itemsize == 2 else None


@each_choice
@each_activation
@pytest.mark.parametrize("biased", [False, True])
@each_float
def test_every_token_gets_the_weighted_sum_of_its_experts(
    ids, activation, biased, dtype, poisoned_memory, check_close
):
    """MOE-02, MOE-04: all tokens to one expert; a token that lists one twice counts it twice."""
    hidden, weights = torch.randn(TOKENS, WIDTH).to(dtype), weights_of(dtype, biased)
    chosen, ids = torch.rand(TOKENS, TOP_K), torch.tensor(ids, dtype=torch.int32)
    result = moe_fused.fused_moe_experts(
        hidden,
        *weights[:2],
        chosen,
        ids,
        *weights[2:],
        routed_scaling_factor=2.5,
        activation=activation,
    )
    exact, size = moe_formulas.routed(hidden, weights, chosen, ids, 2.5, activation)
    assert result.dtype is dtype
    check_close(result, exact, terms=TOP_K * INNER, magnitude=size, inner=inner(dtype))


@each_choice
@each_float
def test_the_indexed_experts_are_plain_ones(ids, dtype, check_close):
    hidden, weights = torch.randn(TOKENS, WIDTH).to(dtype), weights_of(dtype, False)
    chosen, ids = torch.rand(TOKENS, TOP_K), torch.tensor(ids, dtype=torch.int32)
    params = {"routed_scaling_factor": 0.5}
    result = moe_fused.indexed_expert_mlp(hidden, *weights[:2], chosen, ids, **params)
    exact, size = moe_formulas.routed(hidden, weights, chosen, ids, 0.5)
    check_close(result, exact, terms=TOP_K * INNER, magnitude=size, inner=inner(dtype))
    again = moe_fused.fused_moe_experts(hidden, *weights[:2], chosen, ids, **params)
    assert torch.equal(result, again)


@each_float
def test_no_tokens_give_no_rows(dtype):
    """MOE-02."""
    weights = weights_of(dtype, True)
    none, ids = torch.empty(0, WIDTH, dtype=dtype), torch.empty(0, TOP_K, dtype=torch.int32)
    result = moe_fused.fused_moe_experts(
        none, *weights[:2], torch.empty(0, TOP_K), ids, *weights[2:]
    )
    assert result.shape == (0, WIDTH)
    assert result.dtype is dtype
    logits = torch.empty(0, EXPERTS)
    assert moe_fused.fused_moe(none, logits, *weights[:2], top_k=2).shape == (0, WIDTH)
    assert moe.fused_top_k(logits, top_k=2)[1].shape == (0, 2)


LAYOUTS = {
    # with metadata of the five experts in a buffer of 15 rows
    ContiguousLayout(): [4, 4, 9, 15, 15],
    ContiguousLayout(metadata_kind="per_row"): [0] * 4 + [2] * 5 + [3] * 6,
    ContiguousLayout("aligned", "physical_psum", 3): [1, 3, 8, 10, 12],
    ContiguousLayout("aligned", "per_row", 3): [0, -1, -1] + [2] * 6 + [3, 3, -1] + [-1] * 3,
    MaskedLayout(3): [3, 0, 1, 2, 0],
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@each_activation
@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_every_row_goes_through_its_expert(layout, activation, dtype, poisoned_memory, check_close):
    rows = torch.full((15, WIDTH), torch.nan, dtype=dtype)
    by_expert = moe_formulas.rows_by_expert(layout, LAYOUTS[layout])
    for of_expert in by_expert:
        rows[of_expert] = torch.randn(len(of_expert), WIDTH).to(dtype)
    given = rows.view(5, 3, WIDTH) if layout.kind == "masked" else rows
    metadata = torch.tensor(LAYOUTS[layout], dtype=torch.int32)
    weights = weights_of(dtype, True)
    result = moe_fused.expert_mlp(
        given, *weights[:2], metadata, *weights[2:], layout=layout, activation=activation
    )
    assert result.shape == given.shape
    result, padding = result.flatten(0, -2), set(range(15))
    for expert, of_expert in enumerate(by_expert):
        padding -= set(of_expert)
        for row in of_expert:
            one = moe_formulas.of_expert(weights, expert)
            exact, size = moe_formulas.mlp(rows[row], one, activation)
            check_close(result[row], exact, terms=INNER, magnitude=size, inner=inner(dtype))
    assert not result[sorted(padding)].isnan().any()


@each_float
def test_a_shared_expert_is_one_for_all_tokens(dtype, check_close):
    hidden, weights = torch.randn(TOKENS, WIDTH).to(dtype), weights_of(dtype, False)
    one = moe_formulas.of_expert(weights, 3)
    result = moe_fused.shared_expert_mlp(hidden, *one[:2])
    assert result.dtype is dtype
    for row in range(TOKENS):
        exact, size = moe_formulas.mlp(hidden[row], one, "silu_and_mul")
        check_close(result[row], exact, terms=INNER, magnitude=size, inner=inner(dtype))


def test_activated_values_are_rounded_before_the_second_product():
    """By both: an op that fuses the products must not differ from one that does not."""
    one = torch.ones(1, 1).bfloat16()
    gate_up = torch.tensor([[1.0], [1 + 2.0**-7]]).bfloat16()
    activated = (torch.nn.functional.silu(torch.tensor(1.0)) * (1 + 2.0**-7)).bfloat16()
    down = torch.tensor([[3.0]]).bfloat16()
    assert moe_fused.shared_expert_mlp(one, gate_up, down).item() == (activated * 3).item()
    ends = torch.tensor([1], dtype=torch.int32)
    result = moe_fused.expert_mlp(one, gate_up[None], down[None], ends, layout=ContiguousLayout())
    assert result.item() == (activated * 3).item()


ROUTERS = {
    "softmax": {"top_k": 2, "renormalize": True},
    "sigmoid": {"top_k": 3, "scoring_func": "sigmoid", "routed_scaling_factor": 2.5},
    "grouped": {"top_k": 1, "num_expert_group": 5, "topk_group": 2},
}


@pytest.mark.parametrize("params", ROUTERS.values(), ids=ROUTERS)
@each_activation
@each_float
def test_a_layer_is_its_router_and_its_experts(params, activation, dtype, check_close):
    hidden, logits = torch.randn(TOKENS, WIDTH).to(dtype), torch.randn(TOKENS, EXPERTS)
    logits = logits.double() if dtype is torch.float64 else logits
    weights = weights_of(dtype, True)
    bias = torch.randn(EXPERTS) if "scoring_func" in params else None
    result = moe_fused.fused_moe(
        hidden, logits, *weights[:2], bias, *weights[2:], **params, activation=activation
    )
    plain = {k: v for k, v in params.items() if k != "routed_scaling_factor"}
    biases = None if bias is None else bias.tolist()
    rows = [moe_formulas.chosen(row, biases, **plain) for row in logits.double().tolist()]
    chosen, ids = (torch.tensor(found, dtype=torch.float64) for found in zip(*rows, strict=True))
    factor = params.get("routed_scaling_factor", 1.0)
    exact, size = moe_formulas.routed(hidden, weights, chosen, ids.int(), factor, activation)
    check_close(result, exact, terms=3 * INNER, magnitude=size, inner=inner(dtype))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_ranks_add_up_to_the_shared_expert(ranks, dtype, check_close):
    hidden, logits = torch.randn(TOKENS, WIDTH).to(dtype), torch.randn(TOKENS, EXPERTS)
    weights = weights_of(dtype, False)
    shared = [torch.randn(2 * INNER, WIDTH).to(dtype), torch.randn(WIDTH, INNER).to(dtype)]
    parts, routed = zip(
        *(
            moe_fused.fused_moe_shared_expert(
                hidden, logits, *weights[:2], None, *shared, top_k=2, tp_size=ranks, tp_rank=rank
            )
            for rank in range(ranks)
        ),
        strict=True,
    )
    alone = moe_fused.fused_moe(hidden, logits, *weights[:2], top_k=2)
    assert all(torch.equal(result, alone) for result in routed)
    total = sum(part.double() for part in parts)
    for row in range(TOKENS):
        exact, size = moe_formulas.mlp(hidden[row], [*shared, None, None], "silu_and_mul")
        # Each rank's part is rounded, to no more than the sum of all terms.
        bound = 2 * (ranks + 1) * torch.finfo(dtype).eps * size + 1e-12
        assert ((total[row] - exact).abs() <= bound).all()


def test_without_a_shared_expert_there_is_no_output_of_it():
    hidden, logits = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, EXPERTS)
    weights = weights_of(torch.float32, False)
    shared, routed = moe_fused.fused_moe_shared_expert(hidden, logits, *weights[:2], top_k=2)
    assert shared is None
    assert torch.equal(routed, moe_fused.fused_moe(hidden, logits, *weights[:2], top_k=2))


@each_float
def test_inputs_are_not_written_and_results_have_memory_of_their_own(dtype):
    """PIPE-04."""
    hidden, logits = torch.randn(TOKENS, WIDTH).to(dtype), torch.randn(TOKENS, EXPERTS)
    w, ids = weights_of(dtype, True), torch.tensor(IDS["spread"], dtype=torch.int32)
    ends = torch.tensor([1, 2, 4, 4, TOKENS], dtype=torch.int32)
    shared = (w[0][0].clone(), w[1][0].clone())
    layout = {"layout": ContiguousLayout()}
    for function, inputs, params in (
        (moe_fused.expert_mlp, (hidden, *w[:2], ends, *w[2:]), layout),
        (moe_fused.shared_expert_mlp, (hidden, *shared), {}),
        (moe_fused.indexed_expert_mlp, (hidden, *w[:2], torch.rand(TOKENS, 2), ids), {}),
        (moe_fused.fused_moe_experts, (hidden, *w[:2], torch.rand(TOKENS, 2), ids, *w[2:]), {}),
        (moe_fused.fused_moe, (hidden, logits, *w[:2], None, *w[2:]), {"top_k": 2}),
        (
            moe_fused.fused_moe_shared_expert,
            (hidden, logits, *w[:2], None, *shared),
            {"top_k": 2, "tp_size": 2, "tp_rank": 1},
        ),
    ):
        copies = [x if x is None else x.clone() for x in inputs]
        results = function(*inputs, **params)
        results = results if isinstance(results, tuple) else (results,)
        there = [x for x in inputs if x is not None]
        for x, copy in zip(inputs, copies, strict=True):
            assert x is None or torch.equal(x, copy), function
        pointers = [x.untyped_storage().data_ptr() for x in (*results, *there)]
        assert len(set(pointers)) == len(pointers), function
        assert all(x.is_contiguous() for x in results), function


@pytest.mark.parametrize("dtype", FLOATS[1:3], ids=str)
def test_tokens_may_be_strided(dtype):
    """PIPE-06."""
    hidden, logits = torch.randn(TOKENS, WIDTH).to(dtype), torch.randn(TOKENS, EXPERTS)
    weights = weights_of(dtype, False)
    due = moe_fused.fused_moe(hidden, logits, *weights[:2], top_k=2)
    strided = hidden.t().contiguous().t(), logits.t().contiguous().t()
    result = moe_fused.fused_moe(*strided, *weights[:2], top_k=2)
    torch.testing.assert_close(result, due)
