from __future__ import annotations

import pytest

from benchmarks import (
    call_overhead,
    cold_start,
    construction,
    in_tree,
    instructions,
    memory,
    validator,
)
from benchmarks.rows import FULL, Row, Section, Unmeasured, from_json, measured, to_json
from benchmarks.workers import joined

SECTIONS = [
    module.SECTION
    for module in (
        call_overhead,
        in_tree,
        memory,
        construction,
        instructions,
        cold_start,
        validator,
    )
]
PROMISED = {  # every claim of the README about calls, memory, construction and cold start
    "null_1": 2.0,
    "null_2": 2.5,
    "null_3": 3.0,
    "null_short_1": 2.0,
    "null_short_2": 2.5,
    "null_short_3": 3.0,
    "relu": 2.3,
    "softmax": 2.3,
    "sum": 2.3,
    "gemm": 3.1,
    "rms_norm": 3.6,
    "parameter_no_grad": 3.6,
    "parameter_inference": 3.6,
    "grad": 15.0,
    "by_hand": 4.5,
    "strided": 4.6,
    "new_shape": 75.0,
    "new_shape_short": 75.0,
    "first_call": 60.0,
    "rotation_ratio": 1.5,
    "seen_once": 3.0,
    "seen_once_short": 3.0,
    "bytes_instance": 1_200,
    "bytes_called": 3_200,
    "bytes_shape": 1_200,
    "import_one": 0.15,
    "import_all": 0.6,
    "first_construction": 20.0,
    "class_construction": 3.0,
    "peak": 15.0,
    "construct_RMSNormFwdOp": 20.0,
    "validate_all": 10.0,
    "validate_family": 0.5,
}


def test_every_promise_is_a_row_with_its_budget() -> None:
    budgets = {row.key: row.budget for section in SECTIONS for row in section}
    assert PROMISED.items() <= budgets.items()


def test_row_keys_and_titles_are_unique() -> None:
    rows = [row for section in SECTIONS for row in section]
    assert len({row.key for row in rows}) == len(rows)
    assert len({(row.section, row.title) for row in rows}) == len(rows)


def test_a_row_that_fails_is_a_value_with_its_reason() -> None:
    section = Section("s")

    @section.add("k", "t", "us", 1.0)
    def _fails() -> float:
        raise KeyError("no such\nthing")

    (row,) = section
    assert measured(row) == Unmeasured("KeyError: 'no such\\nthing'")


def test_a_figure_that_is_no_number_is_not_measured() -> None:
    section = Section("s")

    @section.add("k", "t", "us", 1.0)
    def _nan() -> float:
        return float("nan")

    (row,) = section
    assert isinstance(measured(row), Unmeasured)


@pytest.mark.parametrize("value", [1.25, Unmeasured("no CUDA here")])
def test_values_survive_the_way_out_of_a_worker(value: float | Unmeasured) -> None:
    assert from_json(to_json(value)) == value


def _row(unit: str) -> Row:
    return Row("key", "title", unit, None, lambda: 0.0, section="section")


def test_of_several_processes_the_quietest_counts() -> None:
    assert joined(_row("us"), [3.0, Unmeasured("died"), 1.0, 2.0]) == 1.0
    assert joined(_row("us"), [Unmeasured("first"), Unmeasured("second")]) == Unmeasured("first")


def test_of_a_ratio_the_median_counts() -> None:
    assert joined(_row("x"), [3.0, Unmeasured("died"), 1.0, 1.5]) == 1.5


def test_a_full_run_uses_several_processes() -> None:
    assert FULL.processes >= 3
    assert FULL.starts >= 5
