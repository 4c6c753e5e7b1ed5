"""What can have no value is found where it stands."""

from __future__ import annotations

import pytest

RULES = "signature.shape_rules"

NO_VALUE = [
    ("M // 0 > 0", "M // 0", "// divides by zero"),
    ("M % 0 == 0", "M % 0", "% divides by zero"),
    ("not flag or M // 0 > 0", "M // 0", "// divides by zero"),
    ("M // (2 - 2) > 0", "M // (2 - 2)", "// divides by zero"),
    ("M // (2 * 3 % 6) > 0", "M // (2 * 3 % 6)", "// divides by zero"),
    ("M + 7 % (3 - 3) > 0", "7 % (3 - 3)", "% divides by zero"),
    ("M / 0 > 1", "M / 0", "/ divides by zero"),
    ("ceil_div(M, 0) > 0", "ceil_div(M, 0)", "ceil_div divides by zero"),
    ("ceil_div(4, 0) > M", "ceil_div(4, 0)", "ceil_div divides by zero"),
    ("conv.out(M, N, 0, 1, 1) > 0", "conv.out(M, N, 0, 1, 1)", "conv.out has the stride 0"),
    ("(M, N)[2] > 0", "(M, N)[2]", "item 2 is read of 2"),
    ("(M, N)[-3] > 0", "(M, N)[-3]", "item -3 is read of 2"),
    ("stride[2] > 0", "stride[2]", "item 2 is read of 2"),
    ("flag and stride[-3] > 0 or N > 0", "stride[-3]", "item -3 is read of 2"),
    ("all(n // 0 > 0 for n in S)", "n // 0", "// divides by zero"),
    ("per_axis(stride, 2, 2) > 0", "per_axis(stride, 2, 2)", "per_axis reads axis 2 of 2"),
]


def no_value(check, changes):
    return [finding for finding in check(changes) if finding.code == "no-value"]


@pytest.mark.parametrize(("rule", "part", "message"), NO_VALUE)
def test_it_is_found_with_a_caret(check, rule, part, message):
    (finding,) = no_value(check, {RULES: f'- "{rule}"'})
    assert f"the refinement {rule}: {message}, whatever a call is" == finding.message
    span = finding.span
    assert span.text[span.column - 1 : span.column - 1 + span.length] == part


VALUES = [
    "M // 1 > 0 or N > 0", "(M, N)[1] > 0", "(M, N)[-2] > 0", "stride[1] > 0", "stride[-2] > 0",
    "0 // 4 == 0 or M > 0", "per_axis(stride, -1, 2) > 0", "ceil_div(0, 4) < M",
    "conv.out(M, 1, 1, 1, 1) > 0", "M % 2 == 0", "S[0] > 0",
]  # fmt: skip


@pytest.mark.parametrize("rule", VALUES)
def test_what_may_have_a_value_is_not(check, rule):
    assert no_value(check, {RULES: f'- "{rule}"'}) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("signature.let", "q: M // 0"),
        ("signature.let", "zero: 4 - 4\nq: M // zero"),
        ("signature.outputs", 'y: {dtype: T, shape: "[M // 0]"}'),
        ("signature.inputs", 'x: {dtype: T, shape: "[M, N, *S]", mutated: "stride[0] // 0 > 0"}'),
        ("roofline", "{flops: M // 0}"),
        ("roofline", "{flops: M, bytes: M % 0}"),
    ],
)
def test_every_expression_is_looked_at(check, place, text):
    assert no_value(check, {place: text})


def test_a_quantity_that_a_call_decides_is_no_literal(check):
    assert no_value(check, {"signature.let": "zero: M - 2\nq: N // zero"}) == []
