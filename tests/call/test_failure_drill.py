"""Each step of a call fails in each way, in one thread and in sixteen; then a good call follows.

After a failure a record is what it was. If the call selected who serves, that is undone with all
that was built, down to the sub-ops that were selected inside it; if an earlier call did, all stays.
Of several first callers that share a selection, one success keeps it for all.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack

import composites
import pytest
import torch
from call_support import in_threads, small, target

from tileops_core.call.binding import UNBOUND
from tileops_core.call.checking import WATCHING
from tileops_core.call.frames import FRAMES
from tileops_core.errors import AmbiguousTargetError, BackendError, SignatureError, TileOpsError
from tileops_core.ops import ReLUFwdOp

THREADS = 16
FACTORS = {"probe": 2, "twice": 4, "nest": 8}
ERRORS = [ValueError, MemoryError, KeyboardInterrupt, SystemExit]


class Drill:
    """One op whose calls fail where they are told to, in the threads that are told to.

    Attributes:
        op: the instance.
        factor: what it multiplies by.
        error: what its calls fail with.
    """

    def __init__(self, kind, step, error, stack):
        self.classes = composites.ops()
        self.here = threading.local()
        self.factor = FACTORS[kind]
        self.error = error
        self.step = step
        self.bad_input = False
        getattr(self, f"_{step}")(error, stack)
        self.op = getattr(self.classes, kind)()

    @property
    def failing(self):
        return getattr(self.here, "failing", False)

    def raise_(self, error):
        if self.failing:
            raise error("in the drill")

    # -- the steps ------------------------------------------------------------------------

    def _checks(self, error, stack):
        self.error, self.bad_input = SignatureError, True

    def _detection(self, error, stack):
        """Two targets claim the device; or one's detector is interrupted."""
        if error is KeyboardInterrupt:
            detect = lambda device: self.raise_(error) or False  # noqa: E731
        else:
            self.error, detect = AmbiguousTargetError, lambda device: self.failing
        for name in ("one", "two"):
            stack.enter_context(target(name=name, detect=detect))

    def _build(self, error, stack):
        self.classes.does.build = lambda: self.raise_(error)

    def _kernel(self, error, stack):
        def kernel(x):
            self.raise_(error)
            return x * 2

        self.classes.does.kernel = kernel

    def _last_kernel(self, error, stack):
        """The last sub-op's, when the others have completed their calls."""
        last = self.factor.bit_length() - 1

        def kernel(x):
            self.here.kernels = getattr(self.here, "kernels", 0) + 1
            if self.here.kernels == last:
                self.raise_(error)
            return x * 2

        self.classes.does.kernel = kernel

    def _result(self, error, stack):
        self.error = BackendError
        self.classes.does.kernel = lambda x: x if self.failing else x * 2

    def _body_before(self, error, stack):
        self.classes.does.between = lambda op, x: self.raise_(error) or x

    def _body_after(self, error, stack):
        self.classes.does.after = lambda op, x: self.raise_(error) or x

    def _sub_op_checks(self, error, stack):
        self.error = SignatureError
        self.classes.does.between = lambda op, x: x.long() if self.failing else x

    def _composite_result(self, error, stack):
        self.error = BackendError
        self.classes.does.after = lambda op, x: x[0] if self.failing else x

    def _stray(self, error, stack):
        """The body calls an op that it does not hold."""
        self.error = TileOpsError
        other = ReLUFwdOp()
        self.classes.does.after = lambda op, x: other(x) if self.failing else x

    # -- calls and what they leave --------------------------------------------------------

    def call(self, *, fails, shape=(3, 4)):
        """Call in this thread; whether it failed as it should, or gave what it should."""
        self.here.failing, self.here.kernels = fails, 0
        x = small(*shape)
        try:
            result = self.op(x.long() if fails and self.bad_input else x)
        except self.error:
            return fails
        finally:
            self.here.failing = False
        return not fails and torch.equal(result, x * self.factor)

    def ops(self):
        """The op, and its sub-ops at every depth that it holds so far."""
        found = [self.op]
        for op in found:
            found += op.held_delegates()
        return found

    def state(self):
        """All that a failure must leave alone."""
        return [
            (op, op._binding, dict(op._running.last), tuple(op.iter_kernels())) for op in self.ops()
        ]

    def is_untouched(self):
        return all(op._binding is UNBOUND and op.serving_target is None for op in self.ops())

    def check_quiet(self):
        """Nothing of a call in progress is left."""
        assert (FRAMES, WATCHING) == ({}, [])
        for op in self.ops():
            assert op._running.candidate is None
            assert op._running.entered == {}
            assert op._binding.settled
            assert (op._binding.claims, op._binding.inside) == (0, {}) or op._binding is UNBOUND


