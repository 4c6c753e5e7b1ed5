"""Metadata that is made once for calls that differ in little."""

from __future__ import annotations

import pytest

from tileops_core.signature.made import Made

IDS = {
    "inputs__w": None,
    "inputs__ids": {
        "dtype": "int16",
        "shape": "[M, N]",
        "values": "random_ids(M, N, 1000)",
        "requires": ["in_range(0, 1000)"],
    },
}


@pytest.fixture
def ids(build):
    return next(item for item in build(**IDS).inputs if item.name == "ids")


def test_equal_arguments_give_the_values_that_are_there_whatever_the_seed(ids):
    made = Made()
    first = made.values(ids, (2, 3, 1000), "1/ids")
    assert made.values(ids, (2, 3, 1000), "2/ids") is first
    assert Made().values(ids, (2, 3, 1000), "2/ids") != first
    assert made.count == 6


def test_other_arguments_give_values_of_their_own(ids):
    made = Made()
    first = made.values(ids, (2, 3, 1000), "1/ids")
    assert made.values(ids, (3, 3, 1000), "1/ids") != first
    assert made.count == 15


def test_each_dtype_is_asked_whether_it_holds_the_values(ids):
    made = Made()
    values = [[0, 127], [200, 5]]
    assert made.unheld(ids, values, "int16") is None
    violation = made.unheld(ids, values, "int8")
    assert (violation.place, violation.value) == ((1, 0), 200)
    assert made.unheld(ids, values, "int16") is None


def test_each_arguments_are_asked_of_a_predicate(ids):
    made = Made()
    (requirement,) = ids.requires
    values = [[0, 7], [3, 5]]
    assert made.violation(ids, requirement, values, (0, 8)) is None
    assert made.violation(ids, requirement, values, (0, 7)).place == (0, 1)
    assert made.violation(ids, requirement, [[0, 9], [3, 5]], (0, 8)).value == 9
