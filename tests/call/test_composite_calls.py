"""Calls of composite ops: what is filed, what is no sub-op's call, what a failure leaves."""

from __future__ import annotations

import gc
import weakref

import composites
import faulty
import pytest
import torch
from call_support import in_threads, op_class, small, target
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops_core import BUILTIN, checks, default_target
from tileops_core.backend import TargetRegistration, registered
from tileops_core.call.binding import UNBOUND
from tileops_core.call.checking import WATCHING
from tileops_core.call.frames import FRAMES
from tileops_core.errors import (
    AmbiguousTargetError,
    BackendError,
    OpNotAvailableError,
    SignatureError,
    TileOpsError,
    UnknownTargetError,
)
from tileops_core.ops import GELUFwdOp, ReLUFwdOp


@pytest.fixture(autouse=True)
def nothing_stays():
    """No frame and no watcher is left behind by any of these calls."""
    yield
    assert FRAMES == {}
    assert WATCHING == []


def counts(record):
    """How many records each stage has, all the way down."""
    return {stage: [counts(r) for r in records] for stage, records in record.stages.items()}


LEAF: dict[str, list[object]] = {}
TWICE = {"first": [LEAF], "second": [LEAF]}
NEST = {"inner": [TWICE], "last": [LEAF]}


# -- what is filed ----------------------------------------------------------------------------


def test_a_composite_runs_its_body_at_every_call():
    op = composites.ops().nest(target=BUILTIN)
    for shape in ((3, 4), (3, 4), (2, 5)):
        assert op(small(*shape)).equal(small(*shape) * 8)
        assert counts(op.last_call) == NEST
    assert op.serving_target is BUILTIN


def test_records_of_one_stage_keep_the_order_in_which_the_calls_completed():
    classes = composites.ops()
    op = classes.twice()

    def between(self, x):
        for rows in (1, 3, 2):
            self.delegate_for("second", rows)(small(rows, 2))
        return x

    classes.does.between = between
    op(small())
    shapes = [record.tensors["x"][0] for record in op.last_call.stages["second"]]
    assert shapes == [(1, 2), (3, 2), (2, 2), (3, 4)]


def test_a_composite_that_was_called_dies_with_the_last_who_holds_it():
    op = composites.ops().nest()
    op(small())
    gone = weakref.ref(op)
    gc.disable()
    try:
        del op
        assert gone() is None
    finally:
        gc.enable()


def test_a_stage_that_did_not_run_has_no_place_in_the_record():
    classes = composites.ops(forward=lambda self, x: self.delegate_for("second", ())(x))
    op = classes.twice()
    op(small())
    assert counts(op.last_call) == {"second": [LEAF]}


def test_stages_stand_in_the_order_of_the_entry():
    def forward(self, x):
        return self.delegate_for("first", ())(self.delegate_for("second", ())(x))

    op = composites.ops(forward=forward).twice()
    op(small())
    assert list(op.last_call.stages) == ["first", "second"]


def test_an_op_that_is_not_composite_has_no_stages():
    op = composites.ops().probe()
    op(small())
    assert op.last_call.stages == {}


def test_a_sub_op_keeps_its_own_record():
    """PIPE-09: what is inside is nested, and counted once."""
    op = composites.ops().nest()
    op(small())
    inner, last = op.held_delegates()
    assert op.last_call.stages == {"inner": (inner.last_call,), "last": (last.last_call,)}
    assert op.eval_roofline() == (12, 2 * 12 * 4)


def test_a_sub_ops_failed_call_that_the_body_survives_is_not_filed():
    classes = composites.ops()

    def between(self, x):
        with pytest.raises(SignatureError):
            self.delegate_for("second", ())(x[0])
        return x

    classes.does.between = between
    op = classes.twice()
    op(small())
    assert counts(op.last_call) == TWICE


@pytest.mark.parametrize("known", [False, True], ids=["first call", "known route"])
def test_a_call_of_an_op_that_is_not_held_makes_the_composites_call_fail(known):
    classes = composites.ops()
    op, stray = classes.twice(), ReLUFwdOp()
    if known:
        op(small())
        before = op.last_call
    classes.does.between = lambda self, x: stray(x)
    with pytest.raises(TileOpsError, match=r"TwiceFwdOp: ReLUFwdOp\(.*\) completed a call inside"):
        op(small())
    if known:
        assert op.last_call is before
    else:
        assert op._binding is UNBOUND
        assert [o.serving_target for o in op.held_delegates()] == [None, None]
    classes.does.between = lambda self, x: x
    assert op(small()).equal(small() * 4)


def test_an_instance_that_another_composite_holds_is_not_held_here():
    classes = composites.ops()
    other = classes.twice().delegate_for("first", ())
    classes.does.between = lambda self, x: other(x)
    with pytest.raises(TileOpsError, match="no stage holds it"):
        classes.twice()(small())


