"""Calls that autograd would want to know of: the forward works, no gradient is silently wrong."""

from __future__ import annotations

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from call_support import Switch, faulty, good, op_class, served, small, target

from tileops_core.errors import BackendError, SignatureError
from tileops_core.ops import AddFwdOp, GELUFwdOp, ReLUFwdOp, RMSNormFwdOp


@pytest.fixture
def probe():
    with served() as op:
        yield op


def leaf(*shape):
    return small(*shape).requires_grad_()


def no_gradient(result, op="ProbeFwdOp"):
    """The result needs a gradient, and asking for it names the op."""
    assert result.requires_grad
    with pytest.raises(NotImplementedError, match=f"{op} has no gradient"):
        result.sum().backward()


@pytest.mark.parametrize("times", [1, 2])
def test_a_result_is_no_view_and_may_be_changed(times):
    """A kernel's result may be a view of what it made."""
    with served(build=Switch(lambda x: (x * 2).view(-1).view(x.shape)).build) as op:
        for _ in range(times):
            y = op(leaf())
    y += 1
    assert torch.equal(y.detach(), small() * 2 + 1)
    no_gradient(y)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_forward_works_and_its_backward_names_the_op(probe, times):
    """Peer fault 3"""
    for _ in range(times):
        y = probe(leaf())
    assert torch.equal(y.detach(), small() * 2)
    no_gradient(y)


def test_the_error_of_backward_says_what_to_do(probe):
    with pytest.raises(NotImplementedError, match=r"torch\.no_grad\(\)"):
        probe(leaf()).sum().backward()


def test_a_result_in_the_middle_of_a_graph_has_no_gradient(probe):
    w = leaf()
    no_gradient(probe(w * 3) + 1)


def test_a_gradient_that_does_not_pass_the_op_is_right(probe):
    w = leaf()
    (w * probe(small())).sum().backward()
    assert torch.equal(w.grad, small() * 2)


def test_a_tensor_of_a_transform_that_is_over_is_refused_as_without_grad():
    kept = []

    def f(x):
        kept.append(x)
        return (x * 2).sum()

    torch.func.grad(f)(leaf())
    with pytest.raises(RuntimeError, match="data pointer"):
        ReLUFwdOp()(kept[0])
    with torch.no_grad(), pytest.raises(RuntimeError, match="data pointer"):
        ReLUFwdOp()(kept[0])


def test_any_input_that_requires_grad_counts():
    op = RMSNormFwdOp((4,))
    weight = torch.nn.Parameter(torch.ones(4))
    for _ in range(2):
        no_gradient(op(small(), weight), "RMSNormFwdOp")
        no_gradient(op(leaf(), torch.ones(4)), "RMSNormFwdOp")
        no_gradient(op(leaf()), "RMSNormFwdOp")
        assert not op(small(), torch.ones(4)).requires_grad


def test_without_grad_mode_nothing_requires_grad(probe):
    for _ in range(2):
        with torch.no_grad():
            assert not probe(leaf()).requires_grad
        with torch.inference_mode():
            assert not probe(leaf()).requires_grad


def test_kernels_run_below_autograd():
    seen = []
    switch = Switch(lambda x: seen.append(torch.is_grad_enabled()) or good(x))
    with served(build=switch.build) as op:
        for _ in range(2):
            op(leaf())
    assert seen == [False, False]


def test_a_call_that_needs_no_gradient_leaves_grad_mode_alone():
    seen = []
    switch = Switch(lambda x: seen.append(torch.is_grad_enabled()) or good(x))
    with served(build=switch.build) as op:
        for _ in range(2):
            op(small())
    assert seen == [True, True]


@pytest.mark.parametrize("warm", [False, True])
def test_a_kernel_whose_result_requires_grad_by_itself_is_refused(warm):
    w = leaf()
    switch = Switch(good if warm else lambda x: x * w)
    with served(build=switch.build) as op:
        if warm:
            op(small())
        switch.does = lambda x: x * w
        with pytest.raises(BackendError, match="requires_grad"):
            op(small())


def test_an_integer_output_requires_no_grad():
    with served("MaximaFwdOp") as op:
        for _ in range(2):
            values, where = op(leaf())
            assert not where.requires_grad
            no_gradient(values, "MaximaFwdOp")


