"""Composite ops whose first call is a compiled one: they are checked, and hold what they need."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import composites
import pytest
import torch
from call_support import small
from graphs import BACKENDS, Seen, breaks, fresh, graphs, shared_graphs, whole  # noqa: F401
from torch.fx.experimental.proxy_tensor import make_fx

from tileops_core import BUILTIN, Op, default_target, ops
from tileops_core.call import reading
from tileops_core.errors import SignatureError

REFUSED = torch._dynamo.exc.TorchRuntimeError
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh():
    with fresh(), default_target(BUILTIN):
        yield


def layer(tokens=5, experts=4, width=16, inner=8):
    """The tensors of a mixture of experts."""
    return (
        torch.randn(tokens, width),
        torch.randn(tokens, experts),
        torch.randn(experts, 2 * inner, width),
        torch.randn(experts, width, inner),
    )


def composite(name: str, forward: Any) -> type[Op]:
    """An op made of ReLUs, of its own name."""
    return type(
        name,
        (Op,),
        {
            "spec": composites.composite_spec(relu="ReLUFwdOp"),
            "delegate_types": {"relu": ops.ReLUFwdOp},
            "forward": forward,
            "__module__": __name__,
        },
    )


# -- what is held -----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_call_may_be_compiled(backend):
    given = layer()
    op = ops.FusedMoEFwdOp(2)
    assert torch.equal(whole(lambda *x: op(*x), backend)(*given), ops.FusedMoEFwdOp(2)(*given))
    assert breaks() == {}


def test_the_first_call_may_be_exported():
    given, op = layer(), ops.FusedMoEFwdOp(2)

    class Model(torch.nn.Module):
        def forward(self, hidden, logits, gate_up, down):
            return op(hidden, logits, gate_up, down)

    program = torch.export.export(Model(), given, strict=True)
    assert torch.equal(program.module()(*given), ops.FusedMoEFwdOp(2)(*given))


def test_sub_ops_of_given_ops_are_held_too():
    given = layer()
    op = ops.FusedMoEFwdOp(2, experts=ops.FusedMoEExpertsFwdOp())
    assert torch.equal(whole(lambda *x: op(*x))(*given), ops.FusedMoEFwdOp(2)(*given))


def test_a_later_call_of_one_graph_may_need_sub_ops_that_an_earlier_one_did_not():
    def forward(self, x):
        return self.delegate_for("relu", x.shape[0])(x)

    op = composite("ReluOfRowsFwdOp", forward)()
    y, z = whole(lambda x: (op(x), op(x[1:])))(small() - 5)
    assert torch.equal(y, torch.relu(small() - 5))
    assert torch.equal(z, y[1:])
    assert len(op.held_delegates()) == 2


@pytest.mark.usefixtures("shared_graphs")
def test_equal_composites_share_a_graph_from_the_first_call_on():
    given = layer()
    compiled = whole(lambda op, *x: op(*x))
    layers = [ops.FusedMoEFwdOp(2) for _ in range(12)]
    for layer_of_experts in layers:
        compiled(layer_of_experts, *given)
    assert graphs() == 1


def test_a_batch_of_any_size_has_one_graph():
    op = ops.FusedMoEFwdOp(2)
    compiled = whole(lambda *x: op(*x), dynamic=True)
    for tokens in (9, 10, 11, 13, 17):  # more routes than the short way takes
        given = layer(tokens)
        assert torch.equal(compiled(*given), ops.FusedMoEFwdOp(2)(*given))
    assert graphs() == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_of_tokens_that_data_tell_is_no_hindrance(backend):
    op, given = ops.FusedMoEFwdOp(2), layer(9)

    def masked(hidden, logits, *weights):
        kept = torch.nonzero(logits[:, 0] > 0)[:, 0]
        return op(hidden[kept], logits[kept], *weights)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert torch.equal(whole(masked, backend)(*given), masked(*given))


def test_sizes_that_a_graph_keeps_open_may_be_identities_and_parameters():
    given = layer()
    traced = make_fx(lambda *x: ops.FusedMoEFwdOp(2)(*x), tracing_mode="symbolic")(*given)
    assert torch.equal(traced(*given), ops.FusedMoEFwdOp(2)(*given))


def test_equal_composites_of_one_model_run_ahead_once_or_twice_each(monkeypatch):
    layers, calls = [ops.FusedMoEFwdOp(2) for _ in range(6)], []
    held = reading._hold
    monkeypatch.setattr(reading, "_hold", lambda op, *call: calls.append(op) or held(op, *call))

    def model(hidden, *rest):
        for one in layers:
            hidden = one(hidden, *rest)
        return hidden

    whole(model)(*layer())
    assert max(calls.count(one) for one in layers) <= 3
    assert graphs() == 1


def test_a_dynamo_that_shows_no_objects_is_left_to_read_on():
    class Context:
        def get_local(self, name, stacklevel):
            return object()

    reading.before_body(Context())
    reading._after_body(Context())


def test_nobody_is_selected_and_nothing_built():
    op = ops.FusedMoEFwdOp(2)
    whole(lambda *x: op(*x), Seen())  # not called
    reading._hold(op, (*layer(), None, None, None), None)
    assert op.held_delegates()
    assert op.serving_target is None
    assert [list(sub_op.iter_kernels()) for sub_op in op.held_delegates()] == [[], []]


def test_objects_that_are_no_ops_are_not_called_to_hold_something():
    @attrs.define
    class Experts:
        activation = "silu_and_mul"
        routed_scaling_factor = 1.0
        calls: ClassVar[list[Any]] = []

        def __call__(self, hidden, *rest):
            self.calls.append(hidden)
            return hidden * 2

    op = ops.FusedMoEFwdOp(2, experts=Experts())
    reading._hold(op, (*layer(), None, None, None), None)
    assert Experts.calls == []


def test_a_body_that_needs_data_breaks_the_graph_as_dynamo_says():
    def forward(self, x):
        return self.delegate_for("relu", ())(x) if x.sum().item() > 0 else x + 0

    op = composite("ReluOfDataFwdOp", forward)()
    assert torch.equal(torch.compile(lambda x: op(x), backend="eager")(small()), small())
    torch._dynamo.reset()
    with pytest.raises((torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError), match="item"):
        whole(lambda x: op(x))(small())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_batch_of_calls_is_compiled(backend, fullgraph):
    hidden, logits, *weights = layer()
    hidden, logits = torch.stack([hidden, -hidden]), torch.stack([logits, -logits])
    op = ops.FusedMoEFwdOp(2)
    batch = torch.func.vmap(lambda *x: op(*x, *weights))
    y = torch.compile(batch, backend=backend, fullgraph=fullgraph)(hidden, logits)
    assert torch.equal(y, torch.stack([op(*x, *weights) for x in zip(hidden, logits, strict=True)]))


# -- what is checked --------------------------------------------------------------------------


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_tensor_that_is_missing_is_not_passed_over(fullgraph):
    """Half of a shared expert would else be none."""
    op = ops.FusedMoESharedExpertFwdOp(2)
    compiled = torch.compile(lambda *x: op(*x), backend="eager", fullgraph=fullgraph)
    with pytest.raises(REFUSED, match="FusedMoESharedExpertFwdOp: shared_w_down must be given"):
        compiled(*layer(), None, torch.randn(16, 16))


def test_sizes_that_sub_ops_do_not_compare_are_compared():
    hidden, _, gate_up, down = layer()
    op = ops.FusedMoEFwdOp(2)
    with pytest.raises(REFUSED, match=r"FusedMoEFwdOp: w_gate_up has shape \(4, .* \(2, "):
        whole(lambda *x: op(*x))(hidden, torch.randn(5, 2), gate_up, down)


def test_sizes_of_later_calls_are_compared():
    op = ops.FusedMoEFwdOp(2)
    compiled = whole(lambda *x: op(*x), dynamic=True)
    compiled(*layer(9))
    hidden, _, gate_up, down = layer(10)
    with pytest.raises(REFUSED, match="FusedMoEFwdOp: gating_output has shape"):
        compiled(hidden, torch.randn(11, 4), gate_up, down)


def test_the_refusal_says_what_the_eager_one_says():
    op = ops.FusedMoEFwdOp(2)
    hidden, logits, gate_up, down = layer()
    with pytest.raises(SignatureError) as eager:
        op(hidden.double(), logits, gate_up, down)
    with pytest.raises(REFUSED) as compiled:
        whole(lambda *x: op(*x))(hidden.double(), logits, gate_up, down)
    assert f"SignatureError: {eager.value}" in str(compiled.value)


@pytest.mark.parametrize("given", ["a word", [1, 2], object()], ids=["str", "list", "object"])
def test_what_is_no_tensor_is_refused(given):
    op = ops.FusedMoEFwdOp(2)
    with pytest.raises(REFUSED, match="NotATensorError: FusedMoEFwdOp: correction_bias must be"):
        whole(lambda *x: op(*x))(*layer(), given)


def test_a_call_that_was_refused_leaves_nothing_behind():
    op = ops.FusedMoEFwdOp(2)
    hidden, logits, gate_up, down = layer()
    compiled = torch.compile(lambda *x: op(*x), backend="eager")
    with pytest.raises(REFUSED):
        compiled(hidden, logits[:, :2].contiguous(), gate_up, down)
    assert torch.equal(compiled(hidden, logits, gate_up, down), op(hidden, logits, gate_up, down))


def test_the_callers_buffer_is_checked():
    op = ops.FusedMoEExpertsFwdOp()
    hidden, _, gate_up, down = layer()
    rest = torch.rand(5, 2), torch.zeros(5, 2, dtype=torch.int32)
    with pytest.raises(REFUSED, match="FusedMoEExpertsFwdOp: out "):
        whole(lambda out: op(hidden, gate_up, down, *rest, out=out))(torch.empty(5, 15))


def test_tensors_of_any_strides_are_taken_where_the_entry_takes_them():
    op = composite("ReluOfStridesFwdOp", lambda self, x: self.delegate_for("relu", ())(x))()
    x = small(4, 3).t() - 5
    assert torch.equal(whole(lambda x: op(x))(x), torch.relu(x))


# -- what is returned -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda y, x: y[:2], r"returned shape \(2, 4\) for y"),
        (lambda y, x: y.double(), "returned dtype float64 for y"),
        (lambda y, x: y.t().contiguous().t(), "new outputs must be contiguous"),
        (lambda y, x: x, "returned y in the memory of its input x"),
        (lambda y, x: x.view(-1).view(3, 4), "returned y in the memory of its input x"),
        (lambda y, x: None, "returned None for y, due is a float32 tensor"),
        (lambda y, x: (y, y), "returned a tuple of 2 for y"),
    ],
)
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_body_that_returns_what_is_not_due_is_refused(wrong, says, fullgraph):
    op = composite("ReluGoneWrongFwdOp", lambda self, x: wrong(self.delegate_for("relu", ())(x), x))
    compiled = torch.compile(op(), backend="eager", fullgraph=fullgraph)
    with pytest.raises(REFUSED, match=f"ReluGoneWrongFwdOp: target 'BUILTIN'.* {says}"):
        compiled(small())


@pytest.mark.parametrize("wrong", [lambda x: x, lambda x: x.view(-1).view(3, 4)])
def test_a_batch_of_calls_whose_results_are_inputs_is_refused(wrong):
    op = composite("InputsGivenBackFwdOp", lambda self, x: wrong(x))()
    with pytest.raises(REFUSED, match="returned y in the memory of its input x"):
        whole(torch.func.vmap(lambda x: op(x)))(small(2, 3, 4))


def test_a_body_that_calls_what_it_does_not_hold_is_refused():
    stray = ops.ReLUFwdOp()
    op = composite("ReluOfAnotherFwdOp", lambda self, x: stray(x))()
    with pytest.raises(REFUSED, match=r"ReluOfAnotherFwdOp: ReLUFwdOp.* but no stage holds it"):
        whole(lambda x: op(x))(small())


def test_the_callers_buffer_may_be_returned():
    op = ops.FusedMoEExpertsFwdOp()
    hidden, _, gate_up, down = layer()
    rest = torch.rand(5, 2), torch.zeros(5, 2, dtype=torch.int32)
    out = torch.empty(5, 16)
    y = whole(lambda out: op(hidden, gate_up, down, *rest, out=out))(out)
    assert y is out
    assert torch.equal(out, ops.FusedMoEExpertsFwdOp()(hidden, gate_up, down, *rest))


def test_results_that_require_grad_are_right():
    op = composite("ReluWithGradFwdOp", lambda self, x: self.delegate_for("relu", ())(x))()
    y = whole(lambda x: op(x))(small().requires_grad_())
    assert y.requires_grad
