from __future__ import annotations

import dataclasses
import enum
from decimal import Decimal
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileops_core.kernels.typed_keys import marked, needs_mark

VALUES = st.recursive(
    st.sampled_from([0, 1, True, False, 0.0, -0.0, 1.0, float("nan"), None, "1", 1 + 0j, 0j, -0j])
    | st.sampled_from(
        [complex("nan"), np.float64(1.0), np.float32("nan"), np.int64(1), Decimal(1)]
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


def typed(value: Any) -> Any:
    """What a value is, spelled out, so that nothing merges."""
    if isinstance(value, tuple):
        return (type(value).__name__, *map(typed, value))
    return (type(value).__name__, repr(value))


@given(VALUES, VALUES)
def test_keys_are_equal_exactly_when_type_and_text_are(one, other):
    """DIS-03: for any nesting of numbers, words and tuples."""
    same = typed(one) == typed(other)
    # A set: comparing numpy scalars with tuples outright is an error, as keys they never meet.
    assert (len({marked(one), marked(other)}) == 1) == same


@given(VALUES)
def test_the_held_value_is_the_one_given(value):
    assert typed(marked(value)[0]) == typed(value)


def test_frozen_objects_are_kept_apart_by_their_fields():
    @attrs.frozen
    class Layout:
        block: Any

    @dataclasses.dataclass(frozen=True)
    class Pad:
        value: Any

    for kind in (Layout, Pad):
        assert marked(kind(1)) != marked(kind(True))
        assert marked(kind(1)) == marked(kind(1))


def test_members_of_sets_are_kept_apart():
    assert marked(frozenset({1})) != marked(frozenset({True}))
    assert marked(frozenset({1, 2})) == marked(frozenset({2, 1}))


def test_members_of_number_enumerations_are_not_numbers():
    class Mode(enum.IntEnum):
        ONE = 1

    assert marked(Mode.ONE) != marked(1)


@pytest.mark.parametrize(
    "annotation",
    [
        "int",
        "bool",
        "str | None",
        "torch.dtype",
        "tuple[int, ...]",
        "Literal['a', 'b']",
        int,
        int | None,
        tuple[int, ...],
        "int | tuple[int, ...] | None",
    ],
)
def test_fields_that_cannot_merge_need_no_mark(annotation):
    assert not needs_mark(annotation)


@pytest.mark.parametrize(
    "annotation",
    [
        "float",
        "int | bool",
        "Number",
        "tuple[float, ...]",
        "Any",
        float,
        float | None,
        object,
        "Literal[1, True]",
    ],
)
def test_fields_that_can_merge_need_a_mark(annotation):
    assert needs_mark(annotation)
