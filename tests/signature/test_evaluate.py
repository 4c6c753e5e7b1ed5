from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops_core.signature.evaluate import axes_of, evaluate
from tileops_core.spans import NOWHERE
from tileops_core.spec.expressions import Axes
from tileops_core.spec.grammar import parse_expression, parse_shape

VALUES = {"M": 7, "N": 3, "flag": True, "S": (2, 3, 5), "mode": "a"}

numbers = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["M", "N", "0", "1", "12", "len(S)", "S[1]", "S[-1]"]),
        st.tuples(numbers, st.sampled_from(["+", "-", "*", "//", "%"]), numbers).map(" ".join),
        numbers.map(lambda text: f"({text})"),
        numbers.map(lambda text: f"-({text})"),
        numbers.map(lambda text: f"sum(i * ({text}) for i in S[1:])"),
        st.tuples(numbers, conditions, numbers).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    )
)
conditions = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["flag", "mode == 'a'", "mode in ('b', 'c')", "S[:2] == (2, 3)"]),
        st.tuples(numbers, st.sampled_from(["<", "<=", "==", "!="]), numbers).map(" ".join),
        st.tuples(conditions, st.sampled_from(["and", "or"]), conditions).map(" ".join),
        conditions.map(lambda text: f"not {text}"),
    )
)


def is_small(text: str) -> bool:
    """Whether the language's bounds on size and nesting allow the text."""
    nested = text.count("(") >= 20 or "not " * 5 in text or "not " * 4 + "-" in text
    return len(text) < 200 and text.count("sum") < 3 and not nested


def value(text: str) -> object:
    return evaluate(parse_expression(text, lambda *_: NOWHERE), VALUES)


@settings(max_examples=300)
@given(st.one_of(numbers, conditions).filter(is_small))
def test_an_expression_has_the_value_that_python_gives_it(text):
    try:
        expected = eval(text, {"len": len, "sum": sum, "__builtins__": {}, **VALUES})
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            value(text)
    else:
        assert value(text) == expected


def test_what_stands_behind_a_condition_is_not_evaluated():
    assert value("M if flag else M // 0") == 7
    assert value("flag or M // 0 == 1") is True
    assert value("not flag and M // 0 == 1") is False
    assert value("M < N < M // 0") is False


def test_a_dtype_constant_stands_for_itself():
    assert value("float16") == "float16"


def test_the_axes_of_a_shape_are_spliced():
    shape = parse_shape("[M, *S, *broadcast(S, (1, 1)), 2 * N]", lambda *_: NOWHERE)
    assert isinstance(shape, Axes)
    assert axes_of(shape.items, VALUES) == (7, 2, 3, 5, 2, 3, 5, 6)
