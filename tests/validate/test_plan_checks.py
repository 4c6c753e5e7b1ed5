"""The code generated from an entry does on its rows what the entry says."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tileops_core.plan.build import build_plan
from tileops_core.record.signature_call import Traffic
from tileops_core.signature.build import build_signature
from tileops_core.signature.problems import Problems
from tileops_core.spec.catalogue import load_spec
from tileops_core.validate import plan_checks
from tileops_core.validate.plan_checks import check_plan


def faults(signature, **plan_changes):
    """The findings about generated code, some of its functions replaced."""
    problems = Problems()
    original = plan_checks.build_plan
    plan_checks.build_plan = lambda s: attrs.evolve(build_plan(s), **plan_changes)
    try:
        check_plan(signature, problems, installed=True)
    finally:
        plan_checks.build_plan = original
    return {problem.code for problem in problems}


@pytest.fixture
def relu():
    return build_signature(load_spec("ReLUFwdOp"))


def test_generated_code_that_does_what_the_entry_says_has_no_finding(relu):
    assert faults(relu) == set()


def test_indices_that_do_not_come_back_are_a_finding(relu):
    plan = build_plan(relu)

    def check(statics, *inputs):
        facts = dict(zip(plan.fact_names, plan.check(statics, *inputs), strict=True))
        shapes = {n: (7, *f) for n, f in facts.items() if isinstance(f, tuple)}
        return tuple({**facts, **shapes}.values())

    assert "row-inference" in faults(relu, check=check)


def test_outputs_that_differ_from_the_entry_are_a_finding(relu):
    plan = build_plan(relu)

    def outputs(statics, facts):
        return tuple(((*shape, 1), dtype) for shape, dtype in plan.outputs(statics, facts))

    assert faults(relu, outputs=outputs) == {"row-inference"}


def test_writes_that_are_no_effect_branch_are_a_finding(relu):
    assert faults(relu, written=lambda statics, facts: ("other",)) == {"effect-branch"}


def test_a_branch_of_an_effect_is_counted_as_the_entry_says(relu, monkeypatch):
    monkeypatch.setattr(
        "tileops_core.record.signature_call.SignatureCall.traffic",
        property(lambda record: {"input": Traffic(2, 0), "output": Traffic(0, 1)}),
    )
    assert "effect-branch" in faults(relu)


def test_code_that_needs_the_number_behind_a_length_is_a_finding(relu):
    plan = build_plan(relu)

    def outputs(statics, facts):
        found = plan.outputs(statics, facts)
        assert all(type(length) is int for shape, _ in found for length in shape)
        return found

    assert faults(relu, outputs=outputs) == {"symbolic"}


COSTLY = """
from pathlib import Path
Path(__file__).with_name("witness").touch()
def cost(record):
    return 1, 1
"""


def test_a_cost_function_runs_only_for_entries_that_are_installed(check, tmp_path, monkeypatch):
    (tmp_path / "costly_functions.py").write_text(COSTLY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    changes = {"roofline": "{func: costly_functions.cost}"}
    report = check(changes, code=True)
    assert list(report) == []
    assert "costly_functions.cost was not run" in report.notes[0]
    assert not Path(tmp_path, "witness").exists()
    signature = build_signature(load_spec("ReLUFwdOp"))
    cost = attrs.evolve(signature.roofline, flops=None, func="costly_functions.cost")
    assert faults(attrs.evolve(signature, roofline=cost)) == set()
    assert Path(tmp_path, "witness").exists()


def test_a_failure_of_the_checks_themselves_is_told_and_hides_no_other_entry(check, monkeypatch):
    def fail(*_, **__):
        raise RecursionError("too deep")

    monkeypatch.setattr("tileops_core.validate.check_entry", fail)
    (finding,) = check()
    assert finding.code == "library-fault"
    assert "RecursionError: too deep" in finding.message