def test_an_absent_output_stays_none_under_autograd():
    with served("MaximaFwdOp", indices=False) as op:
        for _ in range(2):
            values, where = op(leaf())
            assert where is None
            no_gradient(values, "MaximaFwdOp")


def test_a_result_of_integers_only_requires_no_grad():
    assert not AddFwdOp()(small().int(), small().int()).requires_grad


def test_calls_under_autograd_take_the_same_route(probe):
    probe(small())
    routes = len(probe._binding)
    no_gradient(probe(leaf()))
    assert len(probe._binding) == routes


def test_a_parameter_under_no_grad_takes_the_same_route_as_a_tensor():
    """Peer fault 11"""
    op = RMSNormFwdOp((4,))
    op(small(), torch.ones(4))
    with torch.no_grad():
        op(small(), torch.nn.Parameter(torch.ones(4)))
    assert len(op._binding) == 1


def test_a_call_under_autograd_is_recorded(probe):
    probe(leaf())
    assert probe.last_call.tensors["x"] == ((3, 4), torch.float32)


def test_an_input_that_requires_grad_may_lie_in_any_way(probe):
    for _ in range(2):
        y = probe(leaf(4, 3).t())
        assert torch.equal(y.detach(), small(4, 3).t() * 2)
        no_gradient(y)


def test_an_empty_call_under_autograd_works(probe):
    y = probe(torch.ones(0, 4, requires_grad=True))
    assert y.shape == (0, 4)
    no_gradient(y)


def test_a_failing_call_under_autograd_is_undone():
    with served(build=lambda x: lambda x: None) as op:
        with pytest.raises(BackendError):
            op(leaf())
        assert op.serving_target is None


# -- writing ----------------------------------------------------------------------------------


def test_in_place_on_a_non_leaf_has_no_silent_gradient():
    """Peer fault 1"""
    a = torch.tensor([-1.0, 2.0], requires_grad=True)
    b = a * 1
    y = ReLUFwdOp(inplace=True)(b)
    assert y is b
    assert y.tolist() == [0, 2]
    no_gradient(y, "ReLUFwdOp")


def test_in_place_on_a_leaf_is_refused():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    op = ReLUFwdOp(inplace=True)
    with pytest.raises(SignatureError, match="leaf that requires grad"):
        op(x)
    assert x.tolist() == [-1, 2]
    with torch.no_grad():
        assert op(x) is x
    assert x.tolist() == [0, 2]


def test_in_place_on_a_view_of_a_leaf_is_refused():
    x = torch.tensor([[-1.0, 2.0], [-3.0, 4.0]], requires_grad=True)
    with pytest.raises(SignatureError, match="view of a leaf that requires grad"):
        ReLUFwdOp(inplace=True)(x[0])
    assert (x < 0).sum() == 2


def test_in_place_on_one_of_several_views_is_refused_before_it_is_written():
    x = torch.tensor([[-1.0, 2.0], [-3.0, 4.0]], requires_grad=True) * 1
    with pytest.raises(SignatureError, match="autograd cannot follow"):
        ReLUFwdOp(inplace=True)(x.unbind()[0])
    assert (x < 0).sum() == 2


def test_a_write_into_a_view_made_without_grad_mode_is_refused_before_it_is_written():
    state = torch.zeros(2, 3, 4)
    with torch.no_grad():
        slot = state[0]
    with served("AccumulateFwdOp") as op:
        with pytest.raises(SignatureError, match="autograd cannot follow"):
            op(slot, leaf())
        assert (state == 0).all()
        op(slot, small())
        assert torch.equal(slot, small())


def test_in_place_on_a_view_of_a_non_leaf_has_no_silent_gradient():
    w = torch.tensor([[-1.0, 2.0], [-3.0, 4.0]], requires_grad=True)
    base = w * 1
    view = base[0]
    assert ReLUFwdOp(inplace=True)(view) is view
    assert base.tolist() == [[0, 2], [-3, 4]]
    no_gradient(base, "ReLUFwdOp")


def test_a_state_in_a_larger_tensor_that_takes_in_something_with_a_gradient_has_none_itself():
    """A key-value cache is written a slot at a time."""
    with served("AccumulateFwdOp") as op:
        cache = torch.zeros(2, 3, 4)
        op(cache[0], leaf())
        assert torch.equal(cache[0].detach(), small())
        no_gradient(cache, "AccumulateFwdOp")


