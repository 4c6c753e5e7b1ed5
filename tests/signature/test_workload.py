from __future__ import annotations

import pytest

from tileops_core.errors import ManifestError
from tileops_core.signature.workload import cases, check_workloads, instantiate, try_rows

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


# -- lists, metadata, tensors at construction --------------------------------------------------

LENS = {
    "forall__lens": "Seq[Int]",
    "inputs__w": None,
    "inputs__offsets": {
        "dtype": "int32",
        "shape": "[M + 1]",
        "values": "prefix_sum(lens)",
        "requires": ["prefix_offsets(N)"],
    },
}
PACKED = {**ROW, "M": 2, "N": 5, "lens": [2, 3]}


def test_metadata_is_made_by_the_generator(build):
    case = only(build(**LENS, workloads=[PACKED]))
    assert case.inputs["offsets"] == ("int32", (3,))
    assert case.metadata() == {"offsets": [0, 2, 5]}
    assert case.indices["lens"] == (2, 3)


@pytest.mark.parametrize(
    ("text", "lens"),
    [
        ("repeat(2, 3)", (2, 2, 2)),
        ("balanced_sizes(7, 3)", (3, 2, 2)),
        ("repeat(2 * 4, 1 + 1)", (8, 8)),
        ("repeat(-1, 0)", ()),
    ],
)
def test_a_list_may_be_written_as_a_call(build, text, lens):
    row = {**PACKED, "M": len(lens), "N": sum(lens), "lens": text}
    assert only(build(**LENS, workloads=[row])).indices["lens"] == lens


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repeat(2)", "takes 2 arguments"),
        ("repeats(2, 3)", "did you mean 'repeat'"),
        ("repeat(M, 3)", "M stands as an argument, and those in rows are numbers"),
        ("balanced_sizes(total, 3)", "total stands as an argument"),
        ("7", "a list of ints, as in repeat(...) or balanced_sizes(...), is due"),
        ("repeat(2, 2000000000)", "from 0 to 1048576 items"),
        ("repeat(2, 3", "never closed"),
        ("balanced_sizes(3, 0)", "cannot be shared out"),
    ],
)
def test_a_list_that_cannot_be_read_is_told_where_it_stands(problems, text, message):
    (problem,) = problems(**LENS, workloads=[{**PACKED, "lens": text}])
    assert message in problem.message
    assert "lens" in problem.span.text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROW, "some": ["w", "w"]}, "row: some names w twice"),
        ({**ROW, "dtype_cases": [{"T": "float16"}] * 2}, "dtype_cases has {T: float16} twice"),
        ({**ROW, "small": {"P": 1}}, "small gives P, which the row itself does not give"),
    ],
)
def test_what_a_row_says_in_vain_is_told(problems, row, message):
    (problem,) = problems(**ROPE, workloads=[row])
    assert problem.code == "row"
    assert message in problem.message


def test_what_could_not_be_read_in_a_row_is_not_missing_there(problems):
    row = {**ROW, "flag": 10**30}
    assert [p.code for p in problems(workloads=[row])] == ["too-large"]
    changes = {"params__count": {"type": "int", "kw_only": True}}
    found = problems(**changes, workloads=[{**ROW, "count": 10**30}])
    assert [p.code for p in found] == ["too-large"]


@pytest.mark.parametrize("value", [[1.5], ["2"], 3, [True]])
def test_a_list_holds_ints(problems, value):
    (problem,) = problems(**LENS, workloads=[{**PACKED, "lens": value}])
    assert problem.code == "row"
    assert "lens" in problem.message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**PACKED, "lens": [2, 2]}, "offsets[2] is 4, the last offset must be 5"),
        ({**PACKED, "lens": [2, 2, 1]}, "offsets is [M + 1] = (3,), prefix_sum gives (4,)"),
        ({**PACKED, "lens": [7, -2]}, "offsets: prefix_sum: a sequence has the length -2"),
        ({**PACKED, "N": 2**40, "lens": [2**39, 2**39]}, "or int32 does not hold it"),
        ({k: v for k, v in PACKED.items() if k != "lens"}, "its branch uses lens"),
    ],
)
def test_metadata_that_the_entry_refuses_is_a_fault_of_the_row(build, row, message):
    signature = build(**LENS, workloads=[row])
    with pytest.raises(ManifestError) as caught:
        only(signature)
    assert message in str(caught.value)
    assert message in next(iter(check_workloads(signature))).message


def test_requirements_may_be_left_for_later(build):
    signature = build(**LENS, workloads=[{**PACKED, "lens": [2, 2]}])
    assert only(signature, requires=False).inputs["offsets"] == ("int32", (3,))


def test_metadata_of_a_tensor_that_is_not_passed_is_not_made(build):
    optional = {**LENS["inputs__offsets"], "optional": True}
    changes = {**LENS, "inputs__offsets": optional}
    without = only(build(**changes, workloads=[ROW]))
    assert (without.metadata(), without.inputs["offsets"]) == ({}, None)
    with pytest.raises(ManifestError, match="gives lens, which its branch does not use"):
        only(build(**changes, workloads=[PACKED]))
    assert only(build(**changes, workloads=[{**PACKED, "some": ["offsets"]}])).metadata()


