"""Every combination of discriminants is looked at, and none that refinements rule out."""

from __future__ import annotations

import pytest

FORALL = '{M: Dim, N: Dim, K: Dim, S: Shape, T: "DType[float16 | float32]"}'
WITH_K = """
    x: {dtype: T, shape: "[M, N, *S]"}
    w: {dtype: T, shape: "[K]", optional: true}
"""
MAT = """
    Mat:
      params: {t: Bool, A: Dim, B: Dim}
      match: t
      cases:
        - {when: false, is: "[A, B]"}
        - {when: true, is: "[B, A]"}
"""


@pytest.mark.parametrize(
    "where",
    [
        {"signature.let": "L: K if flag else 0"},
        {"signature.let": "L: K if present(w) or flag else 0"},
        {"signature.shape_rules": "- not flag or K > 0"},
        {"signature.shape_rules": "- mode == 'a' or K > 0"},
        {"roofline": "{flops: M + (K if flag else 0)}"},
    ],
)
def test_an_index_that_some_branch_reads_in_vain_is_a_finding(check, where):
    report = check({"signature.forall": FORALL, "signature.inputs": WITH_K, **where})
    assert "branch-unsettled" in report.codes or "unsolved" in report.codes
    assert any("K" in finding.message for finding in report)


def test_the_finding_names_the_branch(check):
    report = check(
        {
            "signature.forall": FORALL,
            "signature.inputs": WITH_K,
            "signature.let": "L: K if flag else 0",
            "signature.shape_rules": "- L != 7",
        }
    )
    (finding,) = (f for f in report if "let L" in f.message)
    assert finding.message == (
        "let L reads K, which nothing settles where flag is true and w is not there"
    )


@pytest.mark.parametrize(
    "where",
    [
        {"signature.let": "L: K if present(w) else 0"},
        {"signature.let": "L: K if present(w) and flag else 0"},
        {"signature.let": "L: 0 if not present(w) else K"},
        {"signature.let": "P: K if present(w) else 0\nL: P + 1"},
        {"signature.shape_rules": "- not present(w) or K > 0"},
        {"signature.shape_rules": "- present(w) == flag", "signature.let": "L: K if flag else 0"},
        {"roofline": "{flops: M + (K if present(w) else 0)}"},
    ],
)
def test_an_index_that_is_settled_where_it_is_read_is_none(check, where):
    used = {"roofline": "{flops: L + M}"} if "signature.let" in where else {}
    report = check({"signature.forall": FORALL, "signature.inputs": WITH_K, **used, **where})
    assert list(report) == []


IDS = """
    x: {dtype: T, shape: "[M, N, *S]"}
    i: {dtype: int32, shape: "[M]", values: "sample_indices(M, N)", requires: ["in_range(0, TOP)"]}
    w: {dtype: T, shape: "[K]", optional: true}
"""


@pytest.mark.parametrize(
    ("top", "found"),
    [("K", ["unsolved", "row"]), ("K if flag else N", ["branch-unsettled"]),
     ("K if present(w) else N", [])],
)  # fmt: skip
def test_a_predicate_reads_what_is_settled_wherever_its_tensor_is(codes, top, found):
    assert codes({"signature.forall": FORALL, "signature.inputs": IDS.replace("TOP", top)}) == found


def test_a_gap_that_a_refinement_rules_out_is_none(check):
    changes = {
        "signature.forall": '{M: Dim, N: Dim, T: "DType[float16 | float32]"}',
        "signature.inputs": 'x: {dtype: T, shape: "Mat[flag, M, N]"}',
        "signature.outputs": 'y: {dtype: T, shape: "[M, N]"}',
        "signature.types": MAT.replace('        - {when: true, is: "[B, A]"}\n', ""),
        "workloads": "- {label: tiny, M: 2, N: 3, dtype_cases: [{T: float16}]}",
    }
    assert check(changes).codes == {"family-gap"}
    assert list(check({**changes, "signature.shape_rules": "- not flag"})) == []


def test_refinements_that_leave_no_combination_are_a_finding(codes):
    found = codes({"signature.shape_rules": "- flag == (mode == 'a')\n- flag != (mode == 'a')"})
    assert found.count("no-branch") == 2


def test_discriminants_that_nothing_ties_are_not_multiplied(check):
    flags = "\n".join(f"f{n}: {{type: bool, default: false}}" for n in range(30))
    rules = "\n".join(f"- f{n} or M != {n + 10}" for n in range(30))
    report = check({"signature.params": flags, "signature.shape_rules": rules})
    assert list(report) == []
    assert report.counts.branches < 200


def test_more_combinations_than_can_be_gone_through_are_a_finding(codes):
    flags = "\n".join(f"f{n}: {{type: bool, default: false}}" for n in range(30))
    together = " and ".join(f"f{n}" for n in range(30))
    assert "too-many-branches" in codes(
        {"signature.params": flags, "signature.shape_rules": f"- not ({together})"}
    )


def test_two_outputs_that_are_one_input_on_a_branch_are_a_finding(codes):
    changes = {
        "signature.inputs": 'x: {dtype: T, shape: "[M, N, *S]", mutated: flag}',
        "signature.outputs": """
            y: {dtype: T, shape: "[M, N, *S]", alias: x}
            z: {dtype: T, shape: "[M, N, *S]", alias: x}
        """,
    }
    assert codes(changes) == ["effect-branch"]


def test_an_output_that_is_none_and_an_alias_on_one_branch_is_a_finding(codes):
    changes = {
        "signature.inputs": 'x: {dtype: T, shape: "[M, N, *S]", mutated: true}',
        "signature.outputs": 'y: {dtype: T, shape: "[M, N, *S]", alias: x, nullable: flag}',
    }
    assert codes(changes) == ["effect-branch"]
    changes["signature.inputs"] = changes["signature.inputs"].replace("true", "not flag")
    assert codes(changes) == []
