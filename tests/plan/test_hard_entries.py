"""The rows of the hardest entries describe calls that their plans take, and mean what they say."""

from __future__ import annotations

import hard_entries
import pytest
import torch

from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.signature.problems import Problems
from tileops_core.signature.workload import cases, check_workloads

OPS = hard_entries.OPS


@pytest.mark.parametrize("op", OPS)
def test_the_entry_is_well_formed(op):
    assert list(Problems(hard_entries.spec(op).problems)) == []
    assert list(check_workloads(hard_entries.signature(op))) == []


@pytest.mark.parametrize("op", OPS)
def test_a_case_means_what_its_row_says(op):
    plan = build_plan(hard_entries.signature(op))
    for case in cases(plan.signature):
        statics, specs = call_of(plan, case)
        facts = dict(zip(plan.fact_names, plan.check(statics, *specs), strict=True))
        facts |= dict(zip(plan.static_names, statics, strict=True))
        for index in plan.signature.indices:
            given = case.indices.get(index.name)
            if index.row_only:
                continue
            found = facts[index.name]
            if isinstance(found, torch.dtype):
                found = str(found).removeprefix("torch.")
            assert (tuple(found) if isinstance(found, tuple) else found) == given
