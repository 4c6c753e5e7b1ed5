"""What of an op has been built, and having it tuned."""

from __future__ import annotations

import threading
import warnings

import attrs
import composites
import faulty
import pytest
import torch
from call_support import Switch, in_threads, op_class, served, small, target

from tileops_core import BUILTIN
from tileops_core.backend import KernelTypeRegistration, registered
from tileops_core.errors import OpNotAvailableError
from tileops_core.kernels import Kernel, tuning
from tileops_core.ops import RMSNormFwdOp


class Spy:
    """A kernel type of ``ProbeFwdOp`` that notes who is asked to be tuned.

    Attributes:
        asked: the kernels, in order.
        op: an op class that it serves.
    """

    def __init__(self, build=None, **declared):
        self.asked = []

        def request_tune(kernel):
            self.asked.append(kernel)

        def entry_for(cls, call):
            return (call.dtype,), build or cls

        declared = {"entry_for": classmethod(entry_for), "request_tune": request_tune, **declared}
        interfaces, self.kernel_type = faulty.in_tree(**declared)
        request = interfaces["probe"].request
        self.op = op_class(
            "ProbeFwdOp",
            interfaces=interfaces,
            kernel_types={"only": self.kernel_type},
            call_spec=lambda self, x: request(x.device, x.dtype, x.shape),
        )


HALF = small(dtype=torch.float16)

# -- enumeration ------------------------------------------------------------------------------


def test_nothing_is_built_before_the_first_call():
    op = Spy().op()
    assert list(op.iter_kernels()) == []
    assert op.built_entries("probe") == {}
    assert op.kernel_config() == {}


def test_entries_are_told_by_kernel_type_and_identity():
    spy = Spy()
    op = spy.op()
    for x in (small(), small(2, 2), HALF):
        op(x)
    built = op.built_entries("probe")
    assert list(built) == [(spy.kernel_type, (d,)) for d in (torch.float32, torch.float16)]
    assert list(op.iter_kernels()) == list(built.values())


def test_one_identity_on_several_device_types_is_told_apart():
    spy = Spy()
    op = spy.op()
    for device in ("cpu", "mps"):
        op.kernel_for("probe", op.interfaces["probe"].request(device, torch.float32, (3, 4)))
    keys = [(spy.kernel_type, (torch.float32,), kind, None) for kind in ("cpu", "mps")]
    assert list(op.built_entries("probe")) == keys


def test_an_interface_that_is_not_there_is_told():
    op = RMSNormFwdOp((4,))
    with pytest.raises(OpNotAvailableError, match=r"'rms_norm_fw' \(did you mean"):
        op.built_entries("rms_norm_fw")


def test_a_targets_kernels_are_told_by_device_dtypes_and_shapes():
    with served("ProbePairFwdOp") as op:
        op(small())
        op(small(2, 2), small(2, 2))
        built = op.built_entries("whatever")
    pair = ((torch.float32, (2, 2)),) * 2
    assert list(built) == [
        (torch.device("cpu"), ((torch.float32, (3, 4)), None)),
        (torch.device("cpu"), pair),
    ]
    assert all(callable(kernel) for kernel in built.values())
    assert list(op.iter_kernels()) == []


def test_a_target_may_build_kernels():
    class Vendor(Kernel):
        forward = staticmethod(faulty._doubled)

    with served(build=lambda x: Vendor()) as op:
        op(small())
        (kernel,) = op.iter_kernels()
    assert type(kernel) is Vendor


def test_kernels_inside_an_entry_are_told_too():
    @attrs.define
    class Entry:
        first: Kernel
        others: list[Kernel]

        def __call__(self, x):
            return self.first(x)

    spy = Spy(build=lambda: Entry(spy.kernel_type(), [spy.kernel_type(), spy.kernel_type()]))
    op = spy.op()
    op(small())
    (entry,) = op.built_entries("probe").values()
    assert list(op.iter_kernels()) == [entry.first, *entry.others]


def test_a_composite_tells_its_sub_ops_kernels_once():
    classes = composites.ops()
    op, shared = classes.twice(), classes.probe()
    op.delegate_for("first", (), shared)
    op(small())
    assert len(list(op.iter_kernels())) == 2
    nest = classes.nest()
    nest(small())
    assert len(list(nest.iter_kernels())) == 3


# -- asking -----------------------------------------------------------------------------------


def test_asking_reaches_what_is_built():
    spy = Spy()
    op = spy.op()
    op(small())
    op(HALF)
    op.request_tune()
    assert spy.asked == list(op.iter_kernels())


def test_asking_reaches_what_is_built_later():
    """DIS-08: of every dtype."""
    spy = Spy()
    op = spy.op()
    op.request_tune()
    assert spy.asked == []
    op(small())
    op(small())
    op(small(2, 2))
    op(HALF)
    assert spy.asked == list(op.iter_kernels())
    assert len(spy.asked) == 2


