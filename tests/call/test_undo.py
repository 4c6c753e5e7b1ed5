"""What a call that fails leaves behind: nothing, unless somebody succeeded before."""

from __future__ import annotations

import gc
import linecache
import sys
import tracemalloc

import pytest
import torch
from call_support import Switch, faulty, good, op_class, served, small, target

from tileops_core import default_target
from tileops_core.backend import BuilderRegistration, TargetRegistration, registered
from tileops_core.call import binding, pipeline
from tileops_core.call.binding import UNBOUND
from tileops_core.errors import AmbiguousTargetError, BackendError, SignatureError
from tileops_core.ops import GELUFwdOp, RMSNormFwdOp


def raising(kind, *text):
    def does(*tensors, **named):
        raise kind(*text)

    return does


INTERRUPTS = [KeyboardInterrupt, SystemExit, ValueError, MemoryError]


def is_untouched(op):
    """Whether an instance looks as after its construction."""
    with pytest.raises(RuntimeError, match="no call"):
        op.last_call  # noqa: B018
    return (
        op._binding is UNBOUND
        and op.serving_target is None
        and op._running.candidate is None
        and not op._running.entered
    )


def test_the_shared_unbound_state_is_never_written_to():
    with served() as op:
        op(small())
        for shape in ((1, 2), (2, 1)):
            op(small(*shape))
    assert (UNBOUND.target, UNBOUND.builder, UNBOUND.users) == (None, None, 0)
    assert len(UNBOUND) == len(UNBOUND.built_entries) == len(UNBOUND.target_kernels) == 0
    assert len(UNBOUND.entries_by_call) == 0


# -- the first call fails ---------------------------------------------------------------------


def test_after_failed_checks():
    with served() as op:
        with pytest.raises(SignatureError):
            op(torch.ones(3))
        assert is_untouched(op)
        assert torch.equal(op(small()), small() * 2)


def test_after_a_failed_selection():
    claims = TargetRegistration("one", lambda d: True), TargetRegistration("two", lambda d: True)
    builders = [BuilderRegistration("ProbeFwdOp", t.name, lambda x: good) for t in claims]
    with registered(*claims, *builders):
        op = op_class("ProbeFwdOp")()
        with pytest.raises(AmbiguousTargetError):
            op(small())
        assert is_untouched(op)
        with default_target("two"):
            assert torch.equal(op(small()), small() * 2)


@pytest.mark.parametrize("error", INTERRUPTS, ids=lambda e: e.__name__)
def test_after_a_failed_build(error):
    """DIS-01: the next call builds again and succeeds."""
    switch = Switch(good)
    build = [raising(error), switch.build]
    with target(lambda *specs: build.pop(0)(*specs)):
        op = op_class("ProbeFwdOp")(target="acme")
        with pytest.raises(error):
            op(small())
        assert is_untouched(op)
        assert torch.equal(op(small()), small() * 2)
    assert (build, switch.builds) == ([], 1)


@pytest.mark.parametrize("error", INTERRUPTS, ids=lambda e: e.__name__)
def test_after_a_failed_kernel(error):
    """Peer fault 5: an interrupt is undone like anything else."""
    switch = Switch(raising(error))
    with served(build=switch.build) as op:
        with pytest.raises(error):
            op(small())
        assert is_untouched(op)
        switch.does = good
        assert torch.equal(op(small()), small() * 2)
    assert switch.builds == 2


def test_after_a_wrong_result():
    switch = Switch(lambda x: x.sum())
    with served(build=switch.build) as op:
        with pytest.raises(BackendError):
            op(small())
        assert is_untouched(op)
        switch.does = good
        assert torch.equal(op(small()), small() * 2)
    assert switch.builds == 2


def test_another_target_may_be_chosen_after_a_failure():
    """DIS-01: the target is decided anew."""
    broken = Switch(raising(ValueError, "no"))
    with target(broken.build, name="broken"), target(name="fine"):
        op = op_class("ProbeFwdOp")()
        with default_target("broken"), pytest.raises(ValueError, match="no"):
            op(small())
        with default_target("fine"):
            assert torch.equal(op(small()), small() * 2)
        assert op.serving_target == "fine"
        assert torch.equal(op(small()), small() * 2)


