"""Gradients that do not exist, in graphs: the forward works, the backward names the op."""

from __future__ import annotations

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from call_support import Switch, served, small
from graphs import each_backend, fresh, whole
from torch.utils.flop_counter import FlopCounterMode

from tileops_core.call import grad
from tileops_core.call.torch_operators import OPERATORS
from tileops_core.errors import SignatureError
from tileops_core.ops import GELUFwdOp, ReLUFwdOp, RMSNormFwdOp

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh():
    with fresh():
        yield


def leaf(*shape):
    return (small(*shape) - 5).requires_grad_()


def no_gradient(result, op):
    """The result needs a gradient, and asking for it names the op."""
    assert result.requires_grad
    with pytest.raises(NotImplementedError, match=f"{op} has no gradient"):
        result.sum().backward()


@each_backend
def test_a_forward_works_and_its_backward_names_the_op(backend):
    """Peer fault 3"""
    op = RMSNormFwdOp((4,))
    compiled = whole(lambda x: op(x) * 2, backend)
    for _ in range(2):
        y = compiled(leaf())
        assert torch.equal(y.detach(), op(leaf().detach()) * 2)
        no_gradient(y, "RMSNormFwdOp")


def test_a_result_is_no_view_and_may_be_changed():
    """A kernel's result may be a view of what it made."""
    kernel = Switch(lambda x: (x * 2).view(-1).view(x.shape))
    with served(build=kernel.build) as op:
        y = whole(lambda x: op(x))(leaf())
        y += 1
        assert torch.equal(y.detach(), (small() - 5) * 2 + 1)
        no_gradient(y, "ProbeFwdOp")


@each_backend
def test_a_weight_alone_needs_one_too(backend):
    op, weight = RMSNormFwdOp((4,)), torch.nn.Parameter(torch.ones(4))
    no_gradient(whole(op, backend)(small(), weight), "RMSNormFwdOp")


@each_backend
def test_a_path_beside_the_op_does_not_hide_it(backend):
    op = RMSNormFwdOp((4,))
    no_gradient(whole(lambda x: op(x) + x, backend)(leaf()), "RMSNormFwdOp")


@each_backend
def test_a_gradient_that_does_not_pass_the_op_is_right(backend):
    op, w = RMSNormFwdOp((4,)), leaf()
    whole(lambda x, w: op(x) * w, backend)(small(), w).sum().backward()
    assert torch.equal(w.grad, op(small()))


@each_backend
def test_a_detached_result_leaves_the_graphs_other_gradients_right(backend):
    """A graph has one backward, so a result that nobody differentiates would raise."""
    op, x = RMSNormFwdOp((4,)), leaf()
    _, doubled = whole(lambda x: (op(x).detach(), x * 2), backend)(x)
    doubled.sum().backward()
    assert torch.equal(x.grad, torch.full((3, 4), 2.0))


@each_backend
def test_without_grad_mode_nothing_requires_grad(backend):
    op = RMSNormFwdOp((4,))
    compiled = whole(op, backend)
    with torch.no_grad():
        assert not compiled(leaf()).requires_grad
    with torch.inference_mode():
        assert not compiled(leaf()).requires_grad
    no_gradient(compiled(leaf()), "RMSNormFwdOp")


@each_backend
def test_an_integer_output_requires_no_grad(backend):
    with served("MaximaFwdOp") as op:
        values, where = whole(op, backend)(leaf())
        assert not where.requires_grad
        no_gradient(values, "MaximaFwdOp")


@each_backend
def test_in_place_on_a_non_leaf_has_no_silent_gradient(backend):
    """Peer fault 1"""
    a = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = whole(lambda a: ReLU(a * 1), backend)(a)
    assert y.tolist() == [0, 2]
    no_gradient(y, "ReLUFwdOp")


ReLU = ReLUFwdOp(inplace=True)


@each_backend
@pytest.mark.parametrize("chosen", ["input", "result"])
def test_in_place_on_a_non_leaf_that_comes_in_has_no_silent_gradient(backend, chosen):
    """Peer fault 1"""
    x = torch.tensor([-1.0, 2.0], requires_grad=True) * 1
    y = whole(ReLU, backend)(x)
    assert x.tolist() == y.tolist() == [0, 2]
    # Of one graph, only one backward can be asked for.
    no_gradient(x if chosen == "input" else y, "ReLUFwdOp")


@each_backend
def test_in_place_on_a_leaf_is_refused(backend):
    x = leaf()
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="leaf that requires grad"):
        whole(ReLU, backend)(x)
    assert torch.equal(x.detach(), small() - 5)


@each_backend
def test_in_place_on_a_view_has_no_silent_gradient(backend):
    def f(x):
        base = x * 1
        ReLU(base[0])
        return base

    y = whole(f, backend)(leaf())
    assert (y[0] >= 0).all()
    no_gradient(y, "ReLUFwdOp")


