"""Type families: checked once where they are declared, expanded where they are applied."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.kinds import (
    BoolKind,
    EnumKind,
    Kind,
    ShapeKind,
    TupleKind,
    is_int,
)
from tileops_core.signature.model import ShapeCase
from tileops_core.signature.problems import Problems
from tileops_core.signature.types import TypeTextError, describe, family_param_kind
from tileops_core.spans import Span
from tileops_core.spec.entries import CaseEntry, FamilyEntry
from tileops_core.spec.expressions import (
    Axes,
    BoolOp,
    Compare,
    Const,
    Expr,
    FamilyUse,
    Name,
    ShapeExpr,
    Splice,
    Unary,
)
from tileops_core.suggest import did_you_mean, listed


class Families:
    """The type families of one entry."""

    def __init__(self, entries: Iterable[FamilyEntry], problems: Problems) -> None:
        self.problems = problems
        self.entries = {entry.name: entry for entry in entries}
        self.kinds = {name: self._param_kinds(entry) for name, entry in self.entries.items()}
        self._used: set[str] = set()
        self._circular = self._cycles()
        for entry in self.entries.values():
            self._check(entry)

    def expand(self, shape: ShapeExpr, checker: Checker) -> tuple[ShapeCase, ...]:
        """A shape as cases, after checking it in the scope of its tensor."""
        if isinstance(shape, Axes):
            check_axes(shape, checker)
            return (ShapeCase(None, shape.items),)
        self._used.add(shape.family)
        if not self._check_use(shape, checker) or shape.family in self._circular:
            return ()
        return tuple(self._cases(shape))

    def note_unused(self) -> None:
        """Note families that no shape applies; to be called when all shapes are expanded."""
        for name, entry in self.entries.items():
            if name not in self._used:
                self.problems.add("unused", f"no shape applies the type family {name}", entry.span)

    def _param_kinds(self, entry: FamilyEntry) -> dict[str, Kind | None]:
        kinds: dict[str, Kind | None] = {}
        for name, kind in entry.params:
            try:
                kinds[name] = family_param_kind(kind.value)
            except TypeTextError as error:
                kinds[name] = None
                self.problems.add(
                    "unknown-type",
                    f"{entry.name}: {name} is of type {kind.value!r}",
                    kind.span,
                    str(error),
                )
        return kinds

    def _check(self, entry: FamilyEntry) -> None:
        kinds = self.kinds[entry.name]
        checker = Checker(Scope(kinds, self.problems))
        for case in entry.cases:
            if isinstance(case.shape, Axes):
                check_axes(case.shape, checker)
            elif case.shape is not None:
                self._used.add(case.shape.family)
                self._check_use(case.shape, checker)
        values = [self._values(entry, name.value, name.span) for name in entry.match]
        if all(values):
            self._check_coverage(entry, [v for v in values if v])

    def _values(self, entry: FamilyEntry, name: str, span: Span) -> tuple[Any, ...] | None:
        """The finitely many values of a discriminant."""
        kinds = self.kinds[entry.name]
        kind = kinds.get(name)
        if isinstance(kind, BoolKind):
            return (False, True)
        if isinstance(kind, EnumKind):
            return kind.words
        if name not in kinds:
            message = f"{entry.name} matches {name!r}, which is none of its parameters"
            message += did_you_mean(name, kinds)
            self.problems.add("family-match", message, span)
        elif kind is not None:
            self.problems.add(
                "family-match",
                f"{entry.name} matches {name}, {describe(kind)}",
                span,
                "a discriminant is a Bool or a union of quoted words",
            )
        return None

    def _check_coverage(self, entry: FamilyEntry, values: list[tuple[Any, ...]]) -> None:
        seen: dict[tuple[Any, ...], CaseEntry] = {}
        every = list(itertools.product(*values))
        for case in entry.cases:
            if case.when not in every or any(
                type(a) is not type(b) for a, b in zip(case.when, every[0], strict=True)
            ):
                self.problems.add(
                    "family-match",
                    f"{entry.name}: {_show(case.when)} is no value of its discriminants",
                    case.span,
                    "they are " + ", ".join(map(_show, every)),
                )
            elif case.when in seen:
                self.problems.add(
                    "family-overlap",
                    f"{entry.name}: {_show(case.when)} has a case already, on line "
                    f"{seen[case.when].span.line}",
                    case.span,
                )
            else:
                seen[case.when] = case
        missing = [value for value in every if value not in seen]
        if missing:
            self.problems.add(
                "family-gap",
                f"{entry.name} has no case for {', '.join(map(_show, missing))}",
                entry.span,
            )

    def _cycles(self) -> frozenset[str]:
        """The families that apply themselves, directly or through others."""
        applies = {
            name: {c.shape.family for c in entry.cases if isinstance(c.shape, FamilyUse)}
            for name, entry in self.entries.items()
        }
        circular = set()
        for name, entry in self.entries.items():
            reached: set[str] = set()
            edge = applies[name]
            while edge:
                reached |= edge
                edge = {f for e in edge for f in applies.get(e, set())} - reached
            if name in reached:
                circular.add(name)
                self.problems.add("family-cycle", f"{name} applies itself", entry.span)
        return frozenset(circular)

    def _check_use(self, use: FamilyUse, checker: Checker) -> bool:
        kinds = self.kinds.get(use.family)
        if kinds is None:
            self.problems.add(
                "unknown-family",
                f"{use.family!r} is no type family{did_you_mean(use.family, self.kinds)}",
                use.span,
                f"declared below types are {listed(self.kinds)}",
            )
            return False
        if len(kinds) != len(use.args):
            self.problems.add(
                "arguments",
                f"{use.family} takes {len(kinds)} arguments ({', '.join(kinds)}), here are "
                f"{len(use.args)}",
                use.span,
            )
            return False
        good = [
            self._check_argument(arg, kind, checker)
            for arg, kind in zip(use.args, kinds.values(), strict=True)
        ]
        return all(good)

    def _check_argument(self, arg: Expr, kind: Kind | None, checker: Checker) -> bool:
        if kind is None:
            return False

        def accepts(given: Kind) -> bool:
            if isinstance(kind, EnumKind):
                return isinstance(given, EnumKind) and set(given.words) <= set(kind.words)
            if isinstance(kind, ShapeKind):
                return _is_shape(given)
            return is_int(given) if is_int(kind) else type(given) is type(kind)

        return checker.expect(arg, accepts, describe(kind)) is not None

    def _cases(self, use: FamilyUse) -> Iterable[ShapeCase]:
        entry = self.entries[use.family]
        arguments = dict(zip(self.kinds[use.family], use.args, strict=True))
        for case in entry.cases:
            conditions = [
                _condition(arguments[name.value], value)
                for name, value in zip(entry.match, case.when, strict=False)
                if name.value in arguments
            ]
            if False in conditions or case.shape is None:
                continue
            when = [c for c in conditions if isinstance(c, Expr)]
            if isinstance(case.shape, Axes):
                yield ShapeCase(
                    _all_of(when, use.span),
                    tuple(substitute(axis, arguments) for axis in case.shape.items),
                )
                continue
            args = tuple(substitute(arg, arguments) for arg in case.shape.args)
            if len(args) != len(self.kinds.get(case.shape.family, args)):
                continue
            for inner in self._cases(attrs.evolve(case.shape, args=args)):
                more = [*when, inner.when] if inner.when else when
                yield ShapeCase(_all_of(more, use.span), inner.axes)


def check_axes(shape: Axes, checker: Checker) -> None:
    """Check the axes of a shape that is written out."""
    for axis in shape.items:
        if isinstance(axis, Splice):
            checker.expect(axis.value, _is_shape, "a shape")
            continue
        kind = checker.kind(axis)
        if kind is not None and _is_shape(kind):
            checker.problems.add(
                "kind",
                "an axis is one length, this is a shape",
                axis.span,
                "splice it among the axes with *",
            )
        elif kind is not None and not is_int(kind):
            checker.expect(axis, is_int, "a length")


def _is_shape(kind: Kind) -> bool:
    return isinstance(kind, ShapeKind) or (
        isinstance(kind, TupleKind) and all(map(is_int, kind.items))
    )


def _condition(argument: Expr, value: Any) -> Expr | bool:
    """When an argument has a value: an expression, or the answer if it is a literal."""
    if isinstance(argument, Const):
        return bool(argument.value == value)
    if isinstance(value, bool):
        return argument if value else Unary(op="not", operand=argument, span=argument.span)
    word = Const(value=value, span=argument.span)
    return Compare(first=argument, rest=(("==", word),), span=argument.span)


def _all_of(conditions: list[Expr], span: Span) -> Expr | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return BoolOp(op="and", items=tuple(conditions), span=span)


def substitute(expr: Expr, arguments: Mapping[str, Expr]) -> Expr:
    """An expression with names replaced.

    No variable of a generator expression can capture a name, since it may not shadow one.
    """
    if isinstance(expr, Name):
        return arguments.get(expr.id, expr)
    changes = {
        field.name: _substituted(getattr(expr, field.name), arguments)
        for field in attrs.fields(type(expr))
        if field.name != "span"
    }
    return attrs.evolve(expr, **changes)


def _substituted(value: Any, arguments: Mapping[str, Expr]) -> Any:
    if isinstance(value, Expr):
        return substitute(value, arguments)
    if isinstance(value, tuple):
        return tuple(_substituted(item, arguments) for item in value)
    return value


def _show(values: tuple[Any, ...]) -> str:
    shown = [str(v).lower() if isinstance(v, bool) else repr(v) for v in values]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
