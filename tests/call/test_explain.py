"""Who would serve a call, found without building or running anything."""

from __future__ import annotations

import composites
import faulty
import pytest
import torch
from call_support import op_class, small, target

from tileops_core import BUILTIN, TensorSpec
from tileops_core.call.binding import UNBOUND
from tileops_core.call.checking import WATCHING
from tileops_core.call.explain import explain
from tileops_core.call.frames import FRAMES
from tileops_core.errors import SignatureError
from tileops_core.ops import ReLUFwdOp, RMSNormFwdOp

SPEC = TensorSpec("cpu", torch.float32, (3, 4))


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    assert (FRAMES, WATCHING) == ({}, [])


def outcomes(decision):
    return {v.candidate.key: v.outcome for v in decision.verdicts}


def test_a_call_in_tree_is_told_with_every_kernel_type():
    told = explain(RMSNormFwdOp((4,)), [SPEC])
    assert told.target is BUILTIN
    assert told.reasons[-1] == "in-tree kernels run on cpu"
    (decision,) = told.decisions
    assert set(outcomes(decision)) >= {"reference"}
    assert decision.chosen is not None
    assert told.record.tensors["output"] == ((3, 4), torch.float32)


def test_nothing_is_built_and_nothing_settled():
    classes = composites.ops()
    op = classes.nest()
    explain(op, [SPEC])
    inner, last = op.held_delegates()
    assert classes.does.builds == 0
    assert all(o._binding is UNBOUND for o in (op, inner, last, *inner.held_delegates()))
    assert op._running.candidate is None


def test_what_a_bound_instance_has_settled_stays():
    op = ReLUFwdOp(target="reference")
    op(small())
    binding = op._binding
    explain(op, [SPEC])
    assert op._binding is binding
    assert binding.backend == "reference"


def test_a_targets_builder_is_told():
    with target():
        told = explain(op_class("ProbeFwdOp")(target="acme"), [SPEC])
    assert (told.target, told.builder, told.decisions) == ("acme", "vendor", [])


def test_a_named_backend_is_asked_alone():
    told = explain(ReLUFwdOp(target="reference"), [SPEC])
    assert told.target == "reference"
    assert told.decisions[0].backend == "reference"


def test_a_call_that_nobody_serves_is_told_with_the_error():
    with target(op="RMSNormFwdOp"):
        told = explain(ReLUFwdOp(target="acme"), [SPEC])
    assert "target 'acme' does not serve it" in told.error
    assert told.target is None


def test_a_call_that_no_kernel_type_serves_is_told_with_each_ones_reason():
    refusing = {"refusal": classmethod(lambda cls, call: "too small")}
    interfaces, kernel_type = faulty.in_tree(**refusing)
    request = interfaces["probe"].request
    op = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        call_spec=lambda self, x: request(x.device, x.dtype, x.shape),
    )()
    told = explain(op, [SPEC])
    assert outcomes(told.decisions[0]) == {"only": "refused"}
    assert "no implementation serves this call" in told.error


def test_a_call_that_would_be_refused_is_refused():
    with pytest.raises(SignatureError, match="weight has shape"):
        explain(RMSNormFwdOp((4,)), [SPEC, TensorSpec("cpu", torch.float32, (5,))])


def test_a_call_without_data_needs_nobody():
    told = explain(ReLUFwdOp(), [TensorSpec("cpu", torch.float32, (0, 4))])
    assert told.reasons == ("there is no data to compute, so nobody has to run",)


def test_a_device_that_is_not_here_is_asked_about_by_its_facts():
    """What an sm_90 would choose, on any machine."""
    seen = []
    archs = {"devices": frozenset({"cuda"}), "supported_archs": frozenset({90})}
    interfaces, kernel_type = faulty.in_tree(**archs)
    request = interfaces["probe"].request

    def refusal(cls, call):
        seen.append((str(call.device), call.arch))

    kernel_type.refusal = classmethod(refusal)
    op = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        call_spec=lambda self, x: request(x.device, x.dtype, x.shape),
    )()
    spec = TensorSpec("cuda", torch.float32, (3, 4))
    assert outcomes(explain(op, [spec], {"arch": 90}).decisions[0]) == {"only": "chosen"}
    assert outcomes(explain(op, [spec], {"arch": 80}).decisions[0]) == {"only": "arch"}
    assert seen == [("cuda:0", 90)]


def test_a_composite_is_told_with_its_sub_ops():
    told = explain(composites.ops().nest(), [SPEC])
    assert (told.target, told.complete, told.decisions) == (BUILTIN, True, [])
    inner, last = told.inner
    assert (inner.stage, inner.record.op) == ("inner", "TwiceFwdOp")
    assert [i.stage for i in inner.inner] == ["first", "second"]
    assert (last.stage, last.decisions[0].chosen.key) == ("last", "only")


def test_a_sub_op_that_nobody_serves_does_not_hide_the_others():
    with target(op="TwiceFwdOp"):
        told = explain(composites.ops().nest(target="acme"), [SPEC])
    inner, last = told.inner
    assert (inner.target, inner.error) == ("acme", None)
    assert "target 'acme' does not serve it" in last.error


def test_a_body_is_told_as_far_as_its_first_kernel():
    interfaces, kernel_type = faulty.in_tree()
    request = interfaces["probe"].request

    def forward(self, x):
        return self.kernel_for("probe", request(x.device, x.dtype, tuple(x.shape)))(x)

    op = op_class(
        "ProbeFwdOp", interfaces=interfaces, kernel_types={"only": kernel_type}, forward=forward
    )()
    told = explain(op, [SPEC])
    assert outcomes(told.decisions[0]) == {"only": "chosen"}
    assert not told.complete
    assert op._binding is UNBOUND