@each_backend
@pytest.mark.parametrize("outside", [False, True])
def test_a_state_that_takes_in_something_with_a_gradient_has_none_itself(backend, outside):
    with served("AccumulateFwdOp") as op:

        def f(state, x):
            if not outside:
                state = state * 1
            op(state, x)
            return state * 2

        state = small()
        y = whole(f, backend)(state, leaf())
        assert torch.equal(y.detach(), 2 * (2 * small() - 5))
        no_gradient(y, "AccumulateFwdOp")


@each_backend
def test_two_written_inputs_have_no_silent_gradient(backend):
    with served("RotateFwdOp") as op:
        compiled = whole(lambda a, b: op(a * 1, b * 1), backend)
        for i in range(2):
            no_gradient(compiled(leaf(), small())[i], "RotateFwdOp")


@each_backend
def test_out_is_refused_where_an_input_requires_grad(backend):
    with served("BufferFwdOp") as op:
        compiled = whole(lambda x, out: op(x, out=out), backend)
        with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="out= does not work"):
            compiled(leaf(), torch.zeros(3, 4))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_value_saved_before_it_is_written_is_told(backend):
    """As with torch's own in-place functions, compilers may tell it already while they trace."""

    def f(x):
        b = x * 1
        y = b * b
        ReLU(b)
        return y

    with pytest.raises(Exception, match="modified by an inplace operation"):
        whole(f, backend)(leaf()).sum().backward()


@each_backend
def test_checkpointing_meets_the_same_error(backend):
    from torch.utils.checkpoint import checkpoint

    op = RMSNormFwdOp((4,))
    compiled = whole(lambda x: checkpoint(op, x, use_reentrant=False), backend)
    no_gradient(compiled(leaf()), "RMSNormFwdOp")


def test_the_named_backward_op_is_told_in_graphs_too(monkeypatch):
    monkeypatch.setattr(grad, "known_ops", lambda: frozenset({"GELUFwdOp", "GELUBwdOp"}))
    with pytest.raises(NotImplementedError, match="compute it with GELUBwdOp"):
        whole(GELUFwdOp(), "aot_eager")(leaf()).sum().backward()


# -- operators called by themselves -----------------------------------------------------------


@pytest.fixture(params=["operator", "twin"])
def operator(request):
    found = OPERATORS["tileops_core::rms_norm_fwd"]
    return found.overload if request.param == "operator" else found.raw


def test_an_operator_has_no_silent_gradient(operator):
    """A graph that was taken apart calls the twin."""
    op = RMSNormFwdOp((4,))
    no_gradient(operator(op._key, leaf(), None), "RMSNormFwdOp")
    with torch.no_grad():
        assert not operator(op._key, leaf(), None).requires_grad


def test_an_operator_refuses_forward_mode_tangents(operator):
    """Peer fault 2"""
    op = RMSNormFwdOp((4,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(small(), torch.ones(3, 4))
        for mode in (torch.enable_grad, torch.no_grad):
            with mode(), pytest.raises(SignatureError, match="forward-mode tangents"):
                operator(op._key, dual, None)
        assert torch.equal(operator(op._key, small(), None), op(small()))


def test_an_operator_under_a_mode_refuses_forward_mode_tangents(operator):
    """The mode calls it below autograd."""
    op = RMSNormFwdOp((4,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(small(), torch.ones(3, 4))
        with FlopCounterMode(display=False):
            with pytest.raises(SignatureError, match="forward-mode tangents"):
                operator(op._key, dual, None)
            assert torch.equal(operator(op._key, small(), None), op(small()))


@each_backend
def test_a_graph_made_inside_forward_mode_differentiation_is_right(backend):
    op = RMSNormFwdOp((4,))
    with forward_ad.dual_level():
        assert torch.equal(whole(op, backend)(small()), op(small()))
        with fresh(), pytest.raises(SignatureError, match="forward-mode tangents"):
            whole(op, backend)(forward_ad.make_dual(small(), torch.ones(3, 4)))


def test_a_twin_is_not_compiled_where_a_gradient_is_due():
    op, twin = RMSNormFwdOp((4,)), OPERATORS["tileops_core::rms_norm_fwd"].raw
    compiled = whole(lambda x: twin(op._key, x, None), "aot_eager")
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="run_decompositions"):
        compiled(leaf())
    with torch.no_grad():
        assert torch.equal(compiled(leaf()), op(leaf().detach()))


def test_transforms_that_differentiate_are_refused_in_graphs():
    """Peer fault 2"""
    op = RMSNormFwdOp((4,))
    for transform in (
        lambda x: torch.func.grad(lambda a: op(a).sum())(x),
        lambda x: torch.func.jvp(op, (x,), (x,)),
    ):
        with pytest.raises(Exception, match="RMSNormFwdOp: cannot be called"):
            whole(transform)(small())