def test_a_seed_belongs_to_a_case(build):
    draws = {
        "inputs__w": None,
        "inputs__ids": {"dtype": "int64", "shape": "[M, N]", "values": "random_ids(M, N, 1000)"},
    }
    cases_of = [{"T": "float16"}, {"T": "float32"}]
    signature = build(**draws, workloads=[{**ROW, "dtype_cases": cases_of}])
    one, other = cases(signature)
    again, _ = cases(signature)
    assert one.metadata() == again.metadata() != other.metadata()
    assert one.seed == again.seed != other.seed
    assert 0 <= one.seed < 2**63


def test_the_outputs_of_a_case_are_known(build):
    outputs = {"outputs__z": {"dtype": "float32", "shape": "[N, M]", "nullable": "flag"}}
    signature = build(**outputs, workloads=[ROW, {**ROW, "label": "flagged", "flag": True}])
    plain, flagged = cases(signature)
    assert plain.outputs == {"y": ("float16", (2, 3, 4)), "z": ("float32", (3, 2))}
    assert flagged.outputs["z"] is None
    assert plain.elements == 24 + 24 + 6


def test_an_output_of_negative_length_is_a_fault_of_the_row(build):
    signature = build(outputs__z={"dtype": "T", "shape": "[M - 3]"}, workloads=[ROW])
    with pytest.raises(ManifestError, match=r"z would have the shape \(-1,\)"):
        only(signature)


TABLE = {
    "params__table": {"dtype": "float32", "shape": "[N]", "optional": True, "kw_only": True},
}


def test_a_tensor_at_construction_is_passed_when_the_row_says_so(build):
    without, given = (
        only(build(**TABLE, workloads=[{**ROW, "some": some}])) for some in ([], ["table"])
    )
    assert without.tensors == {"table": None}
    assert given.tensors == {"table": ("float32", (3,))}
    assert "table" not in given.params


def test_a_row_without_its_index_is_told_of_the_branch_alone(build):
    changes = {
        "forall__P": "Dim",
        "inputs__r": {"dtype": "T", "shape": "[P]", "optional": "mode == 'b'"},
        "let": {"L": "P if mode == 'b' else M"},
        "shape_rules": ["L > 0"],
        "workloads": [ROW, {**ROW, "label": "other", "mode": "b", "P": 7}],
    }
    assert [case.case_id for case in cases(build(**changes))] == ["row-float16", "other-float16"]


def test_dtypes_that_do_not_go_together_are_a_fault_of_the_row(build):
    changes = {
        "forall__U": "DType[int8 | int16]",
        "inputs__w": {"dtype": "U", "shape": "[N]"},
        "dtype_combos": [{"T": "float16", "U": "int8"}, {"T": "float32", "U": "int16"}],
    }
    right, wrong = ([{"T": "float16", "U": dtype}] for dtype in ("int8", "int16"))
    assert only(build(**changes, workloads=[{**ROW, "dtype_cases": right}]))
    with pytest.raises(ManifestError, match=r"\(T, U\) in .* does not hold"):
        only(build(**changes, workloads=[{**ROW, "dtype_cases": wrong}]))


def test_a_long_chain_of_quantities_is_no_trouble_to_a_row(build):
    lets = {f"L{i}": f"L{i + 1} + 1" for i in range(1200)}
    signature = build(let={**lets, "L1200": "M"}, shape_rules=["L0 == M + 1200"], workloads=[ROW])
    assert only(signature)


def test_a_value_per_axis_may_be_one_for_all(build):
    signature = build(
        params__step={"type": "int | tuple[int, int]", "kw_only": True},
        shape_rules=["step == (2, 2)"],
        workloads=[{**ROW, "step": 2}],
    )
    assert only(signature).params["step"] == 2


def test_cases_of_a_row_that_are_tried_share_their_metadata(build):
    draws = {
        "inputs__w": None,
        "inputs__ids": {"dtype": "int64", "shape": "[M, N]", "values": "random_ids(M, N, 1000)"},
    }
    cases_of = [{"T": "float16"}, {"T": "float32"}]
    rows = [{**ROW, "dtype_cases": cases_of}, {**ROW, "label": "more", "M": 5}]
    one, other, more = try_rows(build(**draws, workloads=rows))
    assert one.metadata()["ids"] is other.metadata()["ids"]
    assert one.metadata() == one.case.metadata()
    assert len(more.metadata()["ids"]) == 5


def test_great_metadata_is_not_kept(build, monkeypatch):
    monkeypatch.setattr("tileops_core.signature.workload._KEPT", 5)
    draws = {
        "inputs__w": None,
        "inputs__ids": {"dtype": "int64", "shape": "[M, N]", "values": "random_ids(M, N, 1000)"},
    }
    one, other = try_rows(build(**draws, workloads=[ROW, {**ROW, "label": "more"}]))
    assert one.metadata() == one.case.metadata() != other.metadata()
    assert one.metadata()["ids"] is not one.metadata()["ids"]


def test_a_case_that_is_wrong_is_tried_and_told(build):
    wrong = {**ROW, "label": "wrong", "M": 7}
    one, other = try_rows(build(shape_rules=["M < 5"], workloads=[ROW, wrong]))
    assert (one.stands, one.faults) == (True, ())
    assert (other.stands, other.faults) == (False, ("M < 5 does not hold",))
