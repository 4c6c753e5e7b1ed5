"""What each predicate accepts, and which value it names where it does not hold."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops_core.signature.predicates import PREDICATES

PROFILE = settings(max_examples=100, derandomize=True, database=None, deadline=None)

MASKED = SimpleNamespace(kind="masked", max_m=4)


def contiguous(metadata_kind, alignment=1):
    return SimpleNamespace(kind="contiguous", metadata_kind=metadata_kind, alignment=alignment)


ENDS, ROWS = contiguous("physical_psum", 4), contiguous("per_row", 4)

ACCEPTED = [
    ("in_range", [[0, 4], [2, 3]], (0, 5)),
    ("in_range", [-1, -1], (-1, 0)),
    ("in_range", [], (0, 0)),
    ("in_range", [[], []], (0, 0)),
    ("in_range", 3, (3, 4)),
    ("prefix_offsets", [0, 2, 2, 7], (7,)),
    ("prefix_offsets", [0], (0,)),
    ("max_segment", [0, 3, 5], (3,)),
    ("max_segment", [5], (0,)),
    ("indices_within", [[0, 1], [2, 0]], ([0, 2, 2, 3],)),
    ("indices_within", [], ([0],)),
    ("chunk_offsets_of", [0, 2, 2, 3], ([0, 5, 5, 9], 4)),
    ("exclusive_prefix_of", [0, 3, 3], ([3, 0, 2],)),
    ("sums_to", [3, 0, 2], (5,)),
    ("attn.paged_fits", [3, 0], ([0, 5, 13], 8)),
    ("moe.layout_valid", [0, 4, 2], (MASKED, 12, 3)),
    ("moe.layout_valid", [3, 6, 8], (ENDS, 8, 3)),
    ("moe.layout_valid", [3, 4, 6], (ENDS, 12, 3)),
    ("moe.layout_valid", [0, 0, -1, -1, 2, 2, 2, 2], (ROWS, 8, 3)),
    ("moe.layout_valid", [-1, -1, -1, -1, 1, -1, -1, -1], (ROWS, 8, 3)),
    ("moe.layout_valid", [0, 2, 2], (contiguous("per_row"), 3, 3)),
    ("moe.layout_valid", [1, 1, 3], (contiguous("physical_psum"), 3, 3)),
]

REFUSED = [
    ("in_range", [[0, 4], [2, 5]], (0, 5), (1, 1), 5, "from 0 to 4"),
    ("in_range", [[[1], [-2]]], (-1, 5), (0, 1, 0), -2, "from -1 to 4"),
    ("in_range", [7], (0, 0), (0,), 7, "none is allowed"),
    ("in_range", 4, (0, 4), (), 4, "from 0 to 3"),
    ("prefix_offsets", [1, 2], (2,), (0,), 1, "must be 0"),
    ("prefix_offsets", [0, 5, 3], (3,), (2,), 3, "less than the offset before, 5"),
    ("prefix_offsets", [0, 3, 6], (7,), (2,), 6, "must be 7"),
    ("prefix_offsets", [], (7,), (), "empty", "0 and 7"),
    ("max_segment", [0, 3, 7], (3,), (2,), 7, "4 rows, at most 3"),
    ("indices_within", [[0, 1], [3, 0]], ([0, 2, 2, 3],), (1, 0), 3, "3 segments"),
    ("indices_within", [[0, 2]], ([0, 2],), (0, 1), 2, "segment 0 has 2 positions"),
    ("indices_within", [[0, -1]], ([0, 2],), (0, 1), -1, "2 positions"),
    ("indices_within", [[0, 0, 0]], ([0, 2],), (0,), [0, 0, 0], "a segment and a position"),
    ("chunk_offsets_of", [0, 1, 2], ([0, 5, 9], 4), (1,), 1, "2 chunks lie before"),
    ("chunk_offsets_of", [0, 2], ([0, 5, 9], 4), (), "2 values", "3 of them"),
    ("chunk_offsets_of", [0], ([0], 0), (), 0, "at least one row"),
    ("exclusive_prefix_of", [0, 2], ([3, 0],), (1,), 2, "3 is the sum"),
    ("exclusive_prefix_of", [0, 3, 3], ([3, 0],), (), "3 values", "2 of them"),
    ("sums_to", [3, 1], (5,), (), "4 in all", "add up to 5"),
    ("attn.paged_fits", [3, 1], ([0, 5, 13], 8), (1,), 1, "ends at 9, behind 8"),
    ("attn.paged_fits", [3], ([0, 5, 13], 8), (), "1 values", "2 segments"),
    ("moe.layout_valid", [0, 5], (MASKED, 8, 2), (1,), 5, "from 0 to 4"),
    ("moe.layout_valid", [0], (MASKED, 8, 2), (), "1 values", "2 of them"),
    ("moe.layout_valid", [3, 3, 8], (ENDS, 8, 3), (1,), 3, "begin at 4"),
    ("moe.layout_valid", [3, 9, 9], (ENDS, 8, 3), (1,), 9, "within 8"),
    ("moe.layout_valid", [0, 0, 1, 1], (ROWS, 4, 3), (2,), 1, "belong to expert 0"),
    ("moe.layout_valid", [0, -1, 0, 0], (ROWS, 4, 3), (2,), 0, "belong to expert -1"),
    ("moe.layout_valid", [1] * 4 + [0] * 4, (ROWS, 8, 3), (4,), 0, "rows of expert 1"),
    ("moe.layout_valid", [0, 3, 3, 3], (ROWS, 4, 3), (1,), 3, "3 experts"),
    ("moe.layout_valid", [0, -1], (contiguous("per_row"), 2, 3), (1,), -1, "3 experts"),
]


@pytest.mark.parametrize(("name", "values", "args"), ACCEPTED)
def test_a_predicate_accepts_what_its_docstring_says(name, values, args):
    assert PREDICATES[name].check(values, *args) is None


@pytest.mark.parametrize(("name", "values", "args", "place", "value", "message"), REFUSED)
def test_a_predicate_names_the_value_and_its_place(name, values, args, place, value, message):
    violation = PREDICATES[name].check(values, *args)
    assert (violation.place, violation.value) == (place, value)
    assert message in violation.message


def test_every_predicate_is_tried_both_ways():
    assert {name for name, *_ in ACCEPTED} == set(PREDICATES) == {name for name, *_ in REFUSED}


ints = st.integers(-3, 9)
layouts = st.one_of(
    st.builds(contiguous, st.sampled_from(["physical_psum", "per_row"]), st.integers(1, 4)),
    st.just(MASKED),
)


@PROFILE
@given(st.sampled_from(sorted(PREDICATES)), st.data())
def test_no_values_of_a_callers_tensor_crash_a_predicate(name, data):
    predicate = PREDICATES[name]
    rows = st.lists(st.lists(ints, min_size=2, max_size=2), max_size=6)
    values = data.draw(rows if predicate.rank == 2 else st.lists(ints, max_size=6))
    kinds = {"offsets": st.lists(ints, max_size=6), "sizes": st.lists(ints), "layout": layouts}
    args = [data.draw(kinds.get(argument.name, ints)) for argument in predicate.args]
    violation = predicate.check(values, *args)
    for index in violation.place if violation else ():
        values = values[index]
    if violation and violation.place and name != "max_segment":
        assert values == violation.value


@pytest.mark.parametrize(
    ("name", "values", "total"), [("prefix_offsets", [0, 2, 7], 7), ("sums_to", [2, 3], 5)]
)
def test_a_predicate_may_settle_its_argument(name, values, total):
    assert PREDICATES[name].settles(values) == total
    assert PREDICATES[name].check(values, total) is None
