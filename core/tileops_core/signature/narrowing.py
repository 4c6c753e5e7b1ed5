"""What a condition settles for the expressions that stand behind it.

Behind ``present(v)`` stands a ``v`` with a value, behind ``x == 'a'`` an ``x`` that is ``'a'``,
behind ``x.kind == 'a'`` an ``x`` of that form; in ``a and b``, ``a or b`` and ``x if c else y``, as
Python evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.dtypes import DTYPES
from tileops_core.signature.kinds import (
    AdtKind,
    DTypeKind,
    EnumKind,
    Kind,
    MaybeKind,
    WordOrKind,
)
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


@attrs.frozen(slots=True, eq=False, repr=False)
class Known(EqualByFields):
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
    name, kind = _subject(expr.first, kinds, known)
    left = _left_of(kind, words, (op in ("==", "in")) == truth) if kind else None
    return Known(narrowed={name: left}) if left else NOTHING


def _subject(expr: Expr, kinds: Mapping[str, Kind | None], known: Known) -> tuple[str, Kind | None]:
    """The name that a comparison narrows, and what is known of the name's kind."""
    if isinstance(expr, Name):
        kind = known.narrowed.get(expr.id, kinds.get(expr.id))
        return expr.id, None if isinstance(kind, AdtKind) else kind
    if not isinstance(expr, Field) or not isinstance(expr.value, Name):
        return "", None
    name = expr.value.id
    kind = known.narrowed.get(name, kinds.get(name))
    if isinstance(kind, AdtKind):
        return name, kind if expr.name == "kind" else None
    inner = kind.of if isinstance(kind, MaybeKind) else None
    return f"{name}.value", known.narrowed.get(f"{name}.value", inner)


def _left_of(kind: Kind, words: frozenset[str], inside: bool) -> Kind | None:
    """What is left of a kind whose value is among the words, or is not; None if nothing is."""

    def kept(members: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(member for member in members if (member in words) == inside)

    match kind:
        case EnumKind(words=all_words):
            return EnumKind(left) if (left := kept(all_words)) else None
        case DTypeKind(members=tuple() as members):
            return DTypeKind(left) if (left := kept(members)) else None
        case AdtKind(constructors=forms):
            names = kept(tuple(form.name for form in forms))
            left_forms = tuple(form for form in forms if form.name in names)
            return attrs.evolve(kind, constructors=left_forms) if left_forms else None
        case WordOrKind(words=all_words, of=inner):
            left = kept(all_words)
            if inside:
                return EnumKind(left) if left else None
            return WordOrKind(left, inner) if left else inner
    return None


def members_of(kind: Kind) -> tuple[str, ...] | None:
    """The words of an enum or the dtypes of a union; None when they are not listed."""
    if isinstance(kind, EnumKind | WordOrKind):
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
