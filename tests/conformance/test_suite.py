from __future__ import annotations

import gc

import pytest
import torch
from call_support import op_class

from tileops_core.backend import BuilderRegistration, TargetRegistration, registered
from tileops_core.backend.contract import KernelTypeRegistration
from tileops_core.conformance.checks import ALL_COLUMNS, Check
from tileops_core.conformance.outcomes import (
    FAILED,
    PASSED,
    REFUSED,
    SKIPPED,
    Failed,
    Refused,
    Skipped,
)
from tileops_core.conformance.suite import Misuse, Request, Suite, run, run_one
from tileops_core.interfaces.elementwise import BinaryFwdInterface
from tileops_core.interfaces.reduction import ReduceFwdInterface
from tileops_core.kernels import Kernel


def check(run):
    return Check("SumFwdOp", "reduction", "workload", "a", run)


def raising(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    ("does", "outcome", "message"),
    [
        (lambda: None, PASSED, ""),
        (raising(Failed("value: wrong")), FAILED, "value: wrong"),
        (raising(Refused("too wide")), REFUSED, "too wide"),
        (raising(Skipped("no oracle")), SKIPPED, "no oracle"),
        (raising(KeyError("x")), FAILED, "error: KeyError: 'x'"),
    ],
)
def test_what_a_check_raises_is_its_outcome(does, outcome, message):
    result = run_one(check(does))
    assert (result.outcome, result.message) == (outcome, message)
    assert result.id == "SumFwdOp/workload/a"


def test_an_interrupt_ends_the_run():
    with pytest.raises(KeyboardInterrupt):
        run_one(check(raising(KeyboardInterrupt())))


def test_each_result_is_told_as_it_is_judged():
    told = []
    found = run([check(lambda: None)] * 2, told.append, lambda r: r)
    assert told == found


def test_every_check_has_a_column_and_an_id_of_its_own():
    checks = list(Suite(Request("reference", families=("rope",))).checks())
    assert {c.column for c in checks} <= ALL_COLUMNS.keys()
    assert len({c.id for c in checks}) == len(checks)


def test_what_takes_long_can_be_left_out():
    request = Request("reference", ops=("TanhFwdOp",), slow=False)
    assert "leak" not in {c.column for c in Suite(request).checks()}


def test_only_ops_that_the_target_serves_are_checked():
    served = {s.op for s in Suite(Request("tilelang")).served}
    assert "RMSNormFwdOp" in served
    assert "GEMMFwdOp" not in served


