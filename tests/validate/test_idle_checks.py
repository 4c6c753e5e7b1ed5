"""What stands in an entry and has no effect is told."""

from __future__ import annotations

import pytest

from tileops_core.validate.examples import entry_text

MAT = """
    Mat:
      params: {t: Bool, A: Dim, B: Dim}
      match: t
      cases:
        - {when: false, is: "[A, B]"}
        - {when: true, is: "[B, A]"}
"""
FLAT = {
    "signature.forall": '{M: Dim, N: Dim, T: "DType[float16 | float32]"}',
    "signature.outputs": 'y: {dtype: T, shape: "[M, N]"}',
    "workloads": "- {label: tiny, M: 2, N: 3, dtype_cases: [{T: float16}]}",
    "signature.types": MAT,
}
GIVEN = "- {label: tiny, size: 5, M: 2, N: 3, S: [4], dtype_cases: [{T: float16}]}"


# -- quantities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lets", ["L: M", "L: K + 1\nK: M"])
def test_a_quantity_that_nothing_reads_is_a_finding(codes, lets):
    assert codes({"signature.let": lets}) == ["unused"] * (lets.count("\n") + 1)


@pytest.mark.parametrize(
    "reader",
    [
        {"signature.shape_rules": "- L > 0"},
        {"roofline": "{flops: L + 1}"},
        {"roofline": "{flops: M, bytes: L + 1}"},
        {"signature.outputs": 'y: {dtype: T, shape: "[L]"}'},
        {"signature.outputs": 'y: {dtype: T, shape: "[M]", nullable: "flag and L > 3"}'},
        {"signature.let": "L: M\nK: L + 1", "roofline": "{flops: K}"},
        {
            "signature.inputs": """
                x: {dtype: T, shape: "[M, N, *S]"}
                i: {dtype: int32, shape: "[M]", values: "sample_indices(M, L)"}
            """
        },
        {
            "signature.inputs": """
                x: {dtype: T, shape: "[M, N, *S]"}
                i: {dtype: int32, shape: "[M]", values: "sample_indices(M, 2)",
                    requires: ["in_range(0, L)"]}
            """
        },
    ],
)
def test_one_that_something_reads_is_none(codes, reader):
    assert "unused" not in codes({"signature.let": "L: M", **reader})


def test_a_cost_function_gets_every_quantity(codes):
    assert codes({"signature.let": "L: M", "roofline": "{func: some.module.cost}"}) == []


# -- conditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["M >= 0", "1 == 1", "flag or not flag"])
def test_a_refinement_that_always_holds_is_a_finding(check, rule):
    (finding,) = check({"signature.shape_rules": f"- {rule}"})
    assert finding.code == "constant"
    assert finding.message == f"the refinement {rule} holds for every call"


@pytest.mark.parametrize("rule", ["M < 0", "flag and not flag"])
def test_one_that_never_holds_is_one_finding(check, rule):
    """Neither every row nor the branches are at fault for it too."""
    (finding,) = check({"signature.shape_rules": f"- {rule}"})
    assert finding.code == "constant"
    assert finding.message == f"the refinement {rule} holds for no call"


@pytest.mark.parametrize(
    "inputs",
    [
        'x: {dtype: T, shape: "[M, N, *S]"}\nw: {dtype: T, shape: "[N]", optional: "flag or True"}',
        'x: {dtype: T, shape: "[M, N, *S]", mutated: "flag and not flag"}',
    ],
)
def test_so_is_another_condition(codes, inputs):
    assert codes({"signature.inputs": inputs}) == ["constant"]


def test_dtypes_that_go_together_in_every_way_are_stated_and_no_finding(codes):
    changes = {
        "signature.forall": '{M: Dim, T: "DType[float16]", U: "DType[int8]"}',
        "signature.inputs": 'x: {dtype: T, shape: "[M]"}\nw: {dtype: U, shape: "[M]"}',
        "signature.outputs": 'y: {dtype: T, shape: "[M]"}',
        "signature.dtype_combos": "- {T: float16, U: int8}",
        "workloads": "- {label: tiny, M: 2, dtype_cases: [{T: float16, U: int8}]}",
    }
    assert codes(changes) == []


@pytest.mark.parametrize(
    "rules", ["- M > 1\n- M > 1", "- M > 1 and M > 1", "- M > 1\n- N > 1 and M > 1"]
)
def test_a_condition_that_stands_twice_is_a_finding(check, rules):
    (finding,) = check({"signature.shape_rules": rules})
    assert finding.code == "constant"
    assert finding.message.endswith("asks what was asked before")


