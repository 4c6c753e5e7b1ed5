"""Whether a condition holds whatever a call gives, by itself and by nothing around it.

Told are literals, a length that is compared with less than nothing, a value compared with itself
however it is written, a remainder compared with what it cannot be, and what comes out the same for
every combination of the discriminants that it reads. What follows from two conditions together is
not.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from tileops_core.signature.branches import UNKNOWN, Branches, Given, Key
from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.evaluate import compared, evaluate
from tileops_core.signature.kinds import DimKind, IntKind, Kind, ScalarKind
from tileops_core.signature.model import Signature
from tileops_core.signature.polynomials import difference
from tileops_core.signature.problems import Problems
from tileops_core.spec.expressions import (
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    IfElse,
    Index,
    Name,
    Unary,
)

_MOST = 2**12
"""Of more combinations than this, nothing is said."""

_SAME = {"==": True, "<=": True, ">=": True, "!=": False, "<": False, ">": False}
"""What each comparison of a value with itself says."""

_TOTAL = frozenset({"len", "prod", "sum", "all", "present"})
"""Primitives that have a value whatever they are given."""

_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ERRORS = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)


class Truths:
    """What is certain about the conditions of one signature.

    Args:
        signature: The signature.
    """

    def __init__(self, signature: Signature) -> None:
        given = (*signature.inputs, *signature.construction_tensors)
        optional = frozenset(item.name for item in given if item.optional is not False)
        self._checker = Checker(Scope(signature._kinds(), Problems(), optional))
        self._lets = {let.name: let.expr for let in signature.lets}
        self._branches = Branches(signature)

    def of(self, condition: Expr) -> bool | None:
        """Whether a condition always holds, or never; None when that depends on the call."""
        certain = self._folded(condition)
        if certain is UNKNOWN:
            certain = self._everywhere(condition)
        return None if certain is UNKNOWN else bool(certain)

    def _everywhere(self, condition: Expr) -> Any:
        """What a condition says on all combinations of its discriminants, if that is one thing."""
        keys = sorted(self._branches.keys(condition), key=str)
        choices = [self._choices(key) for key in keys]
        if math.prod(map(len, choices)) > _MOST:
            return UNKNOWN
        found = set()
        for chosen in itertools.product(*choices):
            given: Given = dict(zip(keys, chosen, strict=True))
            value = self._branches.value(condition, given)
            if value is UNKNOWN:
                return UNKNOWN
            found.add(bool(value))
        return found.pop() if len(found) == 1 else UNKNOWN

    def _choices(self, key: Key) -> tuple[Any, ...]:
        if isinstance(key, str):
            return self._branches.values.get(key, (False, True))
        certain = self._folded(key)
        return (False, True) if certain is UNKNOWN else (certain,)

    # -- what needs no call ---------------------------------------------------------------

    def _folded(self, expr: Expr) -> Any:
        """The value of an expression where it is the same for every call."""
        match expr:
            case Const(value=value):
                return value
            case Name(id=name):
                if name in self._lets:
                    return self._folded(self._lets[name])
                return UNKNOWN if name in self._checker.scope.kinds else name
            case Unary(op="not", operand=operand):
                value = self._folded(operand)
                return UNKNOWN if value is UNKNOWN else not value
            case BoolOp(op=op, items=items):
                values = [self._folded(item) for item in items]
                if any(value is not UNKNOWN and bool(value) == (op == "or") for value in values):
                    return op == "or"
                return UNKNOWN if any(value is UNKNOWN for value in values) else op == "and"
            case IfElse(condition=condition, then=then, otherwise=otherwise):
                chosen = self._folded(condition)
                one, other = self._folded(then), self._folded(otherwise)
                if chosen is UNKNOWN:
                    return one if one is not UNKNOWN and one == other else UNKNOWN
                return one if chosen else other
            case Compare():
                return self._chain(expr)
            case Each():
                return UNKNOWN
        parts = [self._folded(part) for part in expr.children()]
        if not parts or any(part is UNKNOWN for part in parts):
            return UNKNOWN
        try:
            return evaluate(expr, {})
        except _ERRORS:
            return UNKNOWN

    def _chain(self, expr: Compare) -> Any:
        """A chain holds if each of its comparisons does, and not if one does not."""
        found, left = [], expr.first
        for op, right in expr.rest:
            found.append(self._comparison(left, op, right))
            left = right
        if any(value is not UNKNOWN and not value for value in found):
            return False
        return UNKNOWN if any(value is UNKNOWN for value in found) else True

    def _comparison(self, left: Expr, op: str, right: Expr) -> Any:
        one, other = self._folded(left), self._folded(right)
        if one is not UNKNOWN and other is not UNKNOWN:
            try:
                return compared(one, op, other)
            except TypeError:
                return UNKNOWN
        if op not in _SAME:
            return UNKNOWN
        if left == right and _has_value(left) and not _may_be_float(self._checker.kind(left)):
            return _SAME[op]
        if self._is_whole(left) and self._is_whole(right):
            gap = difference(left, right)
            if gap is not None:
                return compared(gap, op, 0)
        if type(other) is int and self._is_whole(left) and (by := _divisor(left)):
            return _of_remainder(by, op, other)
        if type(one) is int and self._is_whole(right) and (by := _divisor(right)):
            return _of_remainder(by, _TURNED[op], one)
        if type(other) in (int, float) and self._is_length(left):
            return _of_length(op, other)
        if type(one) in (int, float) and self._is_length(right):
            return _of_length(_TURNED[op], one)
        return UNKNOWN

    def _is_whole(self, expr: Expr) -> bool:
        """Whether a value is there, and is a whole number."""
        return _has_value(expr) and isinstance(self._checker.kind(expr), IntKind)

    def _is_length(self, expr: Expr) -> bool:
        """Whether a value is there, and is a whole number that is never negative."""
        return _has_value(expr) and isinstance(self._checker.kind(expr), DimKind)


def _has_value(expr: Expr) -> bool:
    """Whether an expression certainly has a value: it divides by literals only, reads no axis that
    may be missing, and calls nothing that refuses values.
    """
    for node in expr.walk():
        if isinstance(node, Index) or (isinstance(node, Call) and node.function not in _TOTAL):
            return False
        divides = isinstance(node, Binary) and node.op in ("/", "//", "%")
        by = node.right if isinstance(node, Binary) else None
        if divides and not (isinstance(by, Const) and by.value):
            return False
    return True


def _divisor(expr: Expr) -> int:
    """What a remainder is less than; 0 for anything else."""
    if isinstance(expr, Binary) and expr.op == "%" and isinstance(expr.right, Const):
        by = expr.right.value
        return by if type(by) is int and by > 0 else 0
    return 0


def _of_remainder(by: int, op: str, number: int) -> Any:
    """What a comparison of a remainder with a number says, if it says one thing."""
    if op in ("==", "!=") and 0 <= number < by and by > 1:
        return UNKNOWN
    least, greatest = compared(0, op, number), compared(by - 1, op, number)
    return least if least == greatest else UNKNOWN


def _of_length(op: str, number: float) -> Any:
    """What a comparison of a length with a number says, if it says one thing."""
    if number < 0:
        return op in (">", ">=", "!=")
    if number == 0 and op in (">=", "<"):
        return op == ">="
    return UNKNOWN


def _may_be_float(kind: Kind | None) -> bool:
    """Whether a value may be NaN, which is not equal to itself."""
    return kind is None or isinstance(kind, ScalarKind)
