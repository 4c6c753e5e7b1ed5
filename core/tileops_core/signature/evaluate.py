"""The value of an expression, for workload rows and checks; calls run generated code instead."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

from tileops_core.signature.primitives import PRIMITIVES
from tileops_core.signature.values import LISTS
from tileops_core.spec.expressions import (
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    Field,
    IfElse,
    Index,
    Name,
    Slice,
    Splice,
    TupleOf,
    Unary,
)

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda item, items: item in items,
    "not in": lambda item, items: item not in items,
}


class Names(Protocol):
    """What names stand for: a dictionary, or what computes values when they are read."""

    def get(self, name: str, default: Any, /) -> Any:
        """The value of a name, ``default`` when it has none."""


class _Inner:
    """Names, and the variable of a generator expression."""

    def __init__(self, outer: Names, variable: str, value: Any) -> None:
        self.outer = outer
        self.variable = variable
        self.value = value

    def get(self, name: str, default: Any, /) -> Any:
        return self.value if name == self.variable else self.outer.get(name, default)


_FUNCTIONS = {**PRIMITIVES, **LISTS}


def evaluate(expr: Expr, values: Names) -> Any:
    """The value of a kind-checked expression.

    Args:
        expr: The expression.
        values: What its names stand for; dtypes by their short names, a tensor as
            ``(dtype, shape)``, whatever is not there as None. A name without a value is a dtype
            constant and stands for itself.

    Raises:
        PrimitiveError: When a primitive is given a value outside its domain.
        ZeroDivisionError: When the expression divides by zero.
    """
    return _VALUES[type(expr)](expr, values)


def compared(left: Any, op: str, right: Any) -> bool:
    """What one comparison of two values says."""
    return _COMPARE[op](left, right)


def combined(left: Any, op: str, right: Any) -> Any:
    """What an operator makes of two numbers."""
    return _BINARY[op](left, right)


def axes_of(axes: tuple[Expr, ...], values: Names) -> tuple[int, ...]:
    """The lengths of a shape's axes, splices spread out."""
    lengths: list[int] = []
    for axis in axes:
        if isinstance(axis, Splice):
            lengths.extend(evaluate(axis.value, values))
        else:
            lengths.append(evaluate(axis, values))
    return tuple(lengths)


def _const(expr: Const, values: Names) -> Any:
    return expr.value


def _name(expr: Name, values: Names) -> Any:
    return values.get(expr.id, expr.id)


def _tuple(expr: TupleOf, values: Names) -> Any:
    return tuple(evaluate(item, values) for item in expr.items)


def _unary(expr: Unary, values: Names) -> Any:
    value = evaluate(expr.operand, values)
    return not value if expr.op == "not" else -value


def _binary(expr: Binary, values: Names) -> Any:
    return _BINARY[expr.op](evaluate(expr.left, values), evaluate(expr.right, values))


def _compare(expr: Compare, values: Names) -> Any:
    left = evaluate(expr.first, values)
    for op, item in expr.rest:
        right = evaluate(item, values)
        if not _COMPARE[op](left, right):
            return False
        left = right
    return True


def _bool_op(expr: BoolOp, values: Names) -> Any:
    if expr.op == "and":
        return all(evaluate(item, values) for item in expr.items)
    return any(evaluate(item, values) for item in expr.items)


def _if_else(expr: IfElse, values: Names) -> Any:
    return evaluate(expr.then if evaluate(expr.condition, values) else expr.otherwise, values)


def _call(expr: Call, values: Names) -> Any:
    args = [evaluate(arg, values) for arg in expr.args]
    keywords = {name: evaluate(value, values) for name, value in expr.keywords}
    return _FUNCTIONS[expr.function].run(*args, **keywords)


def _index(expr: Index, values: Names) -> Any:
    return evaluate(expr.value, values)[evaluate(expr.index, values)]


def _slice(expr: Slice, values: Names) -> Any:
    start = evaluate(expr.start, values) if expr.start else None
    stop = evaluate(expr.stop, values) if expr.stop else None
    return evaluate(expr.value, values)[start:stop]


def _field(expr: Field, values: Names) -> Any:
    value = evaluate(expr.value, values)
    return value if expr.name == "value" else getattr(value, expr.name)


def _each(expr: Each, values: Names) -> Any:
    sequence = evaluate(expr.sequence, values)
    return [evaluate(expr.element, _Inner(values, expr.variable, item)) for item in sequence]


_VALUES: dict[type[Expr], Callable[..., Any]] = {
    Const: _const,
    Name: _name,
    TupleOf: _tuple,
    Unary: _unary,
    Binary: _binary,
    Compare: _compare,
    BoolOp: _bool_op,
    IfElse: _if_else,
    Call: _call,
    Index: _index,
    Slice: _slice,
    Field: _field,
    Each: _each,
}
