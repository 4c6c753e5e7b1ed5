"""What a condition settles for what stands behind it."""

from __future__ import annotations

import pytest

LAYOUT = {
    "params__layout": {"type": "MGroupedLayout", "default": {"masked": {"max_m": 4}}},
}
PADDING = {"params__pad": {"type": "int | tuple[int, int] | 'valid' | 'same'", "default": 0}}


@pytest.mark.parametrize(
    "rule",
    [
        "layout.kind == 'masked'",
        "layout.kind != 'masked' or layout.max_m > 1",
        "layout.max_m > 1 if layout.kind == 'masked' else layout.packing == 'tight'",
        "layout.kind in ('masked',) and layout.max_m > 1",
        "not (layout.kind == 'contiguous') and layout.max_m > 1",
        "layout.kind == 'masked' or layout.packing == 'tight' or M % layout.alignment == 0",
    ],
)
def test_a_field_is_read_behind_its_form(problems, rule):
    assert problems(**LAYOUT, shape_rules=[rule]) == ()


@pytest.mark.parametrize(
    "rule",
    [
        "layout.max_m > 1",
        "layout.kind == 'contiguous' and layout.max_m > 1",
        "layout.max_m > 1 and layout.kind == 'masked'",
        "layout.kind == 'masked' or layout.max_m > 1",
        "layout.packing == 'tight' if layout.kind == 'masked' else layout.max_m > 1",
    ],
)
def test_a_field_is_not_read_before_or_beside_its_form(problems, rule):
    assert {p.code for p in problems(**LAYOUT, shape_rules=[rule])} == {"not-in-branch"}


def test_the_remedy_names_the_form(problems):
    (problem,) = problems(**LAYOUT, shape_rules=["layout.max_m > 1"])
    assert problem.message == "max_m is a field of masked only"
    assert problem.hint == "ask layout.kind == 'masked' first, and read it behind that"


@pytest.mark.parametrize(
    "rule",
    [
        "pad == 'same' or pad == 'valid' or per_axis(pad, 0, 2) >= 0",
        "pad in ('same', 'valid') or per_axis(pad, 0, 2) >= 0",
        "(0 if pad in ('valid', 'same') else per_axis(pad, 0, 2)) >= 0",
        "pad != 'same' or mode == 'a'",
    ],
)
def test_behind_its_words_a_padding_is_a_number_per_axis(problems, rule):
    assert problems(**PADDING, shape_rules=[rule]) == ()


@pytest.mark.parametrize(
    "rule", ["per_axis(pad, 0, 2) > 0", "pad == 'same' or per_axis(pad, 0, 2) > 0"]
)
def test_while_a_word_is_left_a_padding_is_no_number(problems, rule):
    assert {p.code for p in problems(**PADDING, shape_rules=[rule])} == {"kind"}


def test_a_word_that_an_earlier_condition_took_is_never_equal(problems):
    found = problems(**PADDING, shape_rules=["pad == 'same' or pad == 'same'"])
    assert {p.code for p in found} == {"never-equal"}
