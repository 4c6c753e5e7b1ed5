"""Type families whose cases leave values out."""

from __future__ import annotations

import pytest

ONE = {
    "params": {"a": "Bool", "b": "Bool", "N": "Dim"},
    "match": ["a", "b"],
    "cases": [
        {"when": [True, True], "is": "[N]"},
        {"when": [True, False], "is": "[N + 1]"},
        {"when": [False, True], "is": "[N + 2]"},
    ],
}
LAYOUT = {"params__layout": {"type": "MGroupedLayout", "default": {"masked": {"max_m": 4}}}}
MASKED_ONLY = {
    "params": {"layout": "MGroupedLayout", "N": "Dim"},
    "match": "layout",
    "cases": [{"when": {"masked": "_"}, "is": "[N]"}],
}


def of(shape, family, **more):
    return {"types": {"F": family}, "outputs__y": {"dtype": "T", "shape": shape}, **more}


def codes(found):
    return {problem.code for problem in found}


def test_a_value_that_is_accepted_and_has_no_case_is_a_gap(problems):
    found = problems(**of("F[flag, present(w), N]", ONE))
    assert codes(found) == {"family-gap"}
    assert "F has no case for [false, false], which y may need" in found[0].message


@pytest.mark.parametrize(
    "rule",
    ["flag or present(w)", "not (not flag and not present(w))", "present(w) if not flag else True"],
)
def test_a_restriction_rules_a_value_out(problems, rule):
    assert problems(**of("F[flag, present(w), N]", ONE, shape_rules=[rule])) == ()


def test_a_refinement_that_reads_a_length_rules_nothing_out(problems):
    rules = ["flag or present(w) or M > 1"]
    assert codes(problems(**of("F[flag, present(w), N]", ONE, shape_rules=rules))) == {"family-gap"}


def test_a_value_that_no_application_has_needs_no_case(problems):
    assert problems(**of("F[flag, True, N]", ONE)) == ()
    assert codes(problems(**of("F[flag, False, N]", ONE))) == {"family-gap"}


def test_a_value_that_only_comes_without_the_tensor_needs_no_case(problems):
    nullable = {"dtype": "T", "shape": "F[flag, False, N]", "nullable": "not flag"}
    assert problems(types={"F": ONE}, outputs__y=nullable) == ()
    optional = {"dtype": "T", "shape": "F[flag, False, N]", "optional": "flag"}
    assert problems(types={"F": ONE}, inputs__w=optional) == ()


def test_a_form_of_a_sealed_sum_may_be_ruled_out(problems):
    changes = of("F[layout, N]", MASKED_ONLY, **LAYOUT)
    assert codes(problems(**changes)) == {"family-gap"}
    assert problems(**changes, shape_rules=["layout.kind == 'masked'"]) == ()


def test_a_pattern_with_a_field_covers_the_values_that_have_it(problems):
    cases = [
        {"when": {"masked": "_"}, "is": "[N]"},
        {"when": {"contiguous": {"metadata_kind": "per_row"}}, "is": "[N]"},
    ]
    changes = of("F[layout, N]", {**MASKED_ONLY, "cases": cases}, **LAYOUT)
    (problem,) = problems(**changes)
    assert "no case for {contiguous: {metadata_kind: physical_psum}}" in problem.message
    rule = "layout.kind == 'masked' or layout.metadata_kind == 'per_row'"
    assert problems(**changes, shape_rules=[rule]) == ()


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ({"contiguous": "_"}, set()),
        ({"dense": "_"}, {"family-match"}),
        ({"contiguous": {"metadata_kind": "per_column"}}, {"family-match"}),
        ({"contiguous": {"alignment": 1}}, {"family-match"}),
        ({"masked": {"max_m": 4}}, {"family-match"}),
        ({"masked": "_"}, {"family-overlap"}),
        ("contiguous", {"family-match"}),
    ],
)
def test_a_pattern_is_of_a_form_and_of_fields_with_finitely_many_values(problems, case, code):
    cases = [*MASKED_ONLY["cases"], {"when": case, "is": "[N]"}]
    found = problems(**of("F[layout, N]", {**MASKED_ONLY, "cases": cases}, **LAYOUT))
    assert codes(found) - {"family-gap"} == code


def test_a_case_reads_the_fields_of_its_form_alone(problems):
    good = [
        {"when": {"masked": "_"}, "is": "[layout.max_m]"},
        {"when": {"contiguous": "_"}, "is": "[layout.alignment]"},
    ]
    assert problems(**of("F[layout, N]", {**MASKED_ONLY, "cases": good}, **LAYOUT)) == ()
    good[1]["is"] = "[layout.max_m]"
    found = problems(**of("F[layout, N]", {**MASKED_ONLY, "cases": good}, **LAYOUT))
    assert codes(found) == {"not-in-branch"}


def test_a_case_hands_its_form_on_to_the_family_that_it_applies(problems):
    families = {
        "F": {
            **MASKED_ONLY,
            "cases": [
                {"when": {"masked": "_"}, "is": "G[layout, N]"},
                {"when": {"contiguous": "_"}, "is": "[N]"},
            ],
        },
        "G": MASKED_ONLY,
    }
    y = {"dtype": "T", "shape": "F[layout, N]"}
    assert problems(types=families, outputs__y=y, **LAYOUT) == ()
