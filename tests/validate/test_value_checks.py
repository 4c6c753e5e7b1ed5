"""No part of an expression is left unevaluated in silence."""

from __future__ import annotations

import pytest

RULES = "signature.shape_rules"


def no_value(report):
    return [finding for finding in report if finding.code == "no-value"]


def rule(text):
    return {RULES: f'- "{text}"'}


FAIL = [
    "not flag or M // (N - N) > 0",
    "mode == 'a' or M % (N - N) == 0",
    "not present(cap) or cap.value % (M - M) == 0",
    "not present(w) or M // (N - N) > 0",
    "M < 100 or M // (N - N) > 0",
    "T == float16 or M // (N - N) > 0",
    "M < 3 or N > 5 or M // (N - N) > 0",
    "all(n // (M - M) > 0 for n in S[1:])",
    "5 < M < 5 + M // (M - M) or M < 3",
    "not flag or mode == 'a' or M // (N - N) > 0",
]


@pytest.mark.parametrize("text", FAIL)
def test_what_fails_on_a_branch_that_no_row_takes_is_found(check, text):
    (finding,) = no_value(check(rule(text)))
    assert "has no value on any call that was tried: integer" in finding.message
    assert "add one of the branch" in finding.hint
    span = finding.span
    part = span.text[span.column - 1 : span.column - 1 + span.length]
    assert "(M - M)" in part or "(N - N)" in part


def test_the_values_tried_are_told(check):
    (finding,) = no_value(check(rule("not flag or M // (N - N) > 0")))
    assert "with M=" in finding.message
    assert ", N=" in finding.message


HOLD = [
    "not flag or M // N > 0",
    "not flag or M // (N - 3) > 0",  # the row's own N is 3
    "mode == 'a' or M % stride[1] >= 0",
    "not present(cap) or cap.value % M >= 0",
    "not present(w) or M // N >= 0",
    "M < 100 or M // N > 0",
    "M != 12345 or M // N > 0",
    "not flag or mhc.expansion(M) > 0",
    "all(n // M >= 0 for n in S[1:])",
    "M < 3 or N < 9 or M + N < 57 or M // 2 > 0",
]


@pytest.mark.parametrize("text", HOLD)
def test_what_has_a_value_on_such_a_branch_is_evaluated(check, text):
    report = check(rule(text))
    assert no_value(report) == []
    assert report.counts.not_evaluated == 0
    assert report.notes == ()


def test_what_nothing_reaches_is_counted_and_named(check):
    report = check(rule("flag or not flag or M // 2 > 0"))
    assert list(report) == []
    assert report.counts.not_evaluated == 1
    (note,) = report.notes
    assert note == (
        "ProbeFwdOp: the refinement flag or not flag or M // 2 > 0: no row evaluates M // 2 > 0 "
        "[probe.yaml:18], no call was found that does"
    )


def test_what_is_outside_a_domain_on_all_calls_tried_is_named(check):
    report = check(rule("not flag or mhc.expansion(M * M * M * M + N + 7000000) > 0"))
    assert no_value(report) == []
    assert report.counts.not_evaluated == 1
    assert "has no value (mhc.expansion: " in report.notes[0]


def test_a_branch_that_refinements_exclude_is_no_fault(check):
    report = check({RULES: "- not flag\n- not flag or M // (N - N) > 0"})
    assert no_value(report) == []
    assert report.counts.not_evaluated == 1


def test_a_refinement_keeps_the_calls_tried_to_what_is_accepted(check):
    """With N == 0 refused, the division has a value on every call that is accepted."""
    report = check({RULES: "- N > 0\n- not flag or M // N >= 0"})
    assert no_value(report) == []


PLACES = [
    ("signature.let", "q: M // (N - N) if flag else 1"),
    ("signature.outputs", 'y: {dtype: T, shape: "[M if not flag else M // (N - N)]"}'),
    (
        "signature.outputs",
        'y: {dtype: T, shape: "[M // (N - N)]", nullable: "mode == \'a\'"}',
    ),
    (
        "signature.inputs",
        'x: {dtype: T, shape: "[M, N, *S]", mutated: "flag and 1 // (stride[0] - stride[0]) > 0"}',
    ),
    ("roofline", "{flops: 'M if not flag else M // (N - N)'}"),
    ("roofline", "{flops: M, bytes: 'M if not present(w) else bytes(w) // (N - N)'}"),
]


@pytest.mark.parametrize(("place", "text"), PLACES)
def test_every_expression_is_evaluated_on_every_branch(check, place, text):
    assert no_value(check({place: text}))


def test_cases_of_a_type_family_are_evaluated(check):
    types = """
        Rows:
          params: {mode: "'a' | 'b'", M: Dim, N: Dim}
          match: mode
          cases:
            - {when: a, is: "[M]"}
            - {when: b, is: "[M // (N - N)]"}
    """
    changes = {
        "signature.types": types,
        "signature.outputs": 'y: {dtype: T, shape: "Rows[mode, M, N]"}',
    }
    assert no_value(check(changes))


def test_costs_read_bytes_on_the_calls_tried(check):
    report = check({"roofline": "{flops: 'M if not present(w) else bytes(w) // M'}"})
    assert list(report) == []
    assert report.counts.not_evaluated == 0


def test_an_entry_whose_rows_are_refused_is_left_to_those(check):
    report = check({RULES: "- M > 100\n- not flag or M // (N - N) > 0"})
    assert {finding.code for finding in report} == {"row"}


def test_a_literal_fault_is_told_once(check):
    assert len(no_value(check(rule("not flag or M // 0 > 0")))) == 1


def test_what_stands_beside_another_fault_is_found_too(check):
    report = check({"signature.let": "q: unknown", **rule("not flag or M // (N - N) > 0")})
    assert {finding.code for finding in report} == {"unknown-name", "no-value"}
    assert report.counts.not_evaluated == 0


def test_the_installed_manifest_is_evaluated_in_full():
    from importlib.resources import files

    from tileops_core.validate import validate

    report = validate(str(files("tileops_manifest")), code=False)
    assert list(report) == []
    assert report.counts.not_evaluated == 0