LEAF = ["checks", "detection", "build", "kernel", "result"]
BODY = ["last_kernel", "body_before", "body_after", "sub_op_checks", "composite_result", "stray"]
OF_ANY_KIND = ["build", "kernel", "last_kernel", "body_before", "body_after"]
DRILLS = [
    (kind, step, error)
    for kind in FACTORS
    for step in [*LEAF, *(BODY if kind != "probe" else [])]
    for error in (ERRORS if step in OF_ANY_KIND else [ValueError])
]
DRILLS += [(kind, "detection", KeyboardInterrupt) for kind in FACTORS]
each = pytest.mark.parametrize(
    ("kind", "step", "error"), DRILLS, ids=lambda value: getattr(value, "__name__", value)
)


@pytest.fixture
def drill(kind, step, error):
    with ExitStack() as stack:
        yield Drill(kind, step, error, stack)


@each
def test_a_failing_first_call_leaves_nothing(drill):
    for _ in range(2):
        assert drill.call(fails=True)
        drill.check_quiet()
        assert drill.is_untouched()
        with pytest.raises(RuntimeError, match="no call"):
            drill.op.last_call  # noqa: B018
    assert drill.call(fails=False)
    drill.check_quiet()
    assert not any(op._binding is UNBOUND for op in drill.ops())


@each
@pytest.mark.parametrize("shape", [(3, 4), (2, 5)], ids=["known route", "new route"])
def test_a_failing_later_call_leaves_all_as_it_was(drill, shape):
    assert drill.call(fails=False)
    before = drill.state()
    if drill.step in ("build", "detection"):
        # Everything is built and selected: there is nothing left to fail.
        assert drill.call(fails=True) is False
    else:
        assert drill.call(fails=True, shape=shape)
        drill.check_quiet()
        for (op, binding, last, kernels), then in zip(drill.state(), before, strict=True):
            assert (op, binding, kernels) == (then[0], then[1], then[3])
            if op is drill.op:
                assert last == then[2]
    assert drill.call(fails=False, shape=shape)
    drill.check_quiet()


@each
def test_sixteen_failing_first_callers_leave_nothing(drill):
    outcomes = in_threads(*[lambda: drill.call(fails=True)] * THREADS)
    assert [o.result for o in outcomes] == [True] * THREADS, outcomes
    drill.check_quiet()
    assert drill.is_untouched()
    assert drill.call(fails=False)
    drill.check_quiet()


@each
@pytest.mark.parametrize("good", [1, 8])
def test_of_sixteen_first_callers_one_success_keeps_the_selection(drill, good):
    calls = [lambda n=n: drill.call(fails=n >= good) for n in range(THREADS)]
    outcomes = in_threads(*calls)
    if drill.step in ("build", "detection"):
        # Whoever comes after a success finds everything built and selected.
        wrong = [o for o in outcomes if o.error is not None]
        assert wrong == []
        assert all(o.result for o in outcomes[:good])
    else:
        assert [o.result for o in outcomes] == [True] * THREADS, outcomes
    drill.check_quiet()
    assert not any(op._binding is UNBOUND for op in drill.ops())
    assert drill.op.last_call.tensors["x"] == ((3, 4), torch.float32)
    before = drill.state()
    assert drill.call(fails=False)
    assert [s[:2] for s in drill.state()] == [s[:2] for s in before]


@each
def test_sixteen_later_callers_half_of_which_fail_leave_all_as_it_was(drill):
    assert drill.call(fails=False)
    before = [(op, op._binding) for op in drill.ops()]
    calls = [lambda n=n: drill.call(fails=bool(n % 2)) for n in range(THREADS)]
    outcomes = in_threads(*calls)
    expected = [not (n % 2 and drill.step in ("build", "detection")) for n in range(THREADS)]
    assert [o.result for o in outcomes] == expected, outcomes
    drill.check_quiet()
    assert [(op, op._binding) for op in drill.ops()] == before
