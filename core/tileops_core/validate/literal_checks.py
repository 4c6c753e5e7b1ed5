"""What has no value whatever a call is: a division by a literal zero, an item that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.kinds import IntTupleKind, Kind, MaybeKind
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import Problems
from tileops_core.spec.expressions import (
    Binary,
    Call,
    Const,
    Expr,
    Field,
    Index,
    Name,
    TupleOf,
    Unary,
)
from tileops_core.validate.walks import stated


def check_literals(signature: Signature, problems: Problems) -> frozenset[int]:
    """Find the parts of expressions that can have no value; gives their ids.

    Args:
        signature: The entry.
        problems: Receives what is wrong.
    """
    checker = _Checker(signature, problems)
    for place in stated(signature):
        value = checker.folded(place.expr, place.what)
        if place.what.startswith("let "):
            checker.lets[place.what.removeprefix("let ")] = value
    return frozenset(checker.found)


class _Open:
    """The value of what a call decides."""


_OPEN: Any = _Open()


class _Checker:
    def __init__(self, signature: Signature, problems: Problems) -> None:
        self.kinds: Mapping[str, Kind] = signature._kinds()
        self.problems = problems
        self.lets: dict[str, Any] = {}
        self.found: set[int] = set()

    def folded(self, expr: Expr, what: str) -> Any:
        """The value of an expression of literals, ``_OPEN`` of any other."""
        if isinstance(expr, Const):
            return expr.value
        if isinstance(expr, Name):
            return self.lets.get(expr.id, _OPEN)
        parts = [self.folded(part, what) for part in expr.children()]
        problem = self._problem(expr, parts)
        literal = isinstance(expr, Unary | Binary | TupleOf | Index | Call) and _OPEN not in parts
        if literal and problem is None:
            try:
                return evaluate(expr, self.lets)
            except (ValueError, ArithmeticError, LookupError) as error:
                problem = str(error)
        if problem is not None:
            self._refuse(expr, f"{what}: {problem}, whatever a call is")
        return _OPEN

    def _problem(self, expr: Expr, parts: list[Any]) -> str | None:
        """Why an expression has no value, as far as its literals tell."""
        match expr:
            case Binary(op="/" | "//" | "%" as op) if _is(parts[1], 0):
                return f"{op} divides by zero"
            case Index(value=value):
                return self._outside(value, parts[1])
            case Call(function="ceil_div") if _is(parts[1], 0):
                return "ceil_div divides by zero"
            case Call(function="conv.out" | "pool.out" as name) if _is_int(parts[2]):
                return f"{name} has the stride {parts[2]}" if parts[2] <= 0 else None
            case Call(function="per_axis") if _is_int(parts[1]) and _is_int(parts[2]):
                if not -parts[2] <= parts[1] < parts[2]:
                    return f"per_axis reads axis {parts[1]} of {parts[2]}"
        return None

    def _outside(self, value: Expr, index: Any) -> str | None:
        length = len(value.items) if isinstance(value, TupleOf) else self._length(value)
        if length is None or not _is_int(index) or -length <= index < length:
            return None
        return f"item {index} is read of {length}"

    def _length(self, value: Expr) -> int | None:
        """How many items a parameter per axis has."""
        inside = value.value if isinstance(value, Field) else value
        kind = self.kinds.get(inside.id) if isinstance(inside, Name) else None
        kind = kind.of if isinstance(kind, MaybeKind) else kind
        return kind.length if isinstance(kind, IntTupleKind) else None

    def _refuse(self, expr: Expr, message: str) -> None:
        self.found.add(id(expr))
        self.problems.add("no-value", message, expr.span, "correct it, or leave it out")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is(value: Any, number: int) -> bool:
    return _is_int(value) and value == number
