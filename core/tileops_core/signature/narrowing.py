"""What a condition settles for the expressions that stand behind it.

Behind ``present(v)`` stands a ``v`` with a value, behind ``x == 'a'`` an ``x`` that is ``'a'``; in
``a and b``, ``a or b`` and ``x if c else y``, as Python evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileops_core.signature.dtypes import DTYPES
from tileops_core.signature.kinds import DTypeKind, EnumKind, Kind, MaybeKind
from tileops_core.spec.expressions import (
    BoolOp,
    Call,
    Compare,
    Const,
    Expr,
    Field,
    Name,
    TupleOf,
    Unary,
)


@attrs.frozen(slots=True)
class Known:
    """What the conditions around an expression have settled.

    ``present`` are the names shown to have a value; ``narrowed`` gives names, and ``"v.value"``
    for values that were shown to be there, the kind that is left of theirs.
    """

    present: frozenset[str] = frozenset()
    narrowed: Mapping[str, Kind] = attrs.field(factory=dict)

    def and_also(self, other: Known) -> Known:
        """Both together."""
        if not other.present and not other.narrowed:
            return self
        return Known(self.present | other.present, {**self.narrowed, **other.narrowed})


NOTHING = Known()


def implied(expr: Expr, truth: bool, kinds: Mapping[str, Kind | None], known: Known) -> Known:
    """What holds where a condition is true, or where it is false.

    Args:
        expr: The condition.
        truth: Which of the two.
        kinds: The kinds of names outside any condition.
        known: What is settled around the condition.
    """
    if isinstance(expr, Unary) and expr.op == "not":
        return implied(expr.operand, not truth, kinds, known)
    if isinstance(expr, BoolOp) and (expr.op == "and") == truth:
        result = NOTHING
        for item in expr.items:
            result = result.and_also(implied(item, truth, kinds, known.and_also(result)))
        return result
    if isinstance(expr, Call) and expr.function == "present" and truth and expr.args:
        name = expr.args[0]
        return Known(frozenset({name.id})) if isinstance(name, Name) else NOTHING
    if isinstance(expr, Compare) and len(expr.rest) == 1:
        return _by_comparison(expr, truth, kinds, known)
    return NOTHING


def _by_comparison(
    expr: Compare, truth: bool, kinds: Mapping[str, Kind | None], known: Known
) -> Known:
    op, right = expr.rest[0]
    words = _literals(right)
    if op not in ("==", "!=", "in", "not in") or words is None:
        return NOTHING
    name, kind = _subject(expr.first, kinds)
    kind = known.narrowed.get(name, kind)
    members = members_of(kind) if kind else None
    if members is None:
        return NOTHING
    inside = (op in ("==", "in")) == truth
    left = tuple(member for member in members if (member in words) == inside)
    if not left:
        return NOTHING
    narrowed = EnumKind(left) if isinstance(kind, EnumKind) else DTypeKind(left)
    return Known(narrowed={name: narrowed})


def _subject(expr: Expr, kinds: Mapping[str, Kind | None]) -> tuple[str, Kind | None]:
    """The name that a comparison narrows, and the name's kind."""
    if isinstance(expr, Name):
        return expr.id, kinds.get(expr.id)
    if isinstance(expr, Field) and isinstance(expr.value, Name):
        outer = kinds.get(expr.value.id)
        return f"{expr.value.id}.value", outer.of if isinstance(outer, MaybeKind) else None
    return "", None


def members_of(kind: Kind) -> tuple[str, ...] | None:
    """The words of an enum or the dtypes of a union; None when they are not listed."""
    if isinstance(kind, EnumKind):
        return kind.words
    return kind.members if isinstance(kind, DTypeKind) else None


def _literals(expr: Expr) -> frozenset[str] | None:
    """The words and dtype constants of an expression made of nothing else."""
    found = set()
    for item in expr.items if isinstance(expr, TupleOf) else (expr,):
        if isinstance(item, Const) and isinstance(item.value, str):
            found.add(item.value)
        elif isinstance(item, Name) and item.id in DTYPES:
            found.add(item.id)
        else:
            return None
    return frozenset(found)