def test_a_sub_op_given_by_the_caller_is_filed():
    classes = composites.ops()
    op = classes.twice()
    op.delegate_for("first", (), classes.probe())
    op(small())
    assert counts(op.last_call) == TWICE


def test_a_call_that_writes_nothing_of_any_size_runs_nobody_and_has_no_stages():
    op = composites.ops().nest()
    assert op(torch.empty(0, 4)).shape == (0, 4)
    assert op.last_call.stages == {}
    assert op.serving_target is None
    assert op.eval_roofline() == (0, 0)


def test_a_call_without_data_runs_nobody():
    op = composites.ops().nest()
    assert op(small().to("meta")).device.type == "meta"
    with FakeTensorMode() as mode:
        assert op(mode.from_tensor(small())).shape == (3, 4)
    assert op.last_call.stages == {}
    assert op.serving_target is None


def test_calls_that_are_not_plain_are_filed_too():
    op = composites.ops().nest()
    with checks(purity=True):
        op(small())
    assert counts(op.last_call) == NEST
    with torch.autograd.profiler.profile():
        op(small())
    assert counts(op.last_call) == NEST
    result = op(small().requires_grad_())
    assert counts(op.last_call) == NEST
    with pytest.raises(NotImplementedError, match="NestFwdOp has no gradient"):
        result.sum().backward()


def test_a_subclass_that_calls_the_op_itself_is_filed_once():
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            plain = [a.as_subclass(torch.Tensor) if isinstance(a, cls) else a for a in args]
            return function(*plain, **(kwargs or {}))

    classes = composites.ops()
    classes.does.between = lambda self, x: x.as_subclass(Logged)
    op = classes.twice()
    assert op(small().as_subclass(Logged)).equal(small() * 4)
    assert counts(op.last_call) == TWICE


def test_a_body_gets_dense_inputs():
    seen = []

    def forward(self, x):
        seen.append(x.is_contiguous())
        return self.delegate_for("first", ())(x)

    op = composites.ops(forward=forward).twice()
    assert op(small(4, 3).t()).equal(small(4, 3).t() * 2)
    assert seen == [True]


def test_a_composites_result_is_checked():
    op = composites.ops(forward=lambda self, x: x).twice()
    with pytest.raises(BackendError, match="memory of its input x"):
        op(small())


def test_the_road_of_an_op_outside_of_composites_is_the_ordinary_one_again():
    classes = composites.ops()
    op = classes.nest()
    seen = []
    classes.does.kernel = lambda x: (seen.append((len(FRAMES), len(WATCHING))), x * 2)[1]
    op(small())
    classes.probe()(small())
    assert seen == [(1, 1)] * 3 + [(0, 0)]


# -- what is no sub-op's call -----------------------------------------------------------------


@pytest.mark.parametrize("other", [GELUFwdOp, lambda: composites.ops().nest()])
def test_what_a_kernel_calls_is_its_own_affair(other):
    """Peer fault 6: of a sub-op's kernel, in-tree and a target's."""
    classes, other = composites.ops(), other()
    classes.does.kernel = faulty.kernel_that_calls(other)
    op = classes.nest()
    op(small())
    assert counts(op.last_call) == NEST
    with target(lambda x: faulty.kernel_that_calls(other)):
        op = classes.nest(target="acme")
        op(small())
    assert counts(op.last_call) == NEST


def test_what_a_builder_calls_is_its_own_affair():
    """Peer fault 6"""
    classes, other = composites.ops(), GELUFwdOp()
    classes.does.build = lambda: other(small())
    op = classes.nest()
    op(small())
    assert counts(op.last_call) == NEST
    with target(faulty.builder_that_calls(other)):
        op = classes.nest(target="acme")
        op(small())
    assert counts(op.last_call) == NEST


def test_what_the_kernel_of_a_whole_composite_calls_is_its_own_affair():
    classes, other = composites.ops(), GELUFwdOp()
    with target(lambda x: faulty.kernel_that_calls(other), op="NestFwdOp"):
        op = classes.nest(target="acme")
        for _ in range(2):
            assert op(small()).equal(small() * 2)
            assert op.last_call.stages == {}
    assert op.serving_target == "acme"


def kernels_of_its_own(does, factory=None):
    """A composite whose body also asks for a kernel of its own."""
    interfaces, kernel_type = faulty.in_tree(does, factory=factory)
    request = interfaces["probe"].request

    def forward(self, x):
        entry = self.kernel_for("probe", request(x.device, x.dtype, tuple(x.shape)))
        return self.delegate_for("first", ())(entry(x))

    own = {"interfaces": interfaces, "kernel_types": {"own": kernel_type}}
    return composites.ops(forward=forward, **own), kernel_type