@pytest.mark.parametrize("times", [1, 2])
def test_a_state_that_takes_in_something_with_a_gradient_has_none_itself(times):
    """Not written by an alias: the state is returned by nothing, and still depends on x."""
    with served("AccumulateFwdOp") as op:
        for _ in range(times):
            state = torch.zeros(3, 4)
            assert op(state, leaf()) is None
        assert torch.equal(state.detach(), small())
        no_gradient(state, "AccumulateFwdOp")


def test_two_written_inputs_have_no_silent_gradient():
    with served("RotateFwdOp") as op:
        left, right = leaf() * 1, small()
        total, difference = op(left, right)
        assert total is left
        assert difference is right
        no_gradient(left, "RotateFwdOp")
        no_gradient(right, "RotateFwdOp")


def test_a_swap_has_no_silent_gradient():
    with served("SwapFwdOp") as op:
        left, right = leaf() * 1, small() * 3
        assert op(left, right) is None
        assert torch.equal(left.detach(), small() * 3)
        no_gradient(left, "SwapFwdOp")
        no_gradient(right, "SwapFwdOp")


def test_out_is_refused_where_an_input_requires_grad():
    with served("BufferFwdOp") as op:
        out = torch.zeros(3, 4)
        with pytest.raises(SignatureError, match="out= does not work with inputs that require"):
            op(leaf(), out=out)
        with torch.no_grad():
            assert op(leaf(), out=out) is out


def test_an_input_saved_by_an_earlier_step_and_written_later_is_told():
    """The version counter is bumped under autograd too."""
    w = torch.ones(3, 4, requires_grad=True)
    x = w * 1
    y = x * x
    ReLUFwdOp(inplace=True)(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("part", [lambda w: w, lambda w: w[0]], ids=["all", "a row"])
def test_a_write_that_torch_is_asked_to_save_from_leaves_the_gradient_right(part):
    """Its mode finds what is saved by the version that it had, before the write is counted."""
    x, w = torch.ones(3, 4, requires_grad=True), small() - 5
    due = w.clone()
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = (x * w).sum()
        ReLUFwdOp(inplace=True)(part(w))
        y.backward()
    assert not torch.equal(w, due)
    assert torch.equal(x.grad, due)


# -- other differentiations -------------------------------------------------------------------


def test_the_named_backward_op_is_told_where_the_manifest_has_one(monkeypatch):
    from tileops_core.call import grad

    monkeypatch.setattr(grad, "known_ops", lambda: frozenset({"GELUFwdOp", "GELUBwdOp"}))
    with pytest.raises(NotImplementedError, match="compute it with GELUBwdOp"):
        GELUFwdOp()(leaf()).sum().backward()


def test_forward_mode_tangents_are_refused(probe):
    """Peer fault 2"""
    probe(small())
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(small(), torch.ones(3, 4))
        with pytest.raises(SignatureError, match="forward-mode tangents"):
            probe(dual)
        assert torch.equal(probe(small()), small() * 2)
    assert torch.equal(probe(small()), small() * 2)


def test_a_tensor_subclass_of_parameter_works(probe):
    class Weight(torch.nn.Parameter):
        pass

    weight = Weight(small())
    y = probe(weight)
    assert torch.equal(y.detach(), small() * 2)
    no_gradient(y)


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient")
def test_gradcheck_does_not_pass(probe):
    x = torch.ones(1, 1, requires_grad=True)
    with pytest.raises(NotImplementedError, match="ProbeFwdOp has no gradient"):
        torch.autograd.gradcheck(probe, (x,), eps=1e-2, atol=1e-1)


def test_hooks_and_higher_orders_meet_the_same_error(probe):
    x = leaf()
    y = probe(x)
    with pytest.raises(NotImplementedError, match="ProbeFwdOp has no gradient"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_checkpointing_meets_the_same_error(probe):
    from torch.utils.checkpoint import checkpoint

    y = checkpoint(probe, leaf(), use_reentrant=False)
    no_gradient(y)


def test_a_target_serves_calls_with_and_without_grad_alike():
    with target(lambda x: faulty.KERNELS["ProbeFwdOp"]()):
        op = op_class("ProbeFwdOp")(target="acme")
        no_gradient(op(leaf()))
        assert not op(small()).requires_grad
        assert op.serving_target == "acme"
