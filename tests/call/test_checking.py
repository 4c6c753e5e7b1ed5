"""``checks(purity=True)``: kernels that touch what they do not declare are caught and named."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from call_support import Switch, faulty, good, in_threads, layouts, op_class, served, small, target

from tileops_core import checks
from tileops_core.call import checking
from tileops_core.errors import BackendError
from tileops_core.ops import AddFwdOp, GELUFwdOp, LayerNormFwdOp, ReLUFwdOp, SoftmaxFwdOp

LAYOUTS = [pytest.param(tensor, id=name) for name, tensor in layouts()]


@pytest.fixture
def purity():
    with checks(purity=True):
        yield


@pytest.mark.parametrize("warm", [False, True])
def test_a_kernel_that_writes_an_undeclared_input_is_named(warm):
    """Peer fault 10"""
    switch = Switch(good)
    with served(build=switch.build) as op:
        if warm:
            op(small())
        switch.does = faulty.writes_its_input
        with checks(purity=True), pytest.raises(BackendError, match="wrote into x") as caught:
            op(small())
        for name in ("ProbeFwdOp", "'acme'", "'vendor'"):
            assert name in str(caught.value)
        switch.does = good
        with checks(purity=True):
            assert torch.equal(op(small()), small() * 2)


def test_an_optional_input_is_watched_too(purity):
    def kernel(x, z=None):
        z.add_(1)
        return x + z

    with (
        served("ProbePairFwdOp", lambda *specs: kernel) as op,
        pytest.raises(BackendError, match="wrote into z"),
    ):
        op(small(), small())


def test_what_is_written_may_be_and_what_is_read_may_not(purity):
    def kernel(state, x):
        state.add_(x)
        x.zero_()

    with (
        served("AccumulateFwdOp", lambda *specs: kernel) as op,
        pytest.raises(BackendError, match="wrote into x"),
    ):
        op(torch.zeros(3, 4), small())


@pytest.mark.parametrize("warm", [False, True])
def test_a_kernel_that_hands_out_one_buffer_twice_is_named(warm):
    """Peer fault 10"""
    with served(build=lambda x: faulty.ReusesItsBuffer()) as op:
        if warm:
            op(small())
        with checks(purity=True):
            first = op(small())
            with pytest.raises(BackendError, match=r"memory.*earlier result"):
                op(small())
        assert first.shape == (3, 4)


def test_a_buffer_that_a_kernel_keeps_is_caught_though_the_caller_dropped_it(purity):
    with served(build=lambda x: faulty.ReusesItsBuffer()) as op:
        op(small())
        with pytest.raises(BackendError, match="earlier result"):
            op(small())


def test_memory_that_was_given_back_may_be_handed_out_again(purity):
    with served() as op:
        for _ in range(50):
            op(small())


def test_results_that_live_on_do_not_disturb_each_other(purity):
    with served() as op:
        results = [op(small()) for _ in range(20)]
    assert all(torch.equal(r, small() * 2) for r in results)


def test_two_instances_may_share_a_kernel_that_makes_new_results(purity):
    with target(lambda x: good):
        cls = op_class("ProbeFwdOp")
        kept = [cls(target="acme")(small()) for _ in range(5)]
    assert len({r.data_ptr() for r in kept}) == 5


@pytest.mark.parametrize("x", LAYOUTS)
def test_any_layout_can_be_watched(purity, x):
    with served() as op:
        assert torch.equal(op(x), x * 2)
    assert torch.equal(ReLUFwdOp()(x), torch.relu(x))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64, torch.bfloat16], ids=str)
def test_any_dtype_can_be_watched(purity, dtype):
    x = torch.ones(3, 4).to(dtype)
    assert torch.equal(AddFwdOp()(x, x), x + x)


def test_not_a_number_is_no_change(purity):
    x = torch.full((3, 4), float("nan"))
    assert SoftmaxFwdOp(dim=-1)(x).isnan().all()


def test_a_tensor_without_axes_can_be_watched(purity):
    assert GELUFwdOp()(torch.tensor(0.0)).item() == 0


def test_an_empty_call_can_be_watched(purity):
    assert GELUFwdOp()(torch.ones(0, 3)).shape == (0, 3)


def test_a_read_input_that_is_the_written_view_changes_by_right(purity):
    with served("AccumulateFwdOp") as op:
        x = small()
        op(x, x)
        assert torch.equal(x, small() * 2)


def test_an_input_that_is_out_changes_by_right(purity):
    with served("BufferFwdOp") as op:
        x = small()
        assert op(x, out=x) is x
        assert torch.equal(x, small() * 2)


def test_in_place_calls_pass(purity):
    x = small() - 5
    assert ReLUFwdOp(inplace=True)(x) is x


def test_a_call_under_autograd_can_be_watched(purity):
    with (
        served(build=lambda x: faulty.writes_its_input) as op,
        pytest.raises(BackendError, match="wrote into x"),
    ):
        op(small().requires_grad_())


def test_calls_outside_are_not_watched():
    with served(build=lambda x: faulty.ReusesItsBuffer()) as op:
        with checks(purity=True):
            op(small())
        op(small())
        op(small())


def test_a_watched_call_keeps_no_route_that_others_would_hit():
    switch = Switch(good)
    with served(build=switch.build) as op:
        with checks(purity=True):
            op(small())
        op(small())
        op(small())
    assert switch.builds == 1


def test_watched_calls_build_once():
    switch = Switch(good)
    with served(build=switch.build) as op, checks(purity=True):
        for _ in range(5):
            op(small())
    assert switch.builds == 1


def test_watched_calls_are_recorded():
    op = LayerNormFwdOp((4,))
    with checks(purity=True):
        op(small())
    assert op.last_call.tensors["input"][0] == (3, 4)


def test_other_threads_are_not_watched():
    watching, done = threading.Event(), threading.Event()
    with served(build=lambda x: faulty.ReusesItsBuffer()) as op:
        op(small())

        def watch():
            with checks(purity=True):
                watching.set()
                assert done.wait(30)

        def call():
            assert watching.wait(30)
            try:
                return [op(small()) for _ in range(10)]
            finally:
                done.set()

        outcomes = in_threads(watch, call)
    assert [o.error for o in outcomes] == [None, None]


def test_checks_nest_and_end():
    before = checking.active()
    with checks(purity=True):
        with checks(metadata=True):
            assert checking.active() == checking.Checks(metadata=True, purity=True)
        assert checking.active() == checking.Checks(purity=True)
    assert checking.active() == before
    assert checking.WATCHING == []


def test_checks_end_with_an_exception_too():
    with pytest.raises(ValueError, match="inside"), checks(purity=True):
        raise ValueError("inside")
    assert checking.WATCHING == []
    assert checking.active() == checking.Checks()


def test_checks_end_in_any_order():
    """Those of an event loop's tasks do."""
    first, second = checks(purity=True), checks(metadata=True)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert checking.active() == checking.Checks(metadata=True)
    second.__exit__(None, None, None)
    assert checking.active() == checking.Checks()
    assert checking.WATCHING == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_checks_for_its_own_thread_only():
    """What other threads of the parent checked keeps no call of the child from its route."""
    ready, leave = threading.Event(), threading.Event()

    def other():
        with checks(purity=True):
            ready.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert ready.wait(30)
    with checks(purity=True):
        child = os.fork()
        if child == 0:
            os._exit(0 if set(checking.WATCHING) == {threading.get_ident()} else 1)
    leave.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_metadata_checks_alone_leave_calls_right():
    with served() as op, checks(metadata=True):
        for _ in range(3):
            assert torch.equal(op(small()), small() * 2)
