"""Calls that are made to try an expression on."""

from __future__ import annotations

import itertools

import hard_entries
import pytest
from probe_calls import call, signature

from tileops_core.signature.workload import try_rows
from tileops_core.spec.entries import AdtValue
from tileops_core.validate.trials import Trials
from tileops_core.validate.walks import Walker, missed


def calls(of, count=40):
    """Calls for the first part of the refinement that a usual call does not evaluate."""
    row = call(of)
    walker = Walker(of)
    walk = walker.walk(row)
    number = next(i for i, place in enumerate(walker.places) if place.refines)
    part, conditions = next(missed(walker.places[number], walk.valued[number]))
    made = Trials(of, [row]).of(walker.places[number], part, conditions)
    return list(itertools.islice(made, count))


@pytest.mark.parametrize(
    ("rule", "name", "value"),
    [
        ("not flag or M > 5", "flag", True),
        ("mode == 'a' or M > 5", "mode", "b"),
        ("not present(cap) or M > 5", "cap", 2),
    ],
)
def test_what_a_branch_needs_is_set_first(rule, name, value):
    (first, *_) = calls(signature(shape_rules=f'- "{rule}"'))
    assert first.params[name] == value


def test_a_dtype_that_a_branch_needs_is_set():
    (first, *_) = calls(signature(shape_rules="- T == float16 or M > 5"))
    assert first.given["T"] == "float32"


def test_a_tensor_that_a_branch_needs_is_passed():
    (first, *_) = calls(signature(shape_rules="- not present(w) or M > 5"))
    assert first.some == ("w",)


def test_the_rest_is_as_the_row_has_it():
    (first, *_) = calls(signature(shape_rules="- not flag or M > 5"))
    assert (first.given["M"], first.given["N"], first.given["S"]) == (2, 3, (4,))


@pytest.mark.parametrize("number", [77, 4097])
def test_sizes_beside_a_number_of_the_condition_are_tried(number):
    made = calls(signature(shape_rules=f'- "M < {number} or N * 2 > 5"'))
    assert {number - 1, number, number + 1} <= {c.given["M"] for c in made}


def test_quantities_are_seen_through():
    of = signature(let="q: M * 2", shape_rules="- q < 77 or N * 2 > 5")
    assert any(c.given["M"] == 77 for c in calls(of))


def test_what_other_refinements_ask_of_the_branch_is_tried():
    of = signature(shape_rules="- not flag or M > 5\n- not flag or N == 7")
    assert any(c.given["N"] == 7 and c.params["flag"] for c in calls(of, 150))


def test_shapes_of_other_ranks_are_tried():
    made = calls(signature(shape_rules="- len(S) < 3 or N * 2 > 5"), 100)
    assert {len(c.given["S"]) for c in made} >= {0, 1, 2, 3, 4}


def test_values_that_fit_no_other_call_are_changed_in_pairs():
    made = calls(signature(shape_rules="- M < 77 or N < 99 or N * 2 > 5"), 2000)
    assert any(c.given["M"] >= 77 and c.given["N"] >= 99 for c in made)


def test_a_value_of_a_sealed_sum_is_whole():
    of = hard_entries.signature("ExpertProductsFwdOp")
    rows = [tried.instance for tried in try_rows(of) if tried.stands]
    walker = Walker(of)
    trials = Trials(of, rows[:1])
    forms = set()
    for place in walker.places:
        for made in itertools.islice(trials.of(place, place.expr, place.conditions), 8):
            layout = made.params["layout"]
            assert isinstance(layout, AdtValue)
            assert layout.fields
            forms.add(layout.kind)
            assert walker.walk(made).valued
    assert forms == {"masked", "contiguous"}
