"""What a fused mixture-of-experts layer can be given: who brings tokens, and who computes them."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest
import torch

from tileops_core import ops
from tileops_core.backend import BuilderRegistration, TargetRegistration, registered
from tileops_core.errors import SignatureError, TileOpsError
from tileops_core.interfaces.moe_layer import PreparedTokens

WIDTH, INNER, EXPERTS, TOP_K = 12, 8, 6, 2


@attrs.define(eq=False)
class Half:
    """A ``prepare_finalize`` of a process that has ``count`` experts, those from ``first`` on.

    Nobody has the others: what they would add is left out. Each route is a row.
    """

    first: int = 0
    count: int = EXPERTS
    calls: list[str] = attrs.field(factory=list)

    def prepare(self, hidden_states, topk_weights, topk_ids, num_experts):
        self.calls.append(f"prepare {tuple(hidden_states.shape)} of {num_experts}")
        ids = topk_ids.flatten() - self.first
        mine = ((ids >= 0) & (ids < self.count)).nonzero().flatten()
        return PreparedTokens(
            hidden_states[mine // topk_ids.shape[1]],
            topk_weights.flatten()[mine, None],
            ids[mine, None],
            self.first,
            self.count,
            (mine, topk_ids.shape),
        )

    def finalize(self, expert_output, prepared):
        self.calls.append(f"finalize {tuple(expert_output.shape)}")
        mine, shape = prepared.kept
        routes = expert_output.new_zeros((shape[0] * shape[1], expert_output.shape[1]))
        routes[mine] = expert_output
        return routes.view(*shape, -1).sum(1) if shape[0] else routes


class Doubles:
    """Experts of nobody's: they add twice the token."""

    activation = "swigluoai"
    routed_scaling_factor = 3.0

    def __call__(self, hidden, w_gate_up, w_down, weights, ids, b_gate_up=None, b_down=None):
        return hidden * 2


def inputs(tokens=5, biased=True):
    shapes = [(EXPERTS, 2 * INNER, WIDTH), (EXPERTS, WIDTH, INNER)]
    shapes += [(EXPERTS, 2 * INNER), (EXPERTS, WIDTH)] if biased else []
    weights = [torch.randn(shape) for shape in shapes]
    hidden, logits = torch.randn(tokens, WIDTH), torch.randn(tokens, EXPERTS)
    return (hidden, logits, *weights[:2], None, *weights[2:])


def test_tokens_are_prepared_computed_and_finalized():
    given, between = inputs(), Half()
    op = ops.FusedMoEFwdOp(TOP_K, prepare_finalize=between)
    torch.testing.assert_close(op(*given), ops.FusedMoEFwdOp(TOP_K)(*given))
    assert between.calls == [f"prepare (5, {WIDTH}) of {EXPERTS}", f"finalize (10, {WIDTH})"]
    assert list(op.last_call.stages) == ["route_select", "routed_experts"]


@pytest.mark.parametrize("first", [0, 2, 4])
def test_experts_of_other_processes_are_not_read(first):
    """The parts of all processes add up to the whole, and each reads its own weights alone."""
    given = inputs()
    poisoned = [x if x is None else x.clone() for x in given]
    for weight in (poisoned[i] for i in (2, 3, 5, 6)):
        weight[:first], weight[first + 2 :] = torch.nan, torch.nan
    part = ops.FusedMoEFwdOp(TOP_K, prepare_finalize=Half(first, 2))(*poisoned)
    others = [
        ops.FusedMoEFwdOp(TOP_K, prepare_finalize=Half(f, 2))(*given)
        for f in (0, 2, 4)
        if f != first
    ]
    torch.testing.assert_close(part + sum(others), ops.FusedMoEFwdOp(TOP_K)(*given))


def test_the_shared_expert_needs_nobody_else():
    hidden, logits, w_gate_up, w_down, *_ = inputs()
    shared = torch.randn(2 * INNER, WIDTH), torch.randn(WIDTH, INNER)
    given, between = (hidden, logits, w_gate_up, w_down, None, *shared), Half()
    op = ops.FusedMoESharedExpertFwdOp(TOP_K, prepare_finalize=between)
    results, alone = op(*given), ops.FusedMoESharedExpertFwdOp(TOP_K)(*given)
    for result, right in zip(results, alone, strict=True):
        torch.testing.assert_close(result, right)
    assert len(between.calls) == 2