@pytest.mark.parametrize("error", INTERRUPTS, ids=lambda e: e.__name__)
@pytest.mark.parametrize("fails", ["build", "kernel"])
def test_after_a_failed_first_call_in_tree(fails, error):
    wrong = [True]

    def does(x):
        return raising(error)(x) if wrong else good(x)

    def factory():
        if wrong and fails == "build":
            raise error
        return kernel_type()

    interfaces, kernel_type = faulty.in_tree(does, factory=factory)
    op = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )()
    with pytest.raises(error):
        op(small())
    assert is_untouched(op)
    wrong.clear()
    assert torch.equal(op(small()), small() * 2)


def test_after_a_failed_body():
    """A body that got a kernel and then failed has chosen nothing."""
    interfaces, kernel_type = faulty.in_tree()
    wrong = [True]

    def forward(self, x):
        kernel = self.kernel_for("probe", interfaces["probe"].request(x.device, x.dtype, (1,)))
        if wrong:
            raise ValueError("no")
        return kernel(x)

    op = op_class(
        "ProbeFwdOp", interfaces=interfaces, kernel_types={"only": kernel_type}, forward=forward
    )()
    with pytest.raises(ValueError, match="no"):
        op(small())
    assert is_untouched(op)
    wrong.clear()
    assert torch.equal(op(small()), small() * 2)


# -- a later call fails -----------------------------------------------------------------------


@pytest.mark.parametrize("error", INTERRUPTS, ids=lambda e: e.__name__)
@pytest.mark.parametrize("shape", [(3, 4), (2, 5)], ids=["known route", "new shape"])
def test_a_later_failure_keeps_target_kernels_and_record(shape, error):
    switch = Switch(good)
    with served(build=switch.build) as op:
        op(small())
        binding, record = op._binding, op.last_call
        switch.does = raising(error)
        with pytest.raises(error):
            op(small(*shape))
        assert op._binding is binding
        assert op.last_call is record
        assert op._running.entered == {}
        gc.collect()
        assert len(binding.target_kernels) == 1
        switch.does = good
        assert torch.equal(op(small()), small() * 2)
        assert switch.builds == 1 + (shape != (3, 4))


def test_a_later_failed_check_keeps_the_target():
    with served() as op:
        op(small())
        for bad in (torch.ones(3), small().to_sparse(), None, small().double()):
            with pytest.raises(SignatureError):
                op(bad)
        assert op.serving_target == "acme"
        assert torch.equal(op(small()), small() * 2)


def test_a_failed_build_of_a_new_shape_leaves_no_route():
    switch = Switch(good)
    build = [switch.build]
    with target(lambda *specs: build[0](*specs)):
        op = op_class("ProbeFwdOp")(target="acme")
        op(small())
        build[0] = raising(OSError, "disk full")
        for _ in range(3):
            with pytest.raises(OSError, match="disk full"):
                op(small(5, 5))
        assert (len(op._binding), len(op._binding.target_kernels)) == (1, 1)


def test_what_was_written_before_a_failure_stays_written():
    def kernel(state, x):
        state.add_(x)
        raise ValueError("later")

    with served("AccumulateFwdOp", lambda *specs: kernel) as op:
        state = torch.zeros(3, 4)
        with pytest.raises(ValueError, match="later"):
            op(state, small())
        assert torch.equal(state, small())


# -- memory -----------------------------------------------------------------------------------


def growth(work, times):
    """Bytes that ``times`` repetitions keep, after as many to warm up."""
    for _ in range(200):
        work()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(times):
        work()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before


class Interrupter:
    """Interrupts a call at the n-th line of the code that begins, decides and ends it.

    Not at a ``with``: its line comes again at the end, between the block and the release of the
    lock, where signals are not looked for.
    """

    FILES = (pipeline.__file__, binding.__file__)

    def __init__(self, n):
        self.n = n
        self.interrupted = False

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename not in self.FILES:
            return None
        if event == "line" and not self.interrupted:
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            self.n -= not line.lstrip().startswith("with ")
            if self.n == 0:
                self.interrupted = True
                raise KeyboardInterrupt
        return self


