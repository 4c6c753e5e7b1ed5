"""Evaluation part by part: which parts of an expression had a value, and which had none and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileops_core.signature.bindings import MissingIndexError
from tileops_core.signature.evaluate import Names, combined, compared, evaluate
from tileops_core.spec.expressions import (
    Binary,
    BoolOp,
    Compare,
    Const,
    Each,
    Expr,
    IfElse,
    Name,
    fields_of,
)


class NoValue(Exception):
    """A part of an expression without a value.

    ``cause`` is why; None for the name of a quantity that has none itself, so that the fault is
    that quantity's.
    """

    def __init__(self, part: Expr, cause: Exception | None) -> None:
        super().__init__(str(cause))
        self.part = part
        self.cause = cause


class _Variable:
    """Names, and the variable of a generator."""

    def __init__(self, outer: Names, name: str, value: Any) -> None:
        self.outer, self.name, self.value = outer, name, value

    def get(self, name: str, default: Any, /) -> Any:
        return self.value if name == self.name else self.outer.get(name, default)


class Tracer:
    """Evaluates as :func:`~tileops_core.signature.evaluate.evaluate` does.

    Attributes:
        valued: ids of the parts that had a value at least once.
    """

    def __init__(self) -> None:
        self.valued: set[int] = set()

    def value(self, expr: Expr, names: Names) -> Any:
        """The value of an expression; its parts are noted.

        Raises:
            NoValue: Some part has none.
        """
        found = self._value(expr, names)
        self.valued.add(id(expr))
        return found

    def _value(self, expr: Expr, names: Names) -> Any:
        match expr:
            case Const(value=value):
                return value
            case Name(id=name):
                try:
                    return names.get(name, name)
                except MissingIndexError as error:
                    raise NoValue(expr, error) from None
                except (ValueError, ArithmeticError, LookupError):
                    raise NoValue(expr, None) from None
            case BoolOp(op=op, items=items):
                every = op == "and"
                return (
                    every
                    if all(bool(self.value(item, names)) == every for item in items)
                    else not every
                )
            case IfElse(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self.value(condition, names) else otherwise, names)
            case Compare(first=first, rest=rest):
                return self._compare(expr, first, rest, names)
            case Binary(op=op, left=left, right=right):
                one, other = self.value(left, names), self.value(right, names)
                return _computed(expr, combined, one, op, other)
            case Each(element=element, variable=variable, sequence=sequence):
                items = self.value(sequence, names)
                return [self.value(element, _Variable(names, variable, item)) for item in items]
        return self._of_parts(expr, names)

    def _compare(
        self, expr: Compare, first: Expr, rest: tuple[tuple[str, Expr], ...], names: Names
    ) -> bool:
        left = self.value(first, names)
        for op, item in rest:
            right = self.value(item, names)
            if not _computed(expr, compared, left, op, right):
                return False
            left = right
        return True

    def _of_parts(self, expr: Expr, names: Names) -> Any:
        """What an expression makes of its parts, all of which it needs."""
        cls = type(expr)
        parts = {name: self._inside(getattr(expr, name), names) for name in fields_of(cls)}
        return _computed(expr, evaluate, cls(**parts), {})

    def _inside(self, value: Any, names: Names) -> Any:
        if isinstance(value, Expr):
            return _settled(value, self.value(value, names))
        if isinstance(value, tuple):
            return tuple(self._inside(item, names) for item in value)
        return value


def _computed(expr: Expr, compute: Callable[..., Any], *args: Any) -> Any:
    """What an expression comes to once its parts are known."""
    try:
        return compute(*args)
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        raise NoValue(expr, error) from None


def _settled(part: Expr, value: Any) -> Const:
    """A part that stands for its value."""
    return Const(value=value, span=part.span)