@pytest.mark.parametrize("tokens", [0, 5])
def test_others_may_wait_for_a_process_without_tokens(tokens):
    """MOE-02: with nothing to compute, ``prepare`` and ``finalize`` are called all the same."""
    between = Half(0, 0)
    op = ops.FusedMoEFwdOp(TOP_K, prepare_finalize=between)
    for _ in range(2):  # the call that selects who serves, and one on a known route
        assert op(*inputs(tokens)).shape == (tokens, WIDTH)
    due = [f"prepare ({tokens}, {WIDTH}) of {EXPERTS}", f"finalize (0, {WIDTH})"]
    assert between.calls == due * 2
    assert op.eval_roofline()[0] >= 0


def test_a_target_that_serves_whole_layers_does_not_serve_one_that_was_given_objects():
    """Its builder is told of no object: it would compute something else."""

    def build_kernel(*specs, **parameters):
        return lambda *tensors: torch.zeros_like(tensors[0])

    given, between = inputs(), Half()
    target = TargetRegistration("acme", lambda device: True)
    with registered(target, BuilderRegistration("FusedMoEFwdOp", "acme", build_kernel)):
        assert not ops.FusedMoEFwdOp(TOP_K)(*given).any()
        for changes in ({"prepare_finalize": between}, {"experts": Doubles()}):
            with pytest.raises(TileOpsError, match="FusedTopKFwdOp"):
                # acme was asked for, and has no router
                ops.FusedMoEFwdOp(TOP_K, target="acme", **changes)(*given)
        op = ops.FusedMoEFwdOp(TOP_K, prepare_finalize=between)
        assert op(*given).any()
    assert len(between.calls) == 2


# -- experts ----------------------------------------------------------------------------------


def test_given_experts_settle_what_they_compute():
    given = inputs()
    experts = ops.FusedMoEExpertsFwdOp(2.5, activation="swigluoai", target="reference")
    op = ops.FusedMoEFwdOp(TOP_K, experts=experts)
    assert (op.activation, op.routed_scaling_factor) == ("swigluoai", 2.5)
    alone = ops.FusedMoEFwdOp(TOP_K, routed_scaling_factor=2.5, activation="swigluoai")
    assert torch.equal(op(*given), alone(*given))
    assert op.held_delegates()[1] is experts
    assert (op.serving_target, experts.serving_target) != ("reference", None)
    assert experts.serving_target == "reference"
    assert op.eval_roofline() == alone.eval_roofline()


@pytest.mark.parametrize(
    "params", [{"activation": "gelu_and_mul"}, {"routed_scaling_factor": 2.0}], ids=str
)
def test_experts_are_not_told_what_they_settle(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"FusedMoEFwdOp: {name} is"):
        ops.FusedMoEFwdOp(TOP_K, **params, experts=Doubles())
    settled = {name: getattr(Doubles, name)}
    assert ops.FusedMoEFwdOp(TOP_K, **settled, experts=Doubles()).activation == "swigluoai"


def test_experts_may_be_any_object_that_computes():
    given = inputs()
    op = ops.FusedMoEFwdOp(TOP_K, experts=Doubles())
    assert torch.equal(op(*given), given[0] * 2)
    assert list(op.last_call.stages) == ["route_select"]
    assert op.eval_roofline()[0] > 0


def test_experts_that_a_layer_cannot_have_are_refused():
    with pytest.raises(SignatureError, match="FusedMoESharedExpertFwdOp: activation"):
        ops.FusedMoESharedExpertFwdOp(TOP_K, experts=Doubles())
    with pytest.raises(TypeError, match="'routed_experts' holds a FusedMoEExpertsFwdOp"):
        ops.FusedMoEFwdOp(TOP_K, experts=ops.FusedMoEFwdOp(TOP_K))