def test_what_nobody_asked_for_is_not_tuned():
    spy = Spy()
    spy.op()(small())
    assert spy.asked == []


def test_asking_reaches_the_sub_ops_now_and_later():
    """DIS-08"""
    spy = Spy()
    twice = op_class(
        "TwiceFwdOp",
        spec=composites.TWICE,
        delegate_types={"first": spy.op, "second": spy.op},
        forward=lambda self, x: self.delegate_for("second", x.shape)(
            self.delegate_for("first", ())(x)
        ),
    )
    op = twice()
    op(small())
    assert spy.asked == []
    op.request_tune()
    assert len(spy.asked) == 2
    op(small(2, 2))
    op(HALF)
    assert {id(kernel) for kernel in spy.asked} == {id(kernel) for kernel in op.iter_kernels()}
    assert all(sub._running.tune_requested for sub in op.held_delegates())


def test_a_given_sub_op_is_asked_when_it_is_held():
    spy = Spy()
    twice = op_class(
        "TwiceFwdOp", spec=composites.TWICE, delegate_types={"first": spy.op, "second": spy.op}
    )
    op, given = twice(), spy.op()
    given(small())
    op.request_tune()
    op.delegate_for("first", (), given)
    assert spy.asked == list(given.iter_kernels())


def test_asking_reaches_a_targets_kernels_now_and_later():
    asked = []

    class Vendor:
        def __call__(self, x):
            return x * 2

        def request_tune(self):
            asked.append(self)

    with served(build=lambda x: Vendor()) as op:
        op(small())
        op.request_tune()
        op(small(2, 2))
        assert asked == list(op.built_entries("").values())


def test_a_targets_kernel_that_cannot_be_asked_is_warned_about_once_per_instance():
    with served() as op:
        op(small())
        with pytest.warns(
            RuntimeWarning, match="'acme' .backend 'vendor'. defines no request_tune"
        ):
            op.request_tune()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            op.request_tune()
            op(small(2, 2))
        other = type(op)(target="acme")
        other.request_tune()
        with pytest.warns(RuntimeWarning) as caught:
            other(small())
    assert caught[0].filename == __file__


def test_what_fails_when_asked_says_whose_it_is():
    def fail(kernel):
        raise LookupError("no clock")

    spy = Spy(request_tune=fail)
    op = spy.op()
    op.request_tune()
    with pytest.raises(LookupError) as caught:
        op(small())
    assert "ProbeFwdOp: raised by a kernel type of the op itself" in caught.value.__notes__
    assert op.serving_target is None
    bound = spy.op()
    bound(small())
    with pytest.raises(LookupError) as caught:
        bound.request_tune()
    assert "ProbeFwdOp: raised by a kernel type of the op itself" in caught.value.__notes__
    assert bound.serving_target is BUILTIN


@pytest.mark.parametrize("in_tree", [True, False])
def test_a_kernel_that_is_being_built_meanwhile_is_asked(in_tree):
    asked = []
    building, go_on = threading.Event(), threading.Event()

    def built():
        building.set()
        assert go_on.wait(30)
        return made()

    class Vendor(Kernel):
        forward = staticmethod(faulty._doubled)

        def request_tune(self):
            asked.append(self)

    if in_tree:
        spy = Spy(build=built, request_tune=lambda kernel: asked.append(kernel))
        made, op = spy.kernel_type, spy.op()
        thread = threading.Thread(target=op, args=(small(),))
        thread.start()
        assert building.wait(30)
        op.request_tune()
        go_on.set()
        thread.join(30)
    else:
        made = Vendor
        with served(build=lambda x: built()) as op:
            thread = threading.Thread(target=op, args=(small(),))
            thread.start()
            assert building.wait(30)
            op.request_tune()
            go_on.set()
            thread.join(30)
    assert len(asked) == 1


def test_threads_that_build_and_ask_leave_no_kernel_unasked():
    spy = Spy(entry_for=classmethod(lambda cls, call: (call.shape, cls)))
    op = spy.op()
    calls = [lambda n=n: op(small(n + 1, 2)) for n in range(15)]
    outcomes = in_threads(*calls, op.request_tune)
    assert all(o.error is None for o in outcomes)
    op(small())
    assert {id(k) for k in op.iter_kernels()} <= {id(k) for k in spy.asked}


# -- kernels with configurations --------------------------------------------------------------


