"""No rule is silently left out: what is declared is checked, and what is checked can fail."""

from __future__ import annotations

from importlib.resources import files

import attrs
import pytest
import yaml

from tileops_core.errors import SignatureError
from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.signature.build import build_signature
from tileops_core.signature.problems import Problems
from tileops_core.signature.workload import cases, check_workloads
from tileops_core.spec.catalogue import known_ops, load_spec
from tileops_core.spec.expressions import Const
from tileops_core.validate import Counts, validate
from tileops_core.validate.row_checks import check_rows

RULES = [(op, n) for op in sorted(known_ops()) for n, _ in enumerate(load_spec(op).rules)]


def declared() -> int:
    """The conditions of the installed manifest, counted in the text by nobody's reader."""
    count = 0
    for path in (files("tileops_manifest") / "spec").iterdir():
        if not path.name.endswith(".yaml") or path.name == "types.yaml":
            continue
        for entry in yaml.safe_load(path.read_text(encoding="utf-8")).values():
            signature = entry["signature"]
            count += len(signature.get("shape_rules", []))
            count += "dtype_combos" in signature  # a table is one condition
            count += sum(len(t.get("requires", [])) for t in signature.get("inputs", {}).values())
    return count


def test_every_rule_of_the_manifest_is_checked():
    """MAN-03."""
    counts = validate(str(files("tileops_manifest")), code=False).counts
    assert counts.rules_checked == counts.rules == declared() > 0


def with_rule(op, number):
    """The signature with one refinement made false whatever it reads."""
    signature = build_signature(load_spec(op))
    rules = list(signature.rules)
    never = Const(value=False, span=rules[number].span)
    rules[number] = attrs.evolve(rules[number], expr=never)
    return signature, attrs.evolve(signature, rules=tuple(rules)), rules[number].text


@pytest.mark.parametrize(("op", "number"), RULES)
def test_a_rule_that_does_not_hold_refuses_every_row(op, number):
    """MAN-03."""
    signature, broken, text = with_rule(op, number)
    said = [problem.message for problem in check_workloads(broken)]
    assert any(text in message for message in said)
    plan = build_plan(broken)
    for case in cases(signature):
        with pytest.raises(SignatureError) as caught:
            call(plan, case)
        assert text in str(caught.value)


def call(plan, case):
    """The checks of a call, as its op would run them."""
    statics, inputs = call_of(plan, case)
    plan.check(statics, *inputs)


def test_a_rule_that_no_row_evaluates_is_a_finding():
    signature = build_signature(load_spec("RMSNormFwdOp"))
    unread = attrs.evolve(signature, workloads=())
    problems, counts = Problems(), Counts()
    check_rows(unread, problems, counts)
    assert "rule-unchecked" in {problem.code for problem in problems}
    assert counts.rules_checked == 0


def test_predicates_of_metadata_are_counted(check):
    report = check(
        {
            "signature.inputs": """
                x: {dtype: T, shape: "[M, N, *S]"}
                ids:
                  dtype: int32
                  shape: "[M]"
                  values: sample_indices(M, N)
                  requires: ["in_range(0, N)"]
            """,
            "signature.shape_rules": "- M > 0",
        }
    )
    assert list(report) == []
    assert report.counts.rules == report.counts.rules_checked == 2