def test_experts_that_call_an_op_unseen_make_the_call_fail():
    class Calls(Doubles):
        def __call__(self, hidden, *rest):
            return ops.ReLUFwdOp()(hidden)

    with pytest.raises(TileOpsError, match="no stage holds it"):
        ops.FusedMoEFwdOp(TOP_K, experts=Calls())(*inputs())


# -- objects that are wrong -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"prepare_finalize": object()}, "no prepare and no finalize"),
        ({"prepare_finalize": Half}, None),
        ({"experts": lambda *tensors: tensors[0]}, "no activation"),
    ],
    ids=["nothing", "class", "function"],
)
def test_an_object_without_the_members_of_its_protocol_is_refused(given, missing):
    if missing is None:
        assert ops.FusedMoEFwdOp(TOP_K, **given)  # a class has them; calling it will tell
        return
    with pytest.raises(TypeError, match=f"FusedMoEFwdOp: .* has {missing}"):
        ops.FusedMoEFwdOp(TOP_K, **given)


@pytest.mark.parametrize(
    "wrong", [lambda x: x[:-1], lambda x: x.half(), lambda x: None, lambda x: x.to("meta")]
)
def test_a_result_that_does_not_fit_is_the_objects_fault(wrong):
    class Finalizes(Half):
        def finalize(self, expert_output, prepared):
            return wrong(super().finalize(expert_output, prepared))

    class Computes(Doubles):
        def __call__(self, hidden, *rest):
            return wrong(hidden)

    for params, who in (
        ({"prepare_finalize": Finalizes()}, "finalize of prepare_finalize"),
        ({"experts": Computes()}, "experts"),
        ({"experts": Computes(), "prepare_finalize": Half()}, "experts"),
    ):
        with pytest.raises(TypeError, match=f"FusedMoEFwdOp: {who} returned"):
            ops.FusedMoEFwdOp(TOP_K, **params)(*inputs())


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (5, 2), (2, -1)])
def test_experts_that_do_not_exist_are_not_chosen(first, count):
    class Chooses(Half):
        def prepare(self, *tensors):
            return attrs.evolve(super().prepare(*tensors), first_expert=first, num_experts=count)

    with pytest.raises(ValueError, match="FusedMoEFwdOp: prepare of"):
        ops.FusedMoEFwdOp(TOP_K, prepare_finalize=Chooses())(*inputs())


def test_an_error_inside_leaves_the_next_call_right():
    given, between = inputs(), Half()
    op = ops.FusedMoEFwdOp(TOP_K, prepare_finalize=between)
    between.first = "somewhere"
    with pytest.raises(TypeError):
        op(*given)
    assert op.serving_target is None
    between.first = 0
    torch.testing.assert_close(op(*given), ops.FusedMoEFwdOp(TOP_K)(*given))


# -- instances --------------------------------------------------------------------------------


def test_what_was_given_is_fixed():
    op = ops.FusedMoEFwdOp(TOP_K, prepare_finalize=Half(), experts=Doubles())
    for name in ("prepare_finalize", "experts"):
        with pytest.raises(AttributeError, match=f"{name} is fixed at construction"):
            setattr(op, name, None)
    plain = ops.FusedMoEFwdOp(TOP_K)
    assert (plain.prepare_finalize, plain.experts) == (None, None)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))])
def test_copies_are_given_copies(way):
    experts = ops.FusedMoEExpertsFwdOp(2.5, activation="gelu_and_mul")
    op = ops.FusedMoEFwdOp(TOP_K, experts=experts)
    other, given = way(op), inputs()
    assert other.experts is not experts
    assert other.held_delegates()[1] is other.experts
    assert torch.equal(other(*given), op(*given))


def test_a_copy_waits_for_others_too():
    op = copy.deepcopy(ops.FusedMoEFwdOp(TOP_K, prepare_finalize=Half()))
    op(*inputs(0))
    assert len(op.prepare_finalize.calls) == 2


def test_layers_with_objects_are_not_taken_for_each_other():
    one, other = (ops.FusedMoEFwdOp(TOP_K, prepare_finalize=Half(f, 3)) for f in (0, 3))
    given = inputs()
    total = one(*given) + other(*given)
    torch.testing.assert_close(total, ops.FusedMoEFwdOp(TOP_K)(*given))
