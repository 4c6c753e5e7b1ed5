"""Type families: checked once where they are declared, expanded where they are applied."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.kinds import (
    AdtKind,
    BoolKind,
    Constructor,
    EnumKind,
    Kind,
    ShapeKind,
    TupleKind,
    is_int,
)
from tileops_core.signature.model import ShapeCase
from tileops_core.signature.narrowing import NOTHING, Known
from tileops_core.signature.problems import Problems
from tileops_core.signature.types import (
    SharedKinds,
    TypeTextError,
    describe,
    family_param_kind,
)
from tileops_core.spans import Span
from tileops_core.spec.entries import CaseEntry, FamilyEntry, Pattern, plain_text
from tileops_core.spec.expressions import (
    Axes,
    BoolOp,
    Compare,
    Const,
    Expr,
    FamilyUse,
    Field,
    Name,
    ShapeExpr,
    Splice,
    Unary,
)
from tileops_core.suggest import did_you_mean, listed

Values: TypeAlias = tuple[Any, ...]
"""A value of each of a family's discriminants: booleans, words, patterns of sealed sums."""


class Families:
    """The type families of one entry.

    Attributes:
        missing: For each family, the values of its discriminants that have no case.
    """

    def __init__(
        self, entries: Iterable[FamilyEntry], shared: SharedKinds, problems: Problems
    ) -> None:
        self.problems = problems
        self.shared = shared
        self.entries = {entry.name: entry for entry in entries}
        self.kinds = {name: self._param_kinds(entry) for name, entry in self.entries.items()}
        self.missing: dict[str, list[Values]] = {}
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
                kinds[name] = family_param_kind(kind.value, self.shared)
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
            known = self._known(entry, case)
            if isinstance(case.shape, Axes):
                check_axes(case.shape, checker, known)
            elif case.shape is not None:
                self._used.add(case.shape.family)
                self._check_use(case.shape, checker, known)
        values = [self._values(entry, at) for at in range(len(entry.match))]
        if all(values):
            self._check_coverage(entry, [v for v in values if v])

    def _known(self, entry: FamilyEntry, case: CaseEntry) -> Known:
        """What a case settles for its shape: which form of a sealed sum there is."""
        narrowed: dict[str, Kind] = {}
        for name, value in zip(entry.match, case.when, strict=False):
            kind = self.kinds[entry.name].get(name.value)
            if isinstance(kind, AdtKind) and isinstance(value, Pattern):
                forms = tuple(c for c in kind.constructors if c.name == value.constructor)
                if forms:  # else the pattern fits nothing, and that is noted
                    narrowed[name.value] = attrs.evolve(kind, constructors=forms)
        return Known(narrowed=narrowed)

    def _values(self, entry: FamilyEntry, at: int) -> tuple[Any, ...] | None:
        """The finitely many values of the discriminant at a place of ``match``.

        A sealed sum has, for each form, those that differ in the fields that some case names.
        """
        name, span = entry.match[at].value, entry.match[at].span
        kinds = self.kinds[entry.name]
        kind = kinds.get(name)
        if isinstance(kind, BoolKind):
            return (False, True)
        if isinstance(kind, EnumKind):
            return kind.words
        if isinstance(kind, AdtKind):
            patterns = [c.when[at] for c in entry.cases if at < len(c.when)]
            named = {f for p in patterns if isinstance(p, Pattern) for f, _ in p.fields}
            return tuple(v for form in kind.constructors for v in _forms(form, named))
        if name not in kinds:
            message = f"{entry.name} matches {name!r}, which is none of its parameters"
            message += did_you_mean(name, kinds)
            self.problems.add("family-match", message, span)
        elif kind is not None:
            self.problems.add(
                "family-match",
                f"{entry.name} matches {name}, {describe(kind)}",
                span,
                "a discriminant is a Bool, a union of quoted words, or a sealed sum",
            )
        return None

    def _check_coverage(self, entry: FamilyEntry, values: list[tuple[Any, ...]]) -> None:
        seen: dict[Values, CaseEntry] = {}
        every = list(itertools.product(*values))
        for case in entry.cases:
            fitting = [value for value in every if _fits(case.when, value)]
            if not fitting:
                self.problems.add(
                    "family-match",
                    f"{entry.name}: {show_values(case.when)} is no value of its discriminants",
                    case.span,
                    "they are " + ", ".join(map(show_values, every)),
                )
            for value in fitting:
                if value in seen:
                    self.problems.add(
                        "family-overlap",
                        f"{entry.name}: {show_values(value)} has a case already, "
                        f"{seen[value].span.where}",
                        case.span,
                    )
                    break
                seen[value] = case
        self.missing[entry.name] = [value for value in every if value not in seen]

    def gaps(self, use: FamilyUse) -> list[tuple[str, Values, Expr | None]]:
        """The values for which an application has no case: the family, they, and when they come.

        None stands for always. Whether the signature accepts them is for others to find out.
        """
        if use.family not in self.missing or use.family in self._circular:
            return []
        entry = self.entries[use.family]
        arguments = dict(zip(self.kinds[use.family], use.args, strict=True))
        matched = [arguments[name.value] for name in entry.match if name.value in arguments]
        found = []
        for values in self.missing[use.family]:
            conditions = [_condition(a, v) for a, v in zip(matched, values, strict=True)]
            if False not in conditions:
                when = [c for c in conditions if isinstance(c, Expr)]
                found.append((use.family, values, _all_of(when, use.span)))
        for case, when, inner in self._applied(use):
            if isinstance(inner, FamilyUse):
                for family, values, condition in self.gaps(inner):
                    more = [*when, condition] if condition is not None else when
                    found.append((family, values, _all_of(more, case.span)))
        return found

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

    def _check_use(self, use: FamilyUse, checker: Checker, known: Known = NOTHING) -> bool:
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
            self._check_argument(arg, kind, checker, known)
            for arg, kind in zip(use.args, kinds.values(), strict=True)
        ]
        return all(good)

    def _check_argument(self, arg: Expr, kind: Kind | None, checker: Checker, known: Known) -> bool:
        if kind is None:
            return False

        def accepts(given: Kind) -> bool:
            if isinstance(kind, EnumKind):
                return isinstance(given, EnumKind) and set(given.words) <= set(kind.words)
            if isinstance(kind, AdtKind):
                return isinstance(given, AdtKind) and given.name == kind.name
            if isinstance(kind, ShapeKind):
                return _is_shape(given)
            return is_int(given) if is_int(kind) else type(given) is type(kind)

        return checker.expect(arg, accepts, describe(kind), known) is not None

    def _applied(
        self, use: FamilyUse
    ) -> Iterator[tuple[CaseEntry, list[Expr], tuple[Expr, ...] | FamilyUse]]:
        """The cases that may come: what each needs, and its axes or the family it applies."""
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
                yield case, when, tuple(substitute(a, arguments) for a in case.shape.items)
                continue
            args = tuple(substitute(arg, arguments) for arg in case.shape.args)
            if len(args) == len(self.kinds.get(case.shape.family, ())):
                yield case, when, attrs.evolve(case.shape, args=args)

    def _cases(self, use: FamilyUse) -> Iterable[ShapeCase]:
        for _, when, shape in self._applied(use):
            if not isinstance(shape, FamilyUse):
                yield ShapeCase(_all_of(when, use.span), shape)
                continue
            for inner in self._cases(shape):
                more = [*when, inner.when] if inner.when is not None else when
                yield ShapeCase(_all_of(more, use.span), inner.axes)