class Blocks:
    """A kernel type with configurations, of which 1 is the fastest."""

    def __init__(self, monkeypatch, tmp_path):
        self.calls = []
        bench = self

        def measure(run, device):
            return float(run.args[0].__self__.config["block"])

        monkeypatch.setattr(tuning, "measure", measure)
        monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))

        def forward(self, x):
            bench.calls.append(self.config["block"])
            return x * 2

        def with_config(self, config):
            made = type(self)()
            made.config = config
            return made

        configs = ({"block": 2}, {"block": 1})
        declared = {"autotune_configs": configs, "config": configs[0], "with_config": with_config}
        self.interfaces, self.kernel_type = faulty.in_tree(**declared)
        self.kernel_type.forward = forward

    def op(self, **body):
        request = self.interfaces["probe"].request
        body = body or {"call_spec": lambda self, x: request(x.device, x.dtype, x.shape)}
        return op_class(
            "ProbeFwdOp",
            interfaces=self.interfaces,
            kernel_types={"only": self.kernel_type},
            **body,
        )()


@pytest.fixture
def blocks(monkeypatch, tmp_path):
    return Blocks(monkeypatch, tmp_path)


@pytest.mark.parametrize("called", [False, True])
def test_a_kernel_with_configurations_is_tuned_at_its_next_launch(blocks, called):
    op = blocks.op()
    if called:
        op(small())
    op.request_tune()
    assert op(small()).equal(small() * 2)
    assert op.kernel_config() == {"block": 1}
    blocks.calls.clear()
    for _ in range(3):
        assert op(small()).equal(small() * 2)
        assert op(small(2, 2)).equal(small(2, 2) * 2)
    assert blocks.calls == [1] * 6


def test_a_route_leads_to_the_tuned_kernel_itself(blocks):
    op = blocks.op()
    op.request_tune()
    for _ in range(2):
        op(small())
    (route,) = op._binding.young.values()
    assert route.call.__self__.config == {"block": 1}


def test_a_body_launches_the_tuned_kernel(blocks):
    request = blocks.interfaces["probe"].request

    def forward(self, x):
        return self.kernel_for("probe", request(x.device, x.dtype, tuple(x.shape)))(x)

    op = blocks.op(forward=forward)
    op(small())
    op.request_tune()
    op(small())
    blocks.calls.clear()
    op(small())
    assert blocks.calls == [1]
    assert op.kernel_config() == {"block": 1}


def test_an_instance_finds_what_another_one_measured(blocks, monkeypatch):
    first = blocks.op()
    first.request_tune()
    first(small())
    monkeypatch.setattr(tuning, "measure", None)
    second = blocks.op()
    second.request_tune()
    second(small())
    assert second.kernel_config() == {"block": 1}


def test_a_targets_kernel_may_have_configurations(blocks):
    with served(build=lambda x: blocks.kernel_type()) as op:
        op.request_tune()
        op(small())
        assert op.kernel_config() == {"block": 1}


# -- the configuration ------------------------------------------------------------------------


def test_the_ops_own_configuration_comes_first(blocks):
    op = blocks.op()
    op(small())
    assert op.kernel_config() == {"block": 2}
    op.config = {"of": "the op"}
    assert op.kernel_config() == {"of": "the op"}


def test_a_targets_configuration_counts():
    class Vendor:
        config = {"tile": 128}  # noqa: RUF012

        def __call__(self, x):
            return x * 2

    with served(build=lambda x: Vendor()) as op:
        op(small())
        assert op.kernel_config() == {"tile": 128}


def test_a_kernel_without_a_configuration_is_passed_over():
    switch = Switch(faulty._doubled)
    with target(switch.build):
        op = op_class("ProbeFwdOp")(target="acme")
        op(small())
        assert op.kernel_config() == {}


# -- calls in graphs --------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_asking_an_instance_reaches_the_kernels_of_its_calls_in_graphs(when):
    spy = Spy()
    op = spy.op()
    if when == "before":
        op.request_tune()
    compiled = torch.compile(lambda x: op(x), backend="eager", fullgraph=True)
    compiled(small())
    if when == "between":
        op.request_tune()
        compiled(HALF)
    if when == "after":
        compiled(HALF)
        op.request_tune()
    built = {id(kernel) for kernel in op.iter_kernels()}
    assert len(op.built_entries("probe")) == (1 if when == "before" else 2)
    assert {id(kernel) for kernel in spy.asked} == built
    torch._dynamo.reset()


def test_calls_in_graphs_are_told_with_the_kernel_types_of_their_time():
    spy = Spy()
    faster = type("Faster", (spy.kernel_type,), {"preferred_over": frozenset({"only"})})
    with registered(KernelTypeRegistration("ProbeFwdOp", "faster", faster), backend="acme"):
        first = spy.op()
        torch.compile(lambda x: first(x), backend="eager", fullgraph=True)(small())
    second = spy.op()
    assert second._key == first._key
    assert [key[0] for key in second.built_entries("probe")] == [faster]
    torch._dynamo.reset()
