"""One instance, many threads: first calls share a candidate, each kernel is built once."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

import pytest
import torch
from call_support import faulty, good, in_threads, op_class, served, small, target

from tileops_core.backend import BuilderRegistration, TargetRegistration, registered
from tileops_core.backend.targets import BUILTIN
from tileops_core.call import binding
from tileops_core.call.binding import UNBOUND
from tileops_core.errors import BackendError, SignatureError
from tileops_core.ops import ReLUFwdOp, RMSNormFwdOp


class Gate:
    """A kernel that stops inside until it is let go, then fails or succeeds."""

    def __init__(self, *fails):
        self.fails = fails
        self.inside = {}
        self.go = {}
        self.lock = threading.Lock()

    def at(self, rows):
        """The events of the calls with this many rows: inside, and go on."""
        with self.lock:
            inside = self.inside.setdefault(rows, threading.Event())
            return inside, self.go.setdefault(rows, threading.Event())

    def __call__(self, x):
        inside, go = self.at(x.shape[0])
        inside.set()
        assert go.wait(30)
        if x.shape[0] in self.fails:
            raise ValueError(f"no {x.shape[0]} rows")
        return good(x)


def start(function):
    """Run a function in a thread; returns the thread and where its outcome will be."""
    outcome = []

    def run():
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def finish(*threads):
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def held_in(gate, op, rows):
    """A call in another thread that now stands inside the kernel."""
    started = start(lambda: op(small(rows, 4)))
    inside, _ = gate.at(rows)
    assert inside.wait(30)
    return started


def test_a_failing_first_caller_does_not_disturb_one_that_is_under_way():
    """Peer fault 4"""
    gate = Gate(1)
    with served(build=lambda x: gate) as op:
        failing, failed = held_in(gate, op, 1)
        working, worked = held_in(gate, op, 2)
        gate.at(1)[1].set()
        finish(failing)
        assert isinstance(failed[0], ValueError)
        assert op.serving_target is None
        gate.at(2)[1].set()
        finish(working)
        assert torch.equal(worked[0], small(2, 4) * 2)
        assert op.serving_target == "acme"
        assert torch.equal(op(small(2, 4)), small(2, 4) * 2)


def test_a_first_caller_that_fails_after_another_succeeded_leaves_the_binding():
    """Peer fault 4"""
    gate, builds = Gate(1), Counter()

    def build(x):
        builds[x.shape] += 1
        return gate

    with served(build=build) as op:
        failing, failed = held_in(gate, op, 1)
        gate.at(2)[1].set()
        op(small(2, 4))
        binding = op._binding
        gate.at(1)[1].set()
        finish(failing)
        assert isinstance(failed[0], ValueError)
        assert op._binding is binding
        op(small(2, 4))
        assert builds[2, 4] == 1


def test_the_last_of_several_failing_first_callers_drops_their_candidate():
    gate = Gate(1, 2, 3)
    with served(build=lambda x: gate) as op:
        threads = [held_in(gate, op, rows) for rows in (1, 2, 3)]
        assert op._running.candidate.users == 3
        for rows in (2, 1, 3):
            gate.at(rows)[1].set()
        finish(*(thread for thread, _ in threads))
        assert all(isinstance(outcome[0], ValueError) for _, outcome in threads)
        assert op._binding is UNBOUND
        assert op._running.candidate is None
        assert op._running.entered == {}


def test_a_call_after_a_dropped_candidate_decides_anew():
    gate = Gate(1)
    with served(build=lambda x: gate) as op:
        thread, _ = held_in(gate, op, 1)
        first = op._running.candidate
        gate.at(1)[1].set()
        finish(thread)
        gate.at(2)[1].set()
        op(small(2, 4))
        assert op._binding is not first


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit], ids=lambda e: e.__name__)
def test_an_interrupted_first_caller_does_not_disturb_another(error):
    inside, go = threading.Event(), threading.Event()

    def kernel(x):
        if x.shape[0] == 1:
            raise error
        inside.set()
        assert go.wait(30)
        return good(x)

    with served(build=lambda x: kernel) as op:
        working, worked = start(lambda: op(small()))
        assert inside.wait(30)
        with pytest.raises(error):
            op(small(1, 4))
        go.set()
        finish(working)
        assert torch.equal(worked[0], small() * 2)
        assert op.serving_target == "acme"


def test_first_callers_of_one_shape_build_once():
    """PIPE-16"""
    slow = faulty.SlowBuilder()
    with served(build=slow) as op:
        threading.Timer(0.05, slow.let_go.set).start()
        outcomes = in_threads(*[lambda: op(small())] * 8)
    assert all(torch.equal(o.result, small() * 2) for o in outcomes)
    assert slow.counts == {(3, 4): 1}


def test_first_callers_of_different_shapes_build_once_each():
    """PIPE-16"""
    slow = faulty.SlowBuilder()
    shapes = [(rows, 4) for rows in (1, 2, 3, 4)] * 2
    with served(build=slow) as op:
        threading.Timer(0.05, slow.let_go.set).start()
        outcomes = in_threads(*[lambda s=s: op(small(*s)) for s in shapes])
    for shape, outcome in zip(shapes, outcomes, strict=True):
        assert torch.equal(outcome.result, small(*shape) * 2)
    assert slow.counts == dict.fromkeys(shapes, 1)


def test_first_callers_select_once():
    asked = []

    def detect(device):
        asked.append(device)
        return True

    with target(detect=detect):
        op = op_class("ProbeFwdOp")()
        outcomes = in_threads(*[lambda: op(small())] * 8)
    assert all(o.error is None for o in outcomes)
    assert len(asked) == 1


def test_a_build_that_fails_is_tried_again_by_those_who_waited_for_it():
    slow = faulty.SlowBuilder(OSError("no compiler"))
    with served(build=slow) as op:
        threading.Timer(0.05, slow.let_go.set).start()
        outcomes = in_threads(*[lambda: op(small())] * 4)
    errors = [o.error for o in outcomes if o.error is not None]
    assert [type(e) for e in errors] == [OSError]
    assert slow.count == 2
    assert op.serving_target == "acme"


def test_first_callers_in_tree_build_once():
    built = []

    def factory():
        built.append(1)
        return kernel_type()

    interfaces, kernel_type = faulty.in_tree(factory=factory)
    op = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )()
    outcomes = in_threads(*[lambda n=n: op(small(n % 3 + 1, 4)) for n in range(8)])
    for n, outcome in enumerate(outcomes):
        assert torch.equal(outcome.result, small(n % 3 + 1, 4) * 2)
    assert built == [1]


def test_a_waiting_first_caller_does_not_hold_up_a_known_route():
    gate = Gate()
    with served(build=lambda x: gate) as op:
        gate.at(2)[1].set()
        op(small(2, 4))
        waiting, _ = held_in(gate, op, 1)
        assert torch.equal(op(small(2, 4)), small(2, 4) * 2)
        gate.at(1)[1].set()
        finish(waiting)


def test_a_failing_call_of_one_thread_leaves_the_others_right():
    with served() as op:

        def bad():
            for _ in range(50):
                with pytest.raises(SignatureError):
                    op(torch.ones(3))

        def fine(rows):
            for _ in range(50):
                assert torch.equal(op(small(rows, 4)), small(rows, 4) * 2)

        outcomes = in_threads(bad, bad, *[lambda n=n: fine(n) for n in range(1, 7)])
    assert [o.error for o in outcomes] == [None] * 8


def test_a_faulty_kernel_for_one_shape_leaves_the_others_right():
    def kernel(x):
        return None if x.shape[0] == 1 else good(x)

    with served(build=lambda x: kernel) as op:

        def bad():
            for _ in range(50):
                with pytest.raises(BackendError):
                    op(small(1, 4))

        def fine(rows):
            for _ in range(50):
                assert torch.equal(op(small(rows, 4)), small(rows, 4) * 2)

        outcomes = in_threads(bad, bad, *[lambda n=n: fine(n) for n in range(2, 8)])
    assert [o.error for o in outcomes] == [None] * 8
    assert op.serving_target == "acme"


def test_many_shapes_from_many_threads_are_right():
    op = RMSNormFwdOp((4,))

    def work(seed):
        for i in range(60):
            rows = (seed * 7 + i) % 20 + 1
            x = torch.full((rows, 4), 2.0)
            torch.testing.assert_close(op(x, torch.ones(4)), torch.ones(rows, 4))
            assert op.last_call.tensors["x"][0] == (rows, 4)

    outcomes = in_threads(*[lambda n=n: work(n) for n in range(8)])
    assert [o.error for o in outcomes] == [None] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_first_calls_even_if_a_thread_held_the_lock():
    held, release = threading.Event(), threading.Event()

    def hold():
        with binding._LOCK:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    child = os.fork()
    if child == 0:
        # No pytest below: the child only says by its status whether the call came back.
        signal.alarm(20)
        same = torch.equal(ReLUFwdOp()(torch.ones(2)), torch.ones(2))
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    release.set()
    thread.join()
    assert status == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_its_parents_choice():
    inside, release = threading.Event(), threading.Event()

    def detect(device):
        if threading.current_thread() is thread:
            inside.set()
            release.wait(30)
        return False

    op = ReLUFwdOp()
    builder = BuilderRegistration("ReLUFwdOp", "slow", good)
    with registered(TargetRegistration("slow", detect), builder):
        thread = threading.Thread(target=lambda: op(torch.ones(2)))
        thread.start()
        inside.wait(30)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            same = torch.equal(op(torch.ones(2)), torch.ones(2))
            os._exit(0 if same and op.serving_target is BUILTIN else 1)
        _, status = os.waitpid(child, 0)
        release.set()
        thread.join()
    assert status == 0
    assert op.serving_target is BUILTIN