def _forms(form: Constructor, named: set[str]) -> Iterator[Pattern]:
    """A form of a sealed sum, once for each choice of values of its named fields."""
    fields = [(name, _finite(kind)) for name, kind in form.fields if name in named]
    choices = [[(name, value) for value in values] for name, values in fields if values]
    for chosen in itertools.product(*choices):
        yield Pattern(form.name, chosen)


def _finite(kind: Kind) -> tuple[Any, ...]:
    if isinstance(kind, BoolKind):
        return (False, True)
    return kind.words if isinstance(kind, EnumKind) else ()


def _fits(when: Values, values: Values) -> bool:
    """Whether a case is one for these values of the discriminants."""
    return len(when) == len(values) and all(map(_fits_one, when, values))


def _fits_one(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, Pattern) and isinstance(value, Pattern):
        return wanted.constructor == value.constructor and set(wanted.fields) <= set(value.fields)
    return type(wanted) is type(value) and bool(wanted == value)


def check_axes(shape: Axes, checker: Checker, known: Known = NOTHING) -> None:
    """Check the axes of a shape that is written out."""
    for axis in shape.items:
        if isinstance(axis, Splice):
            checker.expect(axis.value, _is_shape, "a shape", known)
            continue
        kind = checker.kind(axis, known)
        if kind is not None and _is_shape(kind):
            checker.problems.add(
                "kind",
                "an axis is one length, this is a shape",
                axis.span,
                "splice it among the axes with *",
            )
        elif kind is not None and not is_int(kind):
            checker.expect(axis, is_int, "a length", known)


def _is_shape(kind: Kind) -> bool:
    return isinstance(kind, ShapeKind) or (
        isinstance(kind, TupleKind) and all(map(is_int, kind.items))
    )


def _condition(argument: Expr, value: Any) -> Expr | bool:
    """When an argument has a value: an expression, or the answer if it is a literal."""
    if isinstance(argument, Const):
        return bool(argument.value == value)
    if isinstance(value, Pattern):
        fields = (("kind", value.constructor), *value.fields)
        return _all_of([_has(argument, *field) for field in fields], argument.span) or True
    if isinstance(value, bool):
        return argument if value else Unary(op="not", operand=argument, span=argument.span)
    word = Const(value=value, span=argument.span)
    return Compare(first=argument, rest=(("==", word),), span=argument.span)


def _has(argument: Expr, field: str, value: Any) -> Expr:
    """When a field of an algebraic value has a value."""
    read = Field(value=argument, name=field, span=argument.span)
    condition = _condition(read, value)
    assert isinstance(condition, Expr)
    return condition


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


def show_values(values: Values) -> str:
    """Values of discriminants as an entry writes them."""
    shown = [repr(v) if isinstance(v, str) else plain_text(v) for v in values]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
