"""What a call evaluates of an entry's expressions, and what refuses it."""

from __future__ import annotations

import pytest
from probe_calls import call, signature

from tileops_core.signature.instance import Instance
from tileops_core.validate.walks import Walker, missed, stated

OUTPUT = """
    y: {dtype: T, shape: "[M - 3]", nullable: flag}
    z: {dtype: T, shape: "[M // N]"}
"""


def whats(of, walk):
    return [of[number].what for number in sorted(walk.valued)]


def test_every_expression_is_stated_once_in_the_order_of_a_call():
    of = signature(let="half: M // 2", shape_rules="- half > 0", outputs=OUTPUT)
    found = [place.what for place in stated(of)]
    assert found == [
        "let half", "the refinement half > 0", "x: dtype", *["x: shape"] * 3, "w: dtype",
        "w: shape", "y: nullable", "y: dtype", "y: shape", "z: dtype", "z: shape",
    ]  # fmt: skip


def test_what_is_not_there_is_not_evaluated():
    of = signature(outputs=OUTPUT)
    walker = Walker(of)
    without = whats(walker.places, walker.walk(call(of, flag=True)))
    assert "w: shape" not in without
    assert "y: shape" not in without
    whole = whats(walker.places, walker.walk(call(of, "w")))
    assert {"w: shape", "y: shape"} <= set(whole)


@pytest.mark.parametrize(
    ("sizes", "refusing"),
    [
        ({"M": 9}, set()),
        ({"M": 2, "N": 1}, {"y: shape"}),  # a negative length
        ({"M": 9, "N": 10}, {"the refinement M > N"}),
        ({"M": 9, "N": 0}, {"z: shape"}),  # no value
        ({"M": 0, "N": 0}, {"the refinement M > N", "y: shape", "z: shape"}),
    ],
)
def test_what_refuses_a_call_is_told(sizes, refusing):
    of = signature(outputs=OUTPUT, shape_rules="- M > N")
    walker = Walker(of)
    walk = walker.walk(call(of, **{"N": 3, **sizes}))
    assert {walker.places[number].what for number in walk.refused} == refusing


def test_a_call_stands_for_a_place_that_alone_refuses_it():
    of = signature(outputs=OUTPUT, shape_rules="- M > N")
    walker = Walker(of)
    number = next(i for i, place in enumerate(walker.places) if place.refines)
    assert walker.walk(call(of, M=9, N=10)).stands_for(number)
    assert not walker.walk(call(of, M=0, N=0)).stands_for(number)


def test_a_quantity_without_a_value_is_at_fault_and_not_what_reads_it():
    of = signature(let="part: M // N", shape_rules="- part > 0")
    walker = Walker(of)
    walk = walker.walk(call(of, N=0))
    assert [walker.places[number].what for number in walk.failed] == ["let part"]
    assert len(walk.refused) == 1


def test_a_call_without_an_index_stands_for_nothing():
    of = signature(shape_rules="- M > N")
    instance = Instance(of, "call", (), call(of).params, {"M": 2, "S": (4,), "T": "float16"})
    walk = Walker(of).walk(instance)
    assert walk.refused
    assert not any(walk.stands_for(number) for number in range(9))


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ("M > 0", []),
        ("M < 3 or N > 5", ["N > 5"]),
        ("M < 3 or flag", []),  # a name cannot fail
        ("M < 3 or N > 5 and M // N > 1", ["N > 5 and M // N > 1"]),
        ("(M + 1 if N > 9 else N * 2) > 1", ["M + 1"]),
        ("5 < M < N + 1 or flag or M > 1", ["N + 1"]),
        ("not flag or stride[0] > 0", ["stride[0] > 0"]),
    ],
)
def test_the_greatest_parts_without_a_value_are_missed(rule, parts):
    of = signature(shape_rules=f'- "{rule}"')
    walker = Walker(of)
    walk = walker.walk(call(of))
    (number,) = [i for i, place in enumerate(walker.places) if place.refines]
    found = missed(walker.places[number], walk.valued[number])
    texts = [p.span.text[p.span.column - 1 :][: p.span.length] for p, _ in found]
    assert texts == parts


def test_what_leads_to_a_missed_part_is_told():
    of = signature(shape_rules="- not flag or mode == 'a' or M > 5")
    place = next(place for place in stated(of) if place.refines)
    valued = {id(place.expr), id(place.expr.items[0])}
    second, third = missed(place, valued)
    assert [due for _, due in second[1]] == [False]
    assert [due for _, due in third[1]] == [False, False]
