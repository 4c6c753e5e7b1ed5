"""Workload cases as a plan takes them."""

from __future__ import annotations

import metadata_ops
import torch

from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import load_spec_from
from tileops_core.tensor_spec import TensorSpec


def made(inputs=(), params=None, **row):
    """The plan of an op of one length, and the first case of its one row."""
    entry = metadata_ops.entry(
        "M",
        {"x": metadata_ops.floats("[M]"), **dict(inputs)},
        {"y": metadata_ops.floats("[M]")},
        [{"label": "row", "M": 3, **row}],
        params=params,
    )
    plan = build_plan(build_signature(load_spec_from(entry, "ProbeFwdOp")))
    return plan, next(cases(plan.signature))


def test_inputs_are_facts_and_absent_ones_none():
    plan, case = made({"w": metadata_ops.floats("[M]", optional=True)})
    _, specs = call_of(plan, case)
    assert specs == (TensorSpec("meta", torch.float16, (3,)), None)


def test_the_device_is_the_calls_but_for_what_stays_on_the_cpu():
    plan, case = made({"lengths": metadata_ops.floats("[M]", "int64", device="cpu")})
    statics, specs = call_of(plan, case)
    assert [str(spec.device) for spec in specs] == ["meta", "cpu"]
    assert plan.check(statics, *specs)


def test_parameters_are_settled_as_a_constructor_settles_them():
    dtype = {"type": "float16 | float32"}
    plan, case = made(params={"dtype": dtype}, dtype="float32")
    statics, _ = call_of(plan, case)
    assert statics == (torch.float32,)


def test_a_parameter_that_is_a_tensor_takes_no_memory():
    table = {"dtype": "float32", "shape": "[2 * M]", "optional": True}
    plan, case = made(params={"table": table}, some=["table"])
    (value, *_), specs = call_of(plan, case)
    assert (value.device.type, value.shape, value.dtype) == ("meta", (6,), torch.float32)
    assert plan.check(call_of(plan, case)[0], *specs)
