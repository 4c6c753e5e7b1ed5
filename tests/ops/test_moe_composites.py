"""Mixtures of experts made of other ops: which of them run, and what that gives."""

from __future__ import annotations

import moe_formulas
import pytest
import torch
from moe_formulas import ACTIVATIONS

from tileops_core import BUILTIN, default_target, ops
from tileops_core.errors import SignatureError
from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
WIDTH, INNER, EXPERTS = 12, 8, 6
BY_EXPERT = ["pre_permute", "expert_mlp", "post_permute"]


@pytest.fixture(autouse=True)
def _no_layer_is_served_whole():
    """What is inside runs where no target serves an op whole, whoever claims the device."""
    with default_target(BUILTIN):
        yield


def weights_of(dtype=torch.float32, biased=False, width=WIDTH, inner=INNER):
    shapes = [(EXPERTS, 2 * inner, width), (EXPERTS, width, inner)]
    shapes += [(EXPERTS, 2 * inner), (EXPERTS, width)] if biased else []
    made = [torch.randn(shape).to(dtype) for shape in shapes]
    return made + [None] * (4 - len(made))


def routes(tokens, top_k):
    """Weights and ids at random; experts of a token differ."""
    ids = torch.stack([torch.randperm(EXPERTS)[:top_k] for _ in range(tokens)])
    return torch.rand(tokens, top_k), ids.to(torch.int32)


def stages(record):
    return {stage: len(records) for stage, records in record.stages.items()}


# -- experts on grouped rows ------------------------------------------------------------------