def test_ops_that_were_named_and_are_not_checked_are_told():
    suite = Suite(Request("tilelang", ops=("GEMMFwdOp", "AbsFwdOp")))
    assert suite.told() == [
        "AbsFwdOp: it has a contract and no class yet",
        "GEMMFwdOp: tilelang does not serve it on cpu",
    ]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (Request("refernce"), r"no target 'refernce' \(did you mean 'reference'\?\)"),
        (Request("reference", ops=("SumFwdOpp",)), r"did you mean 'SumFwdOp'\?"),
        (Request("reference", families=("nrom",)), r"no family 'nrom' \(did you mean 'norm'\?\)"),
        (Request("reference", device="cuda:99"), "no device 'cuda:99' here"),
        (Request("reference", device="nonsense"), "no device 'nonsense' here"),
        (Request("reference", ops=("nowhere:Op",)), "'nowhere:Op' leads nowhere"),
        (Request("reference", ops=("torch:Tensor",)), "is no op"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_misuse_is_told(request_, says):
    with pytest.raises(Misuse, match=says):
        Suite(request_)


def test_an_op_of_another_distribution_is_named_by_its_class(target, results):
    """REG-14 does not stand in its way: its class has brought its name."""
    with target(StrangerFwdOp=lambda *specs, **params: lambda x: x * 2) as name:
        found = results(name, "stranger_ops:StrangerFwdOp")
    assert {r.outcome for r in found if r.column in ("workload", "empty")} == {SKIPPED}
    assert {r.outcome for r in found if r.column == "purity"} == {PASSED}


def test_an_op_name_that_no_manifest_knows_is_told_with_a_guess(target):
    """REG-14."""
    with target(RmsNormFwdOpp=lambda: None) as name:
        (found,) = (run_one(c) for c in Suite(Request(name)).checks())
    assert found.outcome == FAILED
    assert found.message == (
        "registration: no manifest knows an op 'RmsNormFwdOpp' (did you mean 'RMSNormFwdOp'?)"
    )


def test_a_builder_that_leads_nowhere_is_told(target, results):
    with target(TanhFwdOp="nowhere_at_all:build") as name:
        found = results(name, "TanhFwdOp", columns={"registration"})
    assert found[0].outcome == FAILED
    assert "does not resolve" in found[0].message


class PickySum(Kernel, ReduceFwdInterface):
    """Serves matrices, says why it serves nothing else, and builds a new program for each call."""

    devices = None

    @classmethod
    def refusal(cls, call):
        return None if len(call.shape) == 2 else "takes matrices"

    @classmethod
    def entry_for(cls, call):
        return (object(),), lambda: cls(call)

    def __init__(self, call):
        self.call = call

    def forward(self, x):
        return torch.sum(x, self.call.dims, self.call.keepdim, dtype=self.call.out_dtype)


def test_a_refusal_is_no_failure_and_a_program_per_call_is_one(results):
    registration = KernelTypeRegistration("SumFwdOp", "picky", PickySum)
    with registered(registration, backend="picky"):
        found = results("picky", "SumFwdOp", columns={"scalar", "build-once"})
    assert {r.outcome for r in found if r.column == "scalar"} == {REFUSED}
    assert all("takes matrices" in r.message for r in found if r.outcome == REFUSED)


def test_a_call_that_is_wrong_by_itself_is_no_matter_of_turns(results, target):
    """Its own column tells it, and whoever expects that expects it once."""

    def build(x, **params):
        return lambda x: torch.tanh(x) if x.dtype is not torch.bfloat16 else torch.zeros_like(x)

    with target(TanhFwdOp=build) as name:
        found = results(name, "TanhFwdOp", columns={"dtype", "in-turn"})
    assert {r.column for r in found if r.outcome == FAILED} == {"dtype"}
    assert {r.outcome for r in found if r.column == "in-turn"} == {PASSED}


def test_turns_of_which_none_is_right_are_skipped(results, target):
    with target(TanhFwdOp=lambda x, **params: torch.zeros_like) as name:
        (found,) = results(name, "TanhFwdOp", columns={"in-turn"})
    assert found.outcome == SKIPPED


def test_a_target_that_serves_nothing_has_nothing_to_check():
    with registered(TargetRegistration("idle", lambda device: False)):
        assert list(Suite(Request("idle")).checks()) == []


def test_a_builder_of_another_target_is_none_of_its_business(target):
    with (
        registered(TargetRegistration("other", lambda device: False)),
        registered(BuilderRegistration("TanhFwdOp", "other", lambda *s: torch.tanh)),
        target(ReLUFwdOp=lambda *specs, **params: torch.relu) as name,
    ):
        # Named, because composite classes of other tests, which hold a ReLU, may live still.
        asked = Request(name, ops=("ReLUFwdOp", "TanhFwdOp"))
        assert {c.op for c in Suite(asked).checks()} == {"ReLUFwdOp"}


def test_a_class_that_was_dropped_is_none_of_its_business():
    """Even if the collector has not come by since: it seldom looks through what is old."""
    dropped = op_class("ProbeFwdOp")
    gc.collect()
    assert "ProbeFwdOp" in Suite(Request("reference")).known
    del dropped
    assert "ProbeFwdOp" not in Suite(Request("reference")).known


def test_a_composite_is_checked_where_the_target_serves_its_sub_ops() -> None:
    suite = Suite(Request("reference", families=("moe",)))
    assert {"FusedMoEFwdOp", "MoEExpertMLPFwdOp"} <= {served.op for served in suite.served}


def test_a_composite_is_left_out_where_a_sub_op_is_served_by_others(target) -> None:
    with target(MoEGroupedGEMMFwdOp=lambda *specs, **params: None) as name:
        suite = Suite(Request(name, ops=("FusedMoEFwdOp", "MoEGroupedGEMMFwdOp")))
        assert [served.op for served in suite.served] == ["MoEGroupedGEMMFwdOp"]
        assert suite.told() == [f"FusedMoEFwdOp: {name} does not serve it on cpu"]


class NoForward(Kernel, BinaryFwdInterface):
    """Lacks what its interface asks for."""

    devices = frozenset({"cpu"})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_kernel_type_that_is_left_out_fails_its_registration():
    with registered(KernelTypeRegistration("AddFwdOp", "broken", NoForward), backend="vendor"):
        found = [run_one(c) for c in Suite(Request("vendor", ops=("AddFwdOp",))).checks()]
    assert [(r.column, r.outcome) for r in found] == [("registration", FAILED)]
    assert "forward" in found[0].message
