"""What a composite op is made of are ops."""

from __future__ import annotations

import pytest

from tileops_core.op import Op
from tileops_core.validate import Report, validate
from tileops_core.validate.examples import OP, entry_text

STATED = {
    "family": "probe",
    "status": "spec-only",
    "signature": {
        "forall": {"M": "Dim"},
        "inputs": {"x": {"dtype": "float16", "shape": "[M]"}},
        "outputs": {"y": {"dtype": "float16", "shape": "[M]"}},
    },
    "workloads": [{"label": "one", "M": 1}],
}


@pytest.fixture
def staged(tmp_path):
    """``staged("SumFwdOp")`` validates a composite op of these stages, beside ``SecondFwdOp``."""

    def run(*ops: str, code: bool = True, alone: bool = False) -> Report:
        stages = ", ".join(f"{{name: s{i}, op: {op}}}" for i, op in enumerate(ops))
        text = entry_text({"composition": f"{{kind: composite, stages: [{stages}]}}"})
        (tmp_path / "probe.yaml").write_text(text, encoding="utf-8")
        other = entry_text().replace(OP, "SecondFwdOp")
        (tmp_path / "probe_more.yaml").write_text(other, encoding="utf-8")
        return validate(tmp_path / "probe.yaml" if alone else tmp_path, code=code)

    return run


def test_a_stage_may_be_an_installed_op_or_one_of_the_files_given(staged):
    report = staged("SumFwdOp", "SecondFwdOp")
    assert (list(report), report.notes) == ([], ())


def test_a_stage_that_neither_the_files_nor_what_is_installed_has_is_a_finding(staged):
    (finding,) = staged("SumFwdOp", "SecndFwdOp")
    assert (finding.code, finding.op) == ("composition", OP)
    assert finding.message == (
        "the stage s1 is 'SecndFwdOp', an op without an entry (did you mean 'SecondFwdOp'?)"
    )
    assert finding.span.text[finding.span.column - 1 :].startswith("SecndFwdOp")
    (finding,) = staged("SecondFwdOp", alone=True)
    assert "check the file that has its entry too" in finding.hint


def test_a_stage_may_be_an_op_whose_class_states_its_entry(staged):
    held = type("StatedFwdOp", (Op,), {"spec": STATED})
    assert list(staged(held.__name__)) == []


def test_a_misspelled_stage_may_be_meant_for_an_op_whose_class_states_its_entry(staged):
    held = type("StatedFwdOp", (Op,), {"spec": STATED})
    (finding,) = staged("StatdFwdOp")
    assert finding.message.endswith(f"(did you mean {held.__name__!r}?)")


def test_without_code_a_stage_that_a_backend_may_have_is_a_note(staged):
    report = staged("SecndFwdOp", code=False)
    assert list(report) == []
    (note,) = report.notes
    assert note.startswith(f"{OP}: the stage s0 is 'SecndFwdOp', an op without an entry")