def test_a_condition_that_is_one_of_others_stands_once(codes):
    assert codes({"signature.shape_rules": "- M > 1\n- M > 1 or N > 5"}) == []


def test_a_wrong_row_hides_no_constant_refinement(codes):
    rows = "- {label: tiny, M: two, N: 3, S: [4], dtype_cases: [{T: float16}]}"
    assert codes({"signature.shape_rules": "- M >= 0", "workloads": rows}) == ["constant", "row"]


# -- dtypes and cases -----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["T == float16", "T != float32 or (flag and not flag)"])
def test_a_dtype_that_refinements_exclude_is_a_finding(check, rule):
    (finding,) = check({"signature.shape_rules": f"- {rule}"})
    assert finding.code == "unreachable"
    assert finding.message == "T is float32 in no accepted call"


@pytest.mark.parametrize("rule", ["T == float16 or flag", "T == float16 or M > 1"])
def test_one_that_some_branch_has_is_none(codes, rule):
    assert codes({"signature.shape_rules": f"- {rule}"}) == []


@pytest.mark.parametrize(
    ("shape", "rule"),
    [("Mat[flag, M, N]", "not flag"), ("Mat[False, M, N]", "M > 0"),
     ("Mat[flag, M, N]", "flag == (mode == 'a') and mode == 'b'")],
)  # fmt: skip
def test_a_case_that_no_call_takes_is_a_finding(check, shape, rule):
    x = f'x: {{dtype: T, shape: "{shape}"}}'
    rows = FLAT["workloads"].replace("tiny,", "tiny, mode: b,")
    report = check({**FLAT, "signature.inputs": x, "signature.shape_rules": f"- {rule}",
                    "workloads": rows})  # fmt: skip
    (finding,) = (f for f in report if f.code == "unreachable")
    assert finding.message == "Mat: no accepted call takes the case true"
    assert "when: true" in finding.span.text


def test_a_case_that_one_tensor_takes_is_none(codes):
    inputs = """
        x: {dtype: T, shape: "Mat[False, M, N]"}
        w: {dtype: T, shape: "Mat[True, M, N]"}
    """
    assert codes({**FLAT, "signature.inputs": inputs}) == []


# -- defaults -------------------------------------------------------------------------------------


def params(**defaults):
    return "\n".join(f"{name}: {{type: {text}}}" for name, text in defaults.items())


def test_a_default_that_a_refinement_refuses_is_a_finding_at_the_default(check):
    changes = {
        "signature.params": params(size="int, default: 0"),
        "signature.shape_rules": "- size > 0",
        "workloads": GIVEN,
    }
    (finding,) = check(changes)
    assert finding.code == "bad-default"
    assert finding.message == "by default size = 0, and size > 0 does not hold"
    assert finding.span.text[finding.span.column - 1 :].startswith("0}")


@pytest.mark.parametrize(
    ("declared", "rule", "wrong"),
    [
        (params(size="int, default: 3", top="int, default: 4"), "size > top", True),
        (params(size="int, default: 5", top="int, default: 4"), "size > top", False),
        (params(size="int", top="int, default: 4"), "size > top", False),  # size is free
        (params(size="int", top="int, default: 0"), "size < 0 and top > 0", True),
        (params(size="int, default: 3", top="int, default: 0"), "size // top > 0", True),
        (params(size="int | None, default: null"), "present(size)", True),
        # One of several has to be given.
        (params(size="int | None, default: null", top="int | None, default: null"),
         "present(size) or present(top)", False),
        (params(size="int, default: 3", mode="\"'a' | 'b'\""), "mode == 'a' or size > 3", False),
        (params(size="'int | tuple[int, int]', default: 1"), "per_axis(size, 1, 2) > 0", False),
        (params(size="int, default: 3"), "size + M > 9", False),  # a call tells
    ],
)  # fmt: skip
def test_defaults_are_tried_together_and_what_has_none_is_free(check, declared, rule, wrong):
    rows = GIVEN.replace("size: 5", "size: 9" + (", mode: a" if "mode" in declared else ""))
    report = check({
        "signature.params": declared, "signature.shape_rules": f"- {rule}", "workloads": rows,
    })  # fmt: skip
    assert ("bad-default" in report.codes) is wrong


def test_the_small_entry_itself_has_nothing_idle(check):
    assert list(check(entry_text())) == []
