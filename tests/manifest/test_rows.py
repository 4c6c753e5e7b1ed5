"""Every row of the manifest describes a call, in full without data and scaled down with it."""

from __future__ import annotations

import pytest
import torch

from tileops_core.call.metadata import check_metadata
from tileops_core.conformance.inputs import made
from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import known_ops, load_spec

SCALED = 50_000
"""Elements of the tensors of a call that has data, as far as it can be scaled."""

each = pytest.mark.parametrize("op", sorted(known_ops()))


def short(value):
    """Dtypes by their names, sequences as tuples."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return tuple(value) if isinstance(value, (tuple, list)) else value


def inferred(plan, case, tensors):
    """The indices and outputs that the tensors of a call settle, those that the row gives too."""
    statics, _ = call_of(plan, case)
    facts = plan.check(statics, *tensors)
    found = {
        **dict(zip(plan.static_names, statics, strict=True)),
        **dict(zip(plan.fact_names, facts, strict=True)),
    }
    lists = {index.name for index in plan.signature.indices if index.row_only}
    indices = {name: short(found[name]) for name in case.indices if name not in lists}
    results = zip(plan.signature.outputs, plan.outputs(statics, facts), strict=True)
    outputs = {output.name: fact and (short(fact[1]), short(fact[0])) for output, fact in results}
    due = {name: short(case.indices[name]) for name in indices}
    return (indices, outputs), (due, dict(case.outputs))


def finite(x):
    """Of eight bits none can be asked by itself."""
    return x is None or bool((x.double() if x.is_floating_point() else x).isfinite().all())


@each
def test_a_row_is_found_again_in_tensors_without_data(op):
    plan = build_plan(build_signature(load_spec(op)))
    for case in cases(plan.signature, requires=False):
        tensors = [
            fact
            and torch.empty(
                fact[1], dtype=getattr(torch, fact[0]), device="cpu" if item.on_cpu else "meta"
            )
            for item, fact in zip(plan.signature.inputs, case.inputs.values(), strict=True)
        ]
        found, due = inferred(plan, case, tensors)
        assert found == due, case.case_id


@each
def test_a_row_is_found_again_in_scaled_tensors_that_meet_what_it_requires(op):
    plan = build_plan(build_signature(load_spec(op)))
    for case in cases(plan.signature, requires=False):
        small = case.scaled(SCALED)
        assert small.elements <= 2_000_000, case.case_id
        torch.manual_seed(small.seed)
        tensors = made(small)
        for item, x in zip(plan.signature.inputs, tensors, strict=True):
            assert item.write_only or finite(x), (case.case_id, item.name)
        found, due = inferred(plan, small, tensors)
        assert found == due, case.case_id
        check_metadata(plan, call_of(plan, small)[0], tensors)


@each
def test_a_tensor_that_a_caller_may_leave_out_is_passed_by_a_row_and_left_out_by_one(op):
    signature = build_signature(load_spec(op))
    choices = {
        item.name
        for item in (*signature.construction_tensors, *signature.inputs)
        if item.optional is True
    }
    passed = [set(row.some) for row in signature.workloads]
    assert choices <= set().union(*passed)
    assert not choices & set.intersection(*passed)