@pytest.mark.parametrize("layout", [ContiguousLayout(), MaskedLayout(2)], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_experts_two_products_are_calls_of_two_ops(layout, activation):
    op = ops.MoEExpertMLPFwdOp(layout, activation)
    weights = weights_of(biased=True)
    rows = torch.randn(2 * EXPERTS, WIDTH)
    metadata = [2] * EXPERTS if layout.kind == "masked" else [2 * e + 2 for e in range(EXPERTS)]
    given = rows.view(EXPERTS, 2, WIDTH) if layout.kind == "masked" else rows
    result = op(
        given,
        *weights[:2],
        torch.tensor(metadata, dtype=torch.int32),
        b_gate_up=weights[2],
        b_down=weights[3],
    )
    assert stages(op.last_call) == {"gate_up": 1, "down": 1}
    gate_up, down = op.held_delegates()
    assert (gate_up.activation, down.activation) == (activation, None)
    for row in range(2 * EXPERTS):
        exact, size = moe_formulas.mlp(
            rows[row], moe_formulas.of_expert(weights, row // 2), activation
        )
        assert ((result.view(-1, WIDTH)[row] - exact).abs() <= 1e-5 * size).all()


# -- the two roads of the routed experts ------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "changes", "indexed"),
    [
        (6, {}, True),  # 12 routes are two for each expert
        (7, {}, False),
        (1, {}, True),
        (6, {"width": 64}, False),
        (6, {"inner": 128}, False),
        (6, {"width": 256, "inner": 512}, True),
        (6, {"activation": "gelu_and_mul"}, False),
        (6, {"activation": "swigluoai"}, False),
        (6, {"biased": True}, False),
    ],
)
def test_few_routes_of_plain_experts_read_weights_where_they_are(tokens, changes, indexed):
    sizes = {"width": 128, "inner": 256, "biased": False, **changes}
    activation = sizes.pop("activation", "silu_and_mul")
    weights = weights_of(**sizes)
    op = ops.FusedMoEExpertsFwdOp(2.5, activation=activation)
    hidden, (chosen, ids) = torch.randn(tokens, sizes["width"]), routes(tokens, 2)
    result = op(hidden, *weights[:2], chosen, ids, *weights[2:])
    assert list(op.last_call.stages) == (["indexed_small_route"] if indexed else BY_EXPERT)
    exact, size = moe_formulas.routed(hidden, weights, chosen, ids, 2.5, activation)
    assert ((result - exact).abs() <= 1e-5 * size).all()


def test_one_bias_alone_is_no_plain_expert():
    weights = weights_of(biased=True, width=128, inner=256)
    hidden, (chosen, ids) = torch.randn(2, 128), routes(2, 2)
    op = ops.FusedMoEExpertsFwdOp()
    for biases in ({"b_gate_up": weights[2]}, {"b_down": weights[3]}):
        result = op(hidden, *weights[:2], chosen, ids, **biases)
        assert list(op.last_call.stages) == BY_EXPERT
        given = [*weights[:2], biases.get("b_gate_up"), biases.get("b_down")]
        exact, size = moe_formulas.routed(hidden, given, chosen, ids)
        assert ((result - exact).abs() <= 1e-5 * size).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_roads_meet(dtype):
    """Whoever splits a batch into small ones gets what the large one gives, up to a rounding."""
    weights = weights_of(dtype, width=128, inner=256)
    weights = [w / 16 for w in weights[:2]]
    hidden, (chosen, ids) = torch.randn(16, 128).to(dtype), routes(16, 2)
    op = ops.FusedMoEExpertsFwdOp()
    whole = op(hidden, *weights, chosen, ids)
    assert list(op.last_call.stages) == BY_EXPERT
    parts = [slice(i, i + 4) for i in range(0, 16, 4)]
    split = torch.cat([op(hidden[p], *weights, chosen[p], ids[p]) for p in parts])
    assert list(op.last_call.stages) == ["indexed_small_route"]
    torch.testing.assert_close(split, whole, atol=4 * torch.finfo(dtype).eps, rtol=1e-2)


@pytest.mark.parametrize("ids", [[[5, 5]] * 8, [[0, 5]] * 8, [[0, 0]]], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_experts_without_tokens_and_tokens_that_list_one_twice(ids, dtype):
    """MOE-02, MOE-04."""
    weights, ids = weights_of(dtype, biased=True), torch.tensor(ids, dtype=torch.int32)
    hidden, chosen = torch.randn(len(ids), WIDTH).to(dtype), torch.rand(len(ids), 2)
    op = ops.FusedMoEExpertsFwdOp(activation="swigluoai")
    result = op(hidden, *weights[:2], chosen, ids, *weights[2:])
    exact, size = moe_formulas.routed(hidden, weights, chosen, ids, 1.0, "swigluoai")
    assert ((result.double() - exact).abs() <= 2 * torch.finfo(dtype).eps * size).all()


def test_one_instance_serves_layers_of_several_sizes():
    op = ops.FusedMoEExpertsFwdOp()
    for experts in (3, 4, 3):
        weights = [w[:experts] for w in weights_of()[:2]]
        ids = torch.tensor([[0, 1], [2, 0]], dtype=torch.int32)
        hidden, chosen = torch.randn(2, WIDTH), torch.rand(2, 2)
        exact, size = moe_formulas.routed(hidden, [*weights, None, None], chosen, ids)
        assert ((op(hidden, *weights, chosen, ids) - exact).abs() <= 1e-5 * size).all()
    permutations = [o for o in op.held_delegates() if isinstance(o, ops.MoEPrePermuteFwdOp)]
    assert [o.num_local_experts for o in permutations] == [3, 4]


# -- layers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"top_k": 2, "renormalize": True},
        {"top_k": 3, "scoring_func": "sigmoid", "routed_scaling_factor": 2.5},
        {"top_k": 2, "num_expert_group": 3, "topk_group": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_layer_is_its_router_and_its_experts(params, activation, dtype):
    hidden, logits = torch.randn(7, WIDTH).to(dtype), torch.randn(7, EXPERTS)
    weights = weights_of(dtype, biased=True)
    bias = torch.randn(EXPERTS) if "scoring_func" in params else None
    op = ops.FusedMoEFwdOp(**params, activation=activation)
    result = op(hidden, logits, *weights[:2], bias, *weights[2:])
    assert stages(op.last_call) == {"route_select": 1, "routed_experts": 1}
    factor = params.get("routed_scaling_factor", 1.0)
    plain = {k: v for k, v in params.items() if k != "routed_scaling_factor"}
    rows = [
        moe_formulas.chosen(row, None if bias is None else bias.tolist(), **plain)
        for row in logits.double().tolist()
    ]
    chosen, ids = (torch.tensor(found) for found in zip(*rows, strict=True))
    exact, size = moe_formulas.routed(hidden, weights, chosen, ids, factor, activation)
    assert ((result.double() - exact).abs() <= 2 * torch.finfo(dtype).eps * size).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_tokens_may_want_the_last_expert(dtype):
    """MOE-02."""
    hidden, logits, weights = (
        torch.randn(9, WIDTH).to(dtype),
        torch.randn(9, EXPERTS),
        weights_of(dtype),
    )
    logits[:, -1] += 100
    result = ops.FusedMoEFwdOp(1)(hidden, logits, *weights[:2])
    ids = torch.full((9, 1), EXPERTS - 1)
    exact, size = moe_formulas.routed(hidden, weights, torch.ones(9, 1), ids)
    assert ((result.double() - exact).abs() <= 2 * torch.finfo(dtype).eps * size).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_layer_may_get_no_tokens(dtype):
    """MOE-02: a result of the right dtype, nobody runs."""
    hidden, logits = torch.empty(0, WIDTH, dtype=dtype), torch.empty(0, EXPERTS)
    weights, ids = weights_of(dtype, biased=True), torch.empty(0, 2, dtype=torch.int32)
    shared = torch.randn(4, WIDTH).to(dtype), torch.randn(WIDTH, 2).to(dtype)
    experts, layer = ops.FusedMoEExpertsFwdOp(), ops.FusedMoEFwdOp(2)
    both = ops.FusedMoESharedExpertFwdOp(2)
    results = [
        experts(hidden, *weights[:2], torch.empty(0, 2), ids),
        ops.IndexedExpertMLPFwdOp()(hidden, *weights[:2], torch.empty(0, 2), ids),
        layer(hidden, logits, *weights[:2], None, *weights[2:]),
        *both(hidden, logits, *weights[:2], None, *shared),
        ops.SharedExpertMLPFwdOp()(hidden, *shared),
    ]
    for result in results:
        assert (result.shape, result.dtype) == ((0, WIDTH), dtype)
    for op in (experts, layer, both):
        assert op.last_call.stages == {}
        assert op.serving_target is None
        assert op.eval_roofline()[0] == 0


def test_a_layers_cost_counts_the_experts_that_its_router_chose():
    hidden, logits, weights = torch.randn(4, WIDTH), torch.zeros(4, EXPERTS), weights_of()
    op = ops.FusedMoEFwdOp(2)
    op(hidden, logits, *weights[:2])  # the first two experts, of all tokens
    used = op.eval_roofline()[1]
    logits += torch.eye(4, EXPERTS).flip(1) * 9
    op(hidden, logits, *weights[:2])
    of_one = sum(w[0].numel() * w.element_size() for w in weights[:2])
    # Four tokens with their favorites 5, 4, 3, 2 and the best of the rest, which is 0.
    assert op.eval_roofline()[1] - used == 3 * of_one


def test_the_shared_expert_is_there_when_its_weights_are():
    hidden, logits, weights = torch.randn(4, WIDTH), torch.randn(4, EXPERTS), weights_of()
    shared = torch.randn(2 * INNER, WIDTH), torch.randn(WIDTH, INNER)
    op, alone = ops.FusedMoESharedExpertFwdOp(2), ops.FusedMoEFwdOp(2)
    for _ in range(2):
        nothing, routed = op(hidden, logits, *weights[:2])
        assert nothing is None
        assert stages(op.last_call) == {"route_select": 1, "routed_experts": 1}
        part, again = op(hidden, logits, *weights[:2], None, *shared)
        assert list(op.last_call.stages) == ["route_select", "routed_experts", "shared_expert"]
        assert torch.equal(part, ops.SharedExpertMLPFwdOp()(hidden, *shared))
        assert torch.equal(routed, again)
        assert torch.equal(routed, alone(hidden, logits, *weights[:2]))


@pytest.mark.parametrize("ranks", [2, 4, INNER])
def test_the_ranks_parts_of_the_shared_expert_add_up(ranks):
    hidden, logits, weights = torch.randn(4, WIDTH), torch.randn(4, EXPERTS), weights_of()
    shared = torch.randn(2 * INNER, WIDTH), torch.randn(WIDTH, INNER)
    parts = [
        ops.FusedMoESharedExpertFwdOp(2, tp_size=ranks, tp_rank=rank)(
            hidden, logits, *weights[:2], None, *shared
        )[0]
        for rank in range(ranks)
    ]
    torch.testing.assert_close(sum(parts), ops.SharedExpertMLPFwdOp()(hidden, *shared))


def test_a_shared_experts_weights_come_together_and_split_evenly():
    hidden, logits, weights = torch.randn(4, WIDTH), torch.randn(4, EXPERTS), weights_of()
    shared = torch.randn(2 * INNER, WIDTH), torch.randn(WIDTH, INNER)
    with pytest.raises(SignatureError, match="shared_w_down"):
        ops.FusedMoESharedExpertFwdOp(2)(hidden, logits, *weights[:2], None, shared[0])
    with pytest.raises(SignatureError, match="F_s % tp_size"):
        ops.FusedMoESharedExpertFwdOp(2, tp_size=3)(hidden, logits, *weights[:2], None, *shared)
    with pytest.raises(SignatureError, match="silu_and_mul"):
        ops.FusedMoESharedExpertFwdOp(2, activation="gelu_and_mul")(
            hidden, logits, *weights[:2], None, *shared
        )
    with pytest.raises(SignatureError, match="tp_rank"):
        ops.FusedMoESharedExpertFwdOp(2, tp_size=2, tp_rank=2)


def test_a_layers_logits_are_float32():
    hidden, weights = torch.randn(4, WIDTH).half(), weights_of(torch.float16)
    with pytest.raises(SignatureError, match="gating_output has dtype float16"):
        ops.FusedMoEFwdOp(2)(hidden, torch.randn(4, EXPERTS).half(), *weights[:2])


# -- who serves -------------------------------------------------------------------------------


def served(op):
    """Who serves an op and all that it holds."""
    return [op.serving_target, *(name for held in op.held_delegates() for name in served(held))]


@pytest.mark.parametrize("target", [None, BUILTIN, "reference"], ids=str)
def test_everything_inside_runs_under_the_layers_target(target):
    hidden, logits, weights = torch.randn(4, WIDTH), torch.randn(4, EXPERTS), weights_of()
    op = ops.FusedMoEFwdOp(2, target=target)
    op(hidden, logits, *weights[:2])
    due = BUILTIN if target is None else target
    assert served(op) == [due] * 8
    (record,) = op.last_call.stages["routed_experts"]
    for stage in BY_EXPERT:
        assert record.stages[stage][0].served_by.target == due


def test_what_the_parameters_settle_is_held_from_the_start():
    op = ops.FusedMoEFwdOp(2, routed_scaling_factor=2.5, activation="gelu_and_mul")
    router, experts = op.held_delegates()
    assert (router.top_k, router.routed_scaling_factor) == (2, 1.0)
    assert (experts.activation, experts.routed_scaling_factor) == ("gelu_and_mul", 2.5)


def test_inputs_of_a_layer_are_not_written():
    """PIPE-04."""
    hidden, logits, weights = torch.randn(4, WIDTH), torch.randn(4, EXPERTS), weights_of()
    shared = torch.randn(2 * INNER, WIDTH), torch.randn(WIDTH, INNER)
    inputs = (hidden, logits, *weights[:2], None, *shared)
    copies = [x if x is None else x.clone() for x in inputs]
    results = ops.FusedMoESharedExpertFwdOp(2, tp_size=2, tp_rank=1)(*inputs)
    given = [(x, copy) for x, copy in zip(inputs, copies, strict=True) if x is not None]
    assert all(torch.equal(x, copy) for x, copy in given)
    pointers = [x.untyped_storage().data_ptr() for x in (*results, *(x for x, _ in given))]
    assert len(set(pointers)) == len(pointers)
