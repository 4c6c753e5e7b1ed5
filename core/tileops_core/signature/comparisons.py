"""Which values an expression may compare."""

from __future__ import annotations

from typing import TypeAlias

from tileops_core.signature.kinds import (
    BoolKind,
    DTypeKind,
    EnumKind,
    IntTupleKind,
    Kind,
    ShapeKind,
    TupleKind,
    WordOrKind,
    is_number,
)
from tileops_core.signature.narrowing import members_of
from tileops_core.signature.problems import Problems
from tileops_core.signature.types import describe
from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr, TupleOf
from tileops_core.suggest import did_you_mean, listed

Side: TypeAlias = tuple[Expr, Kind]
"""One side of a comparison, and its kind."""

_WORDED = (EnumKind, WordOrKind)


def check_comparison(left: Side, op: str, right: Side, span: Span, problems: Problems) -> None:
    """Note a comparison of values that cannot be compared, or whose answer is always the same.

    Args:
        left: What stands before the operator.
        op: The operator.
        right: What stands behind it.
        span: Where the comparison stands.
        problems: Receives what is wrong.
    """
    (first, kind), (second, second_kind) = left, right
    if op in ("in", "not in"):
        if not isinstance(second_kind, TupleKind) or not isinstance(second, TupleOf):
            problems.add(
                "kind", f"{op} asks for a tuple of values", second.span, "write ('a', 'b')"
            )
            return
        for item, item_kind in zip(second.items, second_kind.items, strict=True):
            _check_equality(kind, item_kind, item.span, problems)
    elif op in ("==", "!="):
        _check_equality(kind, second_kind, span, problems)
    elif not (is_number(kind) and is_number(second_kind)):
        wrong = first if not is_number(kind) else second
        problems.add("kind", f"{op} compares numbers", wrong.span)


def _check_equality(left: Kind, right: Kind, span: Span, problems: Problems) -> None:
    if is_number(left) and is_number(right):
        return
    for sort in (_WORDED, (DTypeKind,)):
        if isinstance(left, sort) and isinstance(right, sort):
            _check_overlap(left, right, span, problems)
            return
    if isinstance(left, BoolKind) and isinstance(right, BoolKind):
        return
    if is_tuple(left) and is_tuple(right):
        return
    problems.add(
        "kind",
        f"{describe(left)} is compared with {describe(right)}, which is never equal to it",
        span,
    )


def _check_overlap(left: Kind, right: Kind, span: Span, problems: Problems) -> None:
    one, other = members_of(left), members_of(right)
    if one is None or other is None or set(one) & set(other):
        return
    hint = did_you_mean(other[0], one) or did_you_mean(one[0], other)
    problems.add(
        "never-equal", f"{listed(one)} and {listed(other)} have nothing in common{hint}", span
    )


def is_tuple(kind: Kind) -> bool:
    """Whether values of this kind are tuples that can be indexed."""
    if isinstance(kind, IntTupleKind):
        return not kind.holes
    return isinstance(kind, (ShapeKind, TupleKind))
