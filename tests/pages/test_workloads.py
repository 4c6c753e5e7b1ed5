"""The table of an op's workloads."""

from __future__ import annotations

from tileops_core.pages.workloads import cost_of, workloads
from tileops_core.plan.build import build_plan
from tileops_core.signature.workload import cases


def rows(entries, op: str) -> list[list[str]]:
    entry = entries[op]
    lines = workloads(entry.signature, entry.comments)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_row_has_its_case_and_what_it_costs(entries) -> None:
    head, _, first, *_ = rows(entries, "AcmeScaleFwdOp")
    assert head == ["workload", "with", "inputs", "FLOP", "bytes", "FLOP/byte"]
    assert first == ["`opt-1.3b-ffn-float16`", "the usual", "x 4096", "4.10 k", "16.4 k", "0.25"]


def test_what_stands_above_is_not_repeated_within_a_row(entries) -> None:
    _, _, first, second, third = rows(entries, "AcmeScaleFwdOp")
    assert second[:3] == ["`opt-1.3b-ffn-float32`", "″", "″"]
    assert third[2] == first[2] == "x 4096"


def test_parameters_that_are_not_the_defaults_are_told(entries) -> None:
    assert rows(entries, "AcmeScaleFwdOp")[4][1] == "factor=0.5, inplace=True"


def test_lists_that_only_rows_have_and_values_of_sums_are_told(entries) -> None:
    assert rows(entries, "AcmeTileFwdOp")[2][1] == "layout=masked(max_m=3), lens=[2, 3, 4]"


def test_neighbors_of_one_shape_stand_together_and_absent_tensors_nowhere(entries) -> None:
    _, _, packed, single = rows(entries, "AcmeTileFwdOp")
    assert packed[2] == "table 8, x 9, offsets 4, host [], made left right 9"
    assert single[2] == "table 8, x 9, offsets 2, host [], made 9"


def test_rows_that_say_nothing_else_have_no_column_for_it(entries) -> None:
    head, *_ = rows(entries, "OtherFwdOp")
    assert head == ["workload", "inputs", "FLOP", "bytes", "FLOP/byte"]


def test_an_entry_without_a_cost_has_empty_cells(entries) -> None:
    assert rows(entries, "OtherFwdOp")[2] == ["`gpt2-all`", "x 4", "", "", ""]


def test_the_cost_is_that_of_a_records_roofline(entries) -> None:
    signature = entries["AcmeTileFwdOp"].signature
    case = next(cases(signature))
    assert cost_of(build_plan(signature), case) == (0, 72)


def test_metadata_are_made_only_where_a_cost_function_reads_them(entries, monkeypatch) -> None:
    signature = entries["AcmeTileFwdOp"].signature
    case = next(cases(signature, requires=False))
    monkeypatch.setattr(type(case), "metadata", lambda self: pytest_fails())
    assert cost_of(build_plan(signature), case) == (0, 72)


def pytest_fails() -> None:
    raise AssertionError("nobody asked for metadata")