def test_what_an_entry_of_the_composites_own_calls_is_its_own_affair():
    other = GELUFwdOp()
    classes, _ = kernels_of_its_own(faulty.kernel_that_calls(other))
    op = classes.twice(target=BUILTIN)
    for _ in range(2):
        assert op(small()).equal(small() * 4)
        assert counts(op.last_call) == {"first": [LEAF]}
    assert str(op.last_call.served_by) == "BUILTIN (own:own)"


def test_what_the_factory_of_such_an_entry_calls_is_its_own_affair():
    other = GELUFwdOp()

    def factory():
        other(small())
        return kernel_type()

    classes, kernel_type = kernels_of_its_own(faulty._doubled, factory)
    op = classes.twice(target=BUILTIN)
    op(small())
    assert counts(op.last_call) == {"first": [LEAF]}


def test_other_threads_calls_are_not_filed():
    classes, other = composites.ops(), ReLUFwdOp()

    def between(self, x):
        (outcome,) = in_threads(lambda: other(x))
        assert outcome.error is None
        return x

    classes.does.between = between
    op = classes.twice()
    op(small())
    assert counts(op.last_call) == TWICE


# -- who serves -------------------------------------------------------------------------------


def test_a_target_without_a_builder_for_the_composite_runs_its_composition():
    classes = composites.ops()
    with target(op="ProbeFwdOp"):
        op = classes.nest(target="acme")
        assert op(small()).equal(small() * 8)
        subs = [*op.held_delegates(), *op.held_delegates()[0].held_delegates()]
    assert [o.serving_target for o in (op, *subs)] == ["acme"] * 5
    assert counts(op.last_call) == NEST


def test_so_does_one_that_claims_the_device():
    classes = composites.ops()
    with target(op="ProbeFwdOp", detect=lambda device: True):
        op = classes.twice()
        op(small())
    assert [o.serving_target for o in (op, *op.held_delegates())] == ["acme"] * 3


def test_a_composite_asks_every_detector():
    classes = composites.ops()
    claims = [TargetRegistration(name, lambda device: True) for name in ("one", "two")]
    with registered(*claims), pytest.raises(AmbiguousTargetError, match=r"'one'.*'two'"):
        classes.twice()(small())


def test_a_sub_op_that_the_target_does_not_serve_is_told():
    """DIS-14"""
    classes = composites.ops()
    with (
        target(op="NestedElsewhereFwdOp"),
        pytest.raises(OpNotAvailableError, match="ProbeFwdOp: target 'acme' does not serve"),
    ):
        classes.nest(target="acme")(small())


def refused_without_builder(claims, name):
    """A composite with kernels of its own, under a target that only serves its sub-ops."""
    classes, _ = kernels_of_its_own(faulty._doubled)
    with target(op="ProbeFwdOp", detect=lambda device: claims):
        op = classes.twice(target=name)
        with pytest.raises(OpNotAvailableError, match="TwiceFwdOp: target 'acme'"):
            op(small())
    assert op.serving_target is None
    assert op.held_delegates() == ()


def test_a_composite_with_kernels_of_its_own_needs_a_builder():
    refused_without_builder(claims=False, name="acme")


def test_a_composite_with_kernels_is_refused_on_a_claimed_device():
    refused_without_builder(claims=True, name=None)


def test_a_builder_serves_the_whole_composite():
    classes = composites.ops()
    with target(lambda x: lambda x: x * 3, op="TwiceFwdOp"):
        op = classes.nest(target="acme")
        with target(lambda x: lambda x: x * 5, op="ProbeFwdOp", name="other"):
            op.delegate_for("last", (), classes.probe(target="other"))
            assert op(small()).equal(small() * 15)
    assert counts(op.last_call) == {"inner": [{}], "last": [LEAF]}


def test_a_given_sub_op_runs_under_its_own_target():
    classes = composites.ops()
    with target(lambda x: lambda x: x * 5):
        op = classes.twice(target=BUILTIN)
        op.delegate_for("first", (), classes.probe(target="acme"))
        assert op(small()).equal(small() * 10)


def test_a_default_target_serves_the_sub_ops_too():
    classes = composites.ops()
    op = classes.twice()
    with target(lambda x: lambda x: x * 5), default_target("acme"):
        assert op(small()).equal(small() * 25)


def test_an_empty_call_under_a_target_that_is_gone_is_an_error():
    classes = composites.ops()
    with target(op="ProbeFwdOp"):
        op = classes.twice(target="acme")
    with pytest.raises(UnknownTargetError):
        op(torch.empty(0, 4))


def test_a_class_whose_entry_is_only_a_contract_may_hold_nothing():
    spec = {**composites.TWICE, "status": "spec-only"}
    with target(lambda x: faulty._doubled, op="TwiceFwdOp"):
        op = op_class("TwiceFwdOp", spec=spec)(target="acme")
        assert op(small()).equal(small() * 2)
