"""Tests for the tests: backends that get one thing wrong, each told by name."""

from __future__ import annotations

import pytest
from wrong_backends import FAULTS, right

from tileops_core.conformance.outcomes import FAILED

OPS = sorted({fault.op for fault in FAULTS})


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_told_by_name(fault, target, results):
    with target(**{fault.op: fault.build}) as name:
        found = results(name, fault.op, columns=fault.columns | fault.spares)
    failed = [r for r in found if r.outcome == FAILED]
    assert {r.column for r in failed} == fault.columns
    assert [r.message for r in failed if not r.message.startswith(fault.says)] == []


@pytest.mark.parametrize("op", OPS)
def test_a_backend_without_a_fault_passes(op, target, results):
    with target(**{op: right(op)}) as name:
        assert [(r.id, r.message) for r in results(name, op) if r.outcome == FAILED] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_other_random_values_change_nothing(seed, target, results):
    ops = ("GELUFwdOp", "AddFwdOp", "LayerNormFwdOp", "GQADenseFwdOp")
    with target(**{op: right(op) for op in ops}) as name:
        found = results(name, *ops, seed=seed)
    assert [(r.id, r.message) for r in found if r.outcome == FAILED] == []
