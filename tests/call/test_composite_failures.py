"""What a failing call of a composite op leaves behind, at every depth and in many threads."""

from __future__ import annotations

import threading

import composites
import pytest
from call_support import in_threads, small

from tileops_core import BUILTIN
from tileops_core.call.binding import UNBOUND
from tileops_core.call.checking import WATCHING
from tileops_core.call.frames import FRAMES
from tileops_core.errors import BackendError


class Failed(Exception):
    """What fails here."""


@pytest.fixture(autouse=True)
def nothing_stays():
    """No frame and no watcher is left behind by any of these calls."""
    yield
    assert FRAMES == {}
    assert WATCHING == []


def raising(error):
    def fail(*arguments):
        raise error

    return fail


def bound(op):
    """Which of a nest's ops are bound: the nest, its twice, the twice's two probes, the last."""
    held = {o: o.held_delegates() for o in (op, *op.held_delegates())}
    inner, *last = held[op] or (None,)
    ops = (op, *((inner, *held[inner]) if inner is not None else ()), *last)
    return [o.serving_target is not None for o in ops]


ERRORS = [ValueError, KeyboardInterrupt, SystemExit, MemoryError]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_a_failing_first_call_takes_back_what_it_selected_at_every_depth(error):
    classes = composites.ops()
    op = classes.nest()
    classes.does.after = raising(error)
    with pytest.raises(error):
        op(small())
    assert not any(bound(op))
    for o in (op, *op.held_delegates()):
        with pytest.raises(RuntimeError, match="no call"):
            o.last_call  # noqa: B018
    assert all(o._binding is UNBOUND for o in op.held_delegates()[0].held_delegates())
    classes.does.after = lambda self, x: x
    assert op(small()).equal(small() * 8)
    assert all(bound(op))
    assert classes.does.builds == 2 + 3


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_a_later_failing_call_takes_nothing_back(error):
    classes = composites.ops()
    op = classes.nest()
    op(small())
    before, builds = op.last_call, classes.does.builds
    for shape in ((3, 4), (2, 2)):
        classes.does.after = raising(error)
        with pytest.raises(error):
            op(small(*shape))
        assert all(bound(op))
        assert op.last_call is before
    classes.does.after = lambda self, x: x
    assert op(small(2, 2)).equal(small(2, 2) * 8)
    assert classes.does.builds == builds


def test_a_sub_op_that_an_earlier_call_selected_stays():
    classes = composites.ops()
    op, given = classes.twice(), classes.probe()
    op.delegate_for("first", (), given)
    given(small())
    binding = given._binding
    classes.does.after = raising(Failed)
    with pytest.raises(Failed):
        op(small())
    assert given._binding is binding
    assert op.delegate_for("second", ())._binding is UNBOUND


def test_a_failure_in_a_bound_composite_keeps_what_a_new_sub_op_selected():
    """The target was selected by an earlier call, so target, kernels and sub-ops stay."""
    classes = composites.ops()
    op = classes.twice()
    op(small())

    def between(self, x):
        self.delegate_for("first", "new")(x)
        raise Failed

    classes.does.between = between
    with pytest.raises(Failed):
        op(small())
    assert op.delegate_for("first", "new").serving_target is BUILTIN


def test_a_sub_composite_that_failed_alone_is_taken_back_alone():
    classes = composites.ops()

    def forward(self, x):
        classes.does.after = raising(Failed)
        with pytest.raises(Failed):
            self.delegate_for("inner", ())(x)
        return self.delegate_for("last", ())(x)

    classes.nest.forward = forward
    op = classes.nest()
    op(small())
    assert bound(op) == [True, False, False, False, True]


def test_a_sub_op_that_another_thread_used_meanwhile_stays():
    classes = composites.ops()
    op, given = classes.twice(), classes.probe()
    op.delegate_for("first", (), given)

    def between(self, x):
        (outcome,) = in_threads(lambda: given(small()))
        assert outcome.error is None
        raise Failed

    classes.does.between = between
    with pytest.raises(Failed):
        op(small())
    assert given.serving_target is BUILTIN
    assert given(small()).equal(small() * 2)


def test_a_sub_op_that_another_thread_is_using_stays():
    classes = composites.ops()
    op, given = classes.twice(), classes.probe()
    op.delegate_for("first", (), given)
    inside, leave = threading.Event(), threading.Event()

    def kernel(x):
        if x.shape == (1, 1):
            inside.set()
            assert leave.wait(30)
        return x * 2

    classes.does.kernel = kernel
    threads = []

    def between(self, x):
        given(small(1, 2))  # the other thread's route will be known but for its shape
        threads.append(threading.Thread(target=given, args=(small(1, 1),)))
        threads[0].start()
        assert inside.wait(30)
        raise Failed

    classes.does.between = between
    with pytest.raises(Failed):
        op(small())
    assert given.serving_target is BUILTIN
    leave.set()
    threads[0].join(30)
    assert given.serving_target is BUILTIN
    assert given._binding.settled


def test_a_sub_op_that_another_threads_failing_call_used_goes_in_the_end():
    classes = composites.ops()
    op, given = classes.twice(), classes.probe()
    op.delegate_for("first", (), given)

    def kernel(x):
        if x.shape == (1, 1):
            raise Failed
        return x * 2

    def between(self, x):
        (outcome,) = in_threads(lambda: given(small(1, 1)))
        assert isinstance(outcome.error, Failed)
        assert given.serving_target is BUILTIN
        raise Failed

    classes.does.kernel, classes.does.between = kernel, between
    with pytest.raises(Failed):
        op(small())
    assert given._binding is UNBOUND


def test_two_composites_may_select_one_sub_op():
    """The one that fails takes nothing back that the other one's success relies on."""
    classes = composites.ops()
    one, two, given = classes.twice(), classes.twice(), classes.probe()
    for op in (one, two):
        op.delegate_for("first", (), given)
    done = threading.Event()

    def between(self, x):
        if self is one:
            (outcome,) = in_threads(lambda: two(small()))
            assert outcome.error is None
            done.set()
            raise Failed
        return x

    classes.does.between = between
    with pytest.raises(Failed):
        one(small())
    assert done.is_set()
    assert given.serving_target is BUILTIN
    assert one.delegate_for("second", ()).serving_target is None
    assert two.delegate_for("second", ()).serving_target is BUILTIN


def test_a_wrong_result_of_a_composite_takes_back_what_it_selected():
    classes = composites.ops()
    classes.does.after = lambda self, x: x[0]
    op = classes.nest()
    with pytest.raises(BackendError, match="shape"):
        op(small())
    assert not any(bound(op))


@pytest.mark.parametrize("fails", [1, 7, 15, 16])
def test_first_callers_of_a_composite_share_its_candidate(fails):
    """Of sixteen, some fail: what the others selected stays, and only if all fail nothing does."""
    classes = composites.ops()
    op = classes.nest()
    failing = threading.local()

    def after(self, x):
        if getattr(failing, "here", False):
            raise Failed
        return x

    classes.does.after = after

    def call(number):
        def run():
            failing.here = number < fails
            return op(small())

        return run

    outcomes = in_threads(*map(call, range(16)))
    assert [isinstance(o.error, Failed) for o in outcomes] == [n < fails for n in range(16)]
    assert all(o.result.equal(small() * 8) for o in outcomes[fails:])
    if fails == 16:
        assert not any(bound(op))
        classes.does.after = lambda self, x: x
        assert op(small()).equal(small() * 8)
    assert all(bound(op))
    assert all(o._binding.settled for o in (op, *op.held_delegates()))
    assert op._running.candidate is None
    assert op._running.entered == {}
