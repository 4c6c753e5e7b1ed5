"""Parts of expressions are evaluated as the whole is, and noted."""

from __future__ import annotations

import pytest

from tileops_core.signature.bindings import MissingIndexError
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.primitives import PrimitiveError
from tileops_core.spans import Span
from tileops_core.spec.expressions import Binary, Name
from tileops_core.spec.grammar import parse_expression
from tileops_core.validate.tracing import NoValue, Tracer

NAMES = {"M": 6, "N": 0, "S": (2, 3), "flag": False, "mode": "a", "cap": None, "x": None}


def parsed(text):
    return parse_expression(
        text, lambda offset, length=1: Span("probe.yaml", 1, offset + 1, length, text)
    )


EXPRESSIONS = [
    "M + 2 * N", "-M", "not flag", "flag or M > 3", "M > 3 and not flag", "flag and M // N > 0",
    "M if flag else N", "0 < M < 7", "0 < N < M // N", "M in (1, 6)", "mode == 'a'", "S[1]",
    "S[1:]", "sum(S)", "sum(n * M for n in S)", "all(n > 2 for n in S)", "max(M, N)",
    "(M, N) == (6, 0)", "present(cap) and cap.value > 1", "ceil_div(M, 4)", "len(S)", "present(x)",
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_value_is_that_of_the_whole(text):
    expr = parsed(text)
    tracer = Tracer()
    assert tracer.value(expr, NAMES) == evaluate(expr, NAMES)
    assert id(expr) in tracer.valued


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ("flag and M // N > 0", "M // N > 0"),
        ("not flag or M // N > 0", "M // N > 0"),
        ("M // N if flag else M", "M // N"),
        ("0 < N < M // N", "M // N"),
        ("all(M // N > 0 for n in S[2:])", "M // N > 0"),
    ],
)
def test_what_is_not_evaluated_is_not_noted(text, skipped):
    expr = parsed(text)
    tracer = Tracer()
    tracer.value(expr, NAMES)
    part = next(node for node in expr.walk() if _text(node, text) == skipped)
    assert id(part) not in tracer.valued


def _text(node, text):
    return text[node.span.column - 1 :][: node.span.length]


@pytest.mark.parametrize(
    ("text", "kind"),
    [("M // N", ZeroDivisionError), ("S[M]", IndexError), ("ceil_div(M, N)", PrimitiveError)],
)
def test_the_part_without_a_value_is_told(text, kind):
    expr = parsed(f"1 + ({text})")
    with pytest.raises(NoValue) as caught:
        Tracer().value(expr, NAMES)
    assert isinstance(expr, Binary)
    assert caught.value.part is expr.right
    assert isinstance(caught.value.cause, kind)


def test_a_name_whose_quantity_has_none_is_not_at_fault():
    class Lets:
        def get(self, name, default):
            raise ZeroDivisionError

    with pytest.raises(NoValue) as caught:
        Tracer().value(parsed("q + 1"), Lets())
    assert isinstance(caught.value.part, Name)
    assert caught.value.cause is None


def test_an_index_that_a_call_lacks_is_told():
    class Lets:
        def get(self, name, default):
            raise MissingIndexError(name)

    with pytest.raises(NoValue) as caught:
        Tracer().value(parsed("q + 1"), Lets())
    assert isinstance(caught.value.cause, MissingIndexError)
