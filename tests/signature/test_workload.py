from __future__ import annotations

import pytest

from tileops_core.errors import ManifestError
from tileops_core.signature.workload import cases, check_workloads, instantiate

ROW = {"label": "row", "M": 2, "N": 3, "S": [4], "dtype_cases": [{"T": "float16"}]}
ROPE = {
    "forall__P": "Dim",
    "inputs__r": {"dtype": "T", "shape": "[P]", "optional": "mode == 'b'"},
}


def only(signature, **options):
    row = signature.workloads[0]
    return instantiate(signature, row, row.dtype_cases[0], **options)


def test_a_row_becomes_a_call_with_every_parameter_and_shape(build):
    case = only(build(workloads=[{**ROW, "some": ["w"], "flag": True}]))
    assert case.case_id == "row-float16"
    assert case.params == {
        "flag": True,
        "mode": "a",
        "cap": None,
        "size": None,
        "dim": None,
        "dtype": None,
    }
    assert case.inputs == {"x": ("float16", (2, 3, 4)), "w": ("float16", (3,))}
    assert case.indices == {"M": 2, "N": 3, "S": (4,), "T": "float16"}


def test_an_optional_tensor_is_passed_only_when_the_row_says_so(build):
    assert only(build(workloads=[ROW])).inputs["w"] is None


def test_the_case_id_names_dtypes_and_dtype_parameters(build):
    signature = build(workloads=[{**ROW, "dtype": "float32"}])
    assert only(signature).case_id == "row-float16-float32"


def test_small_sizes_replace_those_of_the_row(build):
    signature = build(workloads=[{**ROW, "small": {"M": 1, "flag": True}}])
    case = only(signature, small=True)
    assert case.inputs["x"] == ("float16", (1, 3, 4))
    assert case.params["flag"] is True
    assert only(signature).inputs["x"] == ("float16", (2, 3, 4))


def test_a_row_expands_to_one_case_per_dtype_case(build):
    signature = build(workloads=[{**ROW, "dtype_cases": [{"T": "float16"}, {"T": "float32"}]}])
    assert [case.case_id for case in cases(signature)] == ["row-float16", "row-float32"]


def test_instantiation_is_deterministic(build):
    signature = build(workloads=[ROW])
    assert only(signature) == only(signature)


def test_a_tensor_under_a_condition_is_passed_when_it_holds(build):
    signature = build(**ROPE, workloads=[{**ROW, "mode": "b", "P": 5}])
    assert only(signature).inputs["r"] == ("float16", (5,))
    assert only(build(**ROPE, workloads=[ROW])).inputs["r"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({**ROPE, "workloads": [{**ROW, "mode": "b"}]}, "uses P, which the row does not give"),
        ({**ROPE, "workloads": [{**ROW, "P": 5}]}, "gives P, which its branch does not use"),
        ({"workloads": [ROW], "shape_rules": ["M > 2"]}, "M > 2 does not hold"),
        ({"workloads": [ROW], "shape_rules": ["flag"]}, "flag does not hold"),
        ({"workloads": [ROW], "shape_rules": ["T == float32"]}, "T == float32 does not hold"),
        ({"workloads": [ROW], "shape_rules": ["M // 0 == 1"]}, "zero"),
        ({"workloads": [ROW], "shape_rules": ["S[3] == 1"]}, "out of range"),
        (
            {"workloads": [ROW], "inputs__w": {"dtype": "T", "shape": "[M - 3]"}},
            "would have the shape",
        ),
        (
            {"workloads": [ROW], "inputs__w": {"dtype": "T", "shape": "[*broadcast(S, (M, 3))]"}},
            "do not broadcast",
        ),
    ],
)
def test_a_row_that_describes_no_call_is_refused(build, changes, message):
    signature = build(**changes)
    with pytest.raises(ManifestError, match=message):
        only(signature)
    (problem, *_) = check_workloads(signature)
    assert message in problem.message
    assert problem.span.text.endswith("label: row")


def test_two_cases_with_one_id_are_refused(build):
    signature = build(workloads=[ROW, {**ROW, "M": 5}])
    with pytest.raises(ManifestError, match="row-float16"):
        list(cases(signature))
    assert any("row-float16" in problem.message for problem in check_workloads(signature))


def test_every_optional_tensor_is_passed_by_a_row_and_omitted_by_one(build):
    found = [problem.message for problem in check_workloads(build(workloads=[ROW]))]
    assert found == ["no row passes w, which is optional"]
    both = build(workloads=[ROW, {**ROW, "label": "other", "some": ["w"]}])
    assert list(check_workloads(both)) == []


def test_a_quantity_reads_the_indices_it_needs(build):
    signature = build(
        let={"L": "K * 2", "K": "M + 1"},
        inputs__w={"dtype": "T", "shape": "[L]"},
        workloads=[ROW],
    )
    assert only(signature).inputs["w"] == ("float16", (6,))