def test_an_interrupt_at_any_line_of_a_first_call_leaves_no_call_in_progress():
    with target(lambda *specs: good):
        for n in range(1, 300):
            op, interrupter = op_class("ProbeFwdOp")(target="acme"), Interrupter(n)
            before = sys.gettrace()
            sys.settrace(interrupter)
            try:
                op(small())
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            assert op._running.entered == {}
            left = op._running.candidate
            assert left is None or left.target is None
            assert torch.equal(op(small()), small() * 2)
            if not interrupter.interrupted:
                break
        assert 50 < n < 299


def test_calls_after_an_interrupt_keep_no_memory():
    """Peer fault 5: 20,000 calls after one are recorded nowhere."""
    switch = Switch(raising(KeyboardInterrupt))
    with served(build=switch.build) as op:
        with pytest.raises(KeyboardInterrupt):
            op(small())
        switch.does = good
        x = small()
        assert growth(lambda: op(x), 20_000) < 20_000


def test_failing_calls_keep_no_memory():
    switch = Switch(good)
    with served(build=switch.build) as op:
        op(small())
        x = small()
        switch.does = raising(ValueError, "no")

        def fail():
            with pytest.raises(ValueError, match="no"):
                op(x)

        assert growth(fail, 500) < 20_000


def test_failing_first_calls_keep_no_memory():
    op = op_class("ProbeFwdOp")()
    x = small()

    def fail():
        with pytest.raises(NotImplementedError):
            op(x)

    assert growth(fail, 200) < 20_000


def test_instances_that_were_called_and_dropped_keep_no_memory():
    x, weight = torch.ones(2, 4), torch.ones(4)
    assert growth(lambda: RMSNormFwdOp((4,))(x, weight), 200) < 20_000


# -- calls inside of calls --------------------------------------------------------------------


def test_a_kernel_may_call_another_op():
    """Peer fault 6: that call is its own affair."""
    inner = GELUFwdOp()
    kernel = faulty.kernel_that_calls(inner)
    with served(build=lambda x: kernel) as op:
        for _ in range(2):
            assert torch.equal(op(small()), small() * 2)
        assert op.last_call.op == "ProbeFwdOp"
        assert inner.last_call.op == "GELUFwdOp"


def test_a_builder_may_call_another_op():
    """Peer fault 6"""
    inner = GELUFwdOp()
    with served(build=faulty.builder_that_calls(inner)) as op:
        assert torch.equal(op(small()), small() * 2)
        assert inner.last_call.tensors["input"][0] == (2, 2)


def test_a_kernel_may_call_its_own_op_at_another_shape():
    def kernel(x):
        return x * 2 if x.shape[0] == 1 else torch.cat([op(x[:1]), op(x[1:])])

    with served(build=lambda x: kernel) as op:
        for _ in range(2):
            assert torch.equal(op(small()), small() * 2)
        assert op.last_call.tensors["x"][0] == (3, 4)
        assert op._running.entered == {}


def test_a_builder_may_call_its_own_op_at_another_shape():
    def build(x):
        if x.shape != (1, 1):
            assert op(torch.ones(1, 1)).item() == 2
        return good

    with served(build=build) as op:
        assert torch.equal(op(small()), small() * 2)
        assert op.serving_target == "acme"


def test_a_failing_inner_call_of_a_kernel_that_goes_on_undoes_nothing_outside():
    inner = GELUFwdOp()

    def kernel(x):
        with pytest.raises(SignatureError):
            inner(x.int())
        return x * 2

    with served(build=lambda x: kernel) as op:
        assert torch.equal(op(small()), small() * 2)
        assert op.serving_target == "acme"
        assert inner.serving_target is None


def test_a_failing_outer_call_leaves_an_inner_ops_binding_alone():
    """Only a composite's sub-ops would be undone with it."""
    inner = GELUFwdOp()

    def kernel(x):
        inner(x)
        raise ValueError("after")

    with served(build=lambda x: kernel) as op:
        with pytest.raises(ValueError, match="after"):
            op(small())
        assert is_untouched(op)
        assert inner.serving_target is not None


def test_a_recursion_without_end_is_undone():
    def kernel(x):
        return op(x)

    with served(build=lambda x: kernel) as op:
        with pytest.raises(RecursionError):
            op(small())
        assert is_untouched(op)
