"""What an entry's branches depend on, and what holds on each of them.

A *discriminant* is something with finitely many values that conditions read: a Bool, enum or
dtype name, the presence of a tensor or of a value that may be None. A comparison of lengths is
none, but stands for one: it holds or does not. Combinations are enumerated per group of
discriminants that some condition reads together, never over all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.kinds import (
    AdtKind,
    BoolKind,
    Constructor,
    DTypeKind,
    EnumKind,
    Kind,
    MaybeKind,
)
from tileops_core.signature.model import Input, Rule, ShapeCase, Signature
from tileops_core.spec.entries import AdtValue
from tileops_core.spec.expressions import (
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Expr,
    Field,
    IfElse,
    Name,
    TupleOf,
    Unary,
    free_names,
)

Key: TypeAlias = "str | Expr"
"""A discriminant: a name, ``present(name)``, or a condition that no discriminant decides."""

Given: TypeAlias = Mapping[Key, Any]
"""The value of each discriminant of a group, on one of its branches."""

MAX_BRANCHES = 2**14
"""No group has more combinations; real entries have some hundred at most."""


class TooManyBranches(Exception):
    """Conditions read more discriminants together than can be enumerated."""

    def __init__(self, keys: Iterable[Key], count: int) -> None:
        self.names = sorted(key for key in keys if isinstance(key, str))
        self.count = count
        super().__init__(
            f"{', '.join(self.names)} have {count} combinations, and conditions read them together"
        )


class _Unknown:
    """The value of what the discriminants at hand do not decide."""

    def __bool__(self) -> bool:
        raise AssertionError("an unknown value is neither true nor false")

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()


class Branches:
    """The discriminants of one signature.

    Args:
        signature: Whose conditions to read.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.kinds = signature._kinds()
        tensors = (*signature.inputs, *signature.construction_tensors)
        self.inputs = {item.name: item for item in tensors}
        self.lets = {let.name: let.expr for let in signature.lets}
        self.values: dict[str, tuple[Any, ...]] = {}
        for param in signature.params:
            self.values.update(_values_of(param.name, param.kind))
        for index in signature.indices:
            self.values.update(_values_of(index.name, index.kind))
        for item in tensors:
            if item.optional is True:
                self.values[f"present({item.name})"] = (False, True)
        self.count = 0
        """How many combinations have been gone through."""
        self._opaque: set[Expr] = set()
        self._names: dict[int, tuple[Expr, frozenset[str], bool]] = {}
        self._keys: dict[Expr, frozenset[Key]] = {}
        self._accepted: dict[frozenset[Key], tuple[Given, ...]] = {}
        self.restrictions = tuple(r for r in signature.rules if self._restricts(r))

    # -- what conditions read -------------------------------------------------------------

    def keys(self, condition: Expr) -> frozenset[Key]:
        """The discriminants that decide a condition."""
        found = self._keys.get(condition)
        if found is None:
            found = self._keys[condition] = frozenset(self._read(condition))
        return found

    def keys_of_input(self, item: Input) -> frozenset[Key]:
        """The discriminants that decide whether an input is there."""
        if isinstance(item.optional, Expr):
            return self.keys(item.optional)
        return frozenset({f"present({item.name})"} if item.optional else ())

    def keys_inside(self, expr: Expr) -> frozenset[Key]:
        """The discriminants of the conditions within an expression, those of ``let`` too."""
        found: set[Key] = set()
        for node in expr.walk():
            if isinstance(node, IfElse):
                found |= self.keys(node.condition)
            elif isinstance(node, BoolOp):
                found |= set[Key]().union(*map(self.keys, node.items))
            elif isinstance(node, Name) and node.id in self.lets:
                found |= self.keys_inside(self.lets[node.id])
        return frozenset(found)

    def _read(self, expr: Expr) -> Iterator[Key]:
        match expr:
            case Const():
                return
            case Unary(op="not", operand=operand):
                yield from self.keys(operand)
            case BoolOp(items=items):
                for item in items:
                    yield from self.keys(item)
            case IfElse(condition=condition, then=then, otherwise=otherwise):
                for part in (condition, then, otherwise):
                    yield from self.keys(part)
            case Name(id=name) if name in self.lets:
                yield from self.keys(self.lets[name])
            case Name(id=name):
                yield from (k for k in (name, f"present({name})") if k in self.values)
            case Call(function="present", args=(Name(id=name),)):
                yield from self._presence(name)
            case _ if self._is_finite(expr):
                for node in expr.walk():
                    if isinstance(node, Name | Call):
                        yield from self.keys(node) if _is_asked(node) else ()
            case _:
                self._opaque.add(expr)
                yield expr

    def _presence(self, name: str) -> Iterable[Key]:
        if name in self.inputs:
            return self.keys_of_input(self.inputs[name])
        return (k for k in (f"present({name})", name) if k in self.values)

    def _is_finite(self, expr: Expr) -> bool:
        """Whether names with finitely many values decide an expression."""
        if isinstance(expr, Name):
            if expr.id in self.lets:
                return self._is_finite(self.lets[expr.id])
            return expr.id in self.values or expr.id not in self.kinds
        if isinstance(expr, Field):
            return self._is_finite(expr.value) and self._is_finite_field(expr)
        if isinstance(expr, Call) and expr.function == "present":
            return True
        return all(map(self._is_finite, expr.children()))

    def _is_finite_field(self, expr: Field) -> bool:
        """Whether the values of a sealed sum that are told apart tell this field too."""
        kind = self.kinds.get(expr.value.id) if isinstance(expr.value, Name) else None
        if not isinstance(kind, AdtKind) or expr.name == "kind":
            return True
        found = [form.field(expr.name) for form in kind.constructors]
        return all(field is None or _finite(field) for field in found)

    def _restricts(self, rule: Rule) -> bool:
        """Whether a refinement reads discriminants only, so that it rules combinations out."""
        return rule.phase != "call" and self._decidable(rule.expr)

    def _decidable(self, expr: Expr) -> bool:
        return all(isinstance(key, str) for key in self.keys(expr))

    # -- what holds on a branch -----------------------------------------------------------

    def value(self, expr: Expr, given: Given) -> Any:
        """The value of an expression on a branch, ``UNKNOWN`` where the branch leaves it open."""
        if self._opaque and isinstance(expr, Compare | Call) and expr in given:
            return given[expr]
        match expr:
            case Const(value=value):
                return value
            case Name(id=name):
                return self._named(name, given)
            case Field(value=value, name=name):
                return self._field(self.value(value, given), name)
            case Unary(op=op, operand=operand):
                value = self.value(operand, given)
                if value is UNKNOWN:
                    return UNKNOWN
                return not value if op == "not" else -value
            case BoolOp(op=op, items=items):
                return _joined([self.value(item, given) for item in items], op == "and")
            case IfElse(condition=condition, then=then, otherwise=otherwise):
                chosen = self.value(condition, given)
                if chosen is UNKNOWN:
                    one, other = self.value(then, given), self.value(otherwise, given)
                    return one if one is not UNKNOWN and one == other else UNKNOWN
                return self.value(then if chosen else otherwise, given)
            case Call(function="present", args=(Name(id=name),)):
                return self._there(name, given)
        return self._computed(expr, given)

    def _named(self, name: str, given: Given) -> Any:
        if name in given:
            return given[name]
        if name in self.lets:
            return self.value(self.lets[name], given)
        if given.get(f"present({name})") is False:
            return None
        return UNKNOWN if name in self.kinds else name

    def _field(self, value: Any, name: str) -> Any:
        if name == "value" or value is UNKNOWN:
            return value
        if not isinstance(value, AdtValue):
            return UNKNOWN if value is None else getattr(value, name, UNKNOWN)
        return value.kind if name == "kind" else dict(value.fields).get(name, UNKNOWN)

    def _there(self, name: str, given: Given) -> Any:
        if name in self.inputs:
            return self.is_there(self.inputs[name], given)
        if name in given:
            return given[name] is not None
        return given.get(f"present({name})", UNKNOWN)

    def is_there(self, item: Input, given: Given) -> Any:
        """Whether an input is passed on a branch."""
        if isinstance(item.optional, Expr):
            return self.value(item.optional, given)
        return given.get(f"present({item.name})", UNKNOWN) if item.optional else True

    def _computed(self, expr: Expr, given: Given) -> Any:
        """What arithmetic, comparisons and primitives give, when all that they read is decided."""
        if (
            isinstance(expr, Compare)
            and len(expr.rest) == 1
            and expr.rest[0][0] in ("in", "not in")
        ):
            return self._member(expr, given)
        if not isinstance(expr, Compare | Call | TupleOf | Binary):
            return UNKNOWN
        names, asks_presence = self._read_by(expr)
        values = {name: self._named(name, given) for name in names}
        if asks_presence or any(value is UNKNOWN for value in values.values()):
            return self._compared(expr, given) if isinstance(expr, Compare) else UNKNOWN
        try:
            return evaluate(expr, values)
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
            return UNKNOWN  # out of a primitive's domain, or a field that is not told apart

    def _read_by(self, expr: Expr) -> tuple[frozenset[str], bool]:
        """The names an expression reads, and whether it asks for presence; each found out once."""
        known = self._names.get(id(expr))
        if known is None:
            asks = any(isinstance(n, Call) and n.function == "present" for n in expr.walk())
            # The expression is kept, so that nothing else gets its id.
            known = self._names[id(expr)] = expr, frozenset(free_names(expr)), asks
        return known[1:]

    def _compared(self, expr: Compare, given: Given) -> Any:
        """A chain of which some part is a condition itself, as ``present(a) == (T == b)``."""
        if len(expr.rest) != 1 or expr.rest[0][0] not in ("==", "!="):
            return UNKNOWN
        op, right = expr.rest[0]
        one, other = self.value(expr.first, given), self.value(right, given)
        if one is UNKNOWN or other is UNKNOWN:
            return UNKNOWN
        return (one == other) == (op == "==")

    def _member(self, expr: Compare, given: Given) -> Any:
        op, right = expr.rest[0]
        if not isinstance(right, TupleOf):
            return UNKNOWN
        value = self.value(expr.first, given)
        items = [self.value(item, given) for item in right.items]
        if value is UNKNOWN or any(item is UNKNOWN for item in items):
            return UNKNOWN
        return (value in items) == (op == "in")

    def reads(self, expr: Expr, given: Given) -> frozenset[str]:
        """The names that an expression reads on a branch, itself or through ``let``."""
        match expr:
            case Name(id=name) if name in self.lets:
                return self.reads(self.lets[name], given) | {name}
            case Name(id=name):
                return frozenset({name})
            case IfElse(condition=condition, then=then, otherwise=otherwise):
                chosen = self.value(condition, given)
                parts = [condition, then, otherwise]
                if chosen is not UNKNOWN:
                    parts = [condition, then if chosen else otherwise]
                return frozenset().union(*(self.reads(part, given) for part in parts))
            case BoolOp(op=op, items=items):
                found: frozenset[str] = frozenset()
                for item in items:
                    found |= self.reads(item, given)
                    value = self.value(item, given)
                    if value is not UNKNOWN and bool(value) == (op == "or"):
                        break
                return found
        return frozenset().union(*(self.reads(part, given) for part in expr.children()))

    def case_of(self, cases: tuple[ShapeCase, ...], given: Given) -> list[tuple[ShapeCase, Any]]:
        """The cases of a shape that may hold on a branch, each with what its condition says."""
        found = [
            (case, True if case.when is None else self.value(case.when, given)) for case in cases
        ]
        return [(case, value) for case, value in found if value is UNKNOWN or value]

    # -- which branches there are ---------------------------------------------------------

    def accepted(self, keys: Iterable[Key]) -> tuple[Given, ...]:
        """Every combination of these discriminants that the refinements over them allow.

        Raises:
            TooManyBranches: When there are more than can be enumerated.
        """
        group, rules = self._group(frozenset(keys))
        if group not in self._accepted:
            self._accepted[group] = tuple(self._enumerate(group, rules))
            self.count += len(self._accepted[group])
        return self._accepted[group]

    def _group(self, keys: frozenset[Key]) -> tuple[frozenset[Key], list[Rule]]:
        """The discriminants and all that refinements tie to them."""
        combos = self.signature.dtype_combos
        together = frozenset[Key](combos.names if combos is not None else ())
        rules: list[Rule] = []
        waiting = list(self.restrictions)
        while True:
            tied = [rule for rule in waiting if self.keys(rule.expr) & keys]
            if not tied and (together <= keys or not together & keys):
                return keys, rules
            rules += tied
            waiting = [rule for rule in waiting if rule not in tied]
            keys = keys.union(*(self.keys(rule.expr) for rule in tied))
            keys |= together if together & keys else frozenset()

    def _enumerate(self, group: frozenset[Key], rules: list[Rule]) -> Iterator[Given]:
        order = sorted(group, key=lambda key: (not isinstance(key, str), str(key)))
        choices = [
            self.values.get(key, (False, True)) if isinstance(key, str) else (False, True)
            for key in order
        ]
        count = math.prod(map(len, choices))
        if count > MAX_BRANCHES:
            raise TooManyBranches(group, count)
        combos = self.signature.dtype_combos
        related = combos if combos is not None and set(combos.names) <= group else None
        # Each refinement is asked as soon as what it reads is chosen.
        last = {key: at for at, key in enumerate(order)}
        due: list[list[Callable[[Given], bool]]] = [[] for _ in order]
        for rule in rules:
            due[max(last[key] for key in self.keys(rule.expr))].append(self._allows(rule.expr))
        if related is not None:
            due[max(last[name] for name in related.names)].append(related.allow)  # type: ignore[arg-type]
        yield from _choose(order, choices, due, {}, 0)

    def _allows(self, expr: Expr) -> Callable[[Given], bool]:
        return lambda given: self.value(expr, given) is not False


def _choose(
    order: list[Key],
    choices: list[tuple[Any, ...]],
    due: list[list[Callable[[Given], bool]]],
    given: dict[Key, Any],
    at: int,
) -> Iterator[Given]:
    """Every way to go on from what is chosen, as far as the conditions allow."""
    if at == len(order):
        yield dict(given)
        return
    for value in choices[at]:
        given[order[at]] = value
        if all(allows(given) for allows in due[at]):
            yield from _choose(order, choices, due, given, at + 1)
    del given[order[at]]


def _values_of(name: str, kind: Kind) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The discriminant that a declared name is, if it is one, and its values."""
    inner = kind.of if isinstance(kind, MaybeKind) else kind
    finite = _finite(inner)
    if finite:
        yield name, (None, *finite) if isinstance(kind, MaybeKind) else finite
    elif isinstance(kind, MaybeKind) or getattr(kind, "optional", False):
        yield f"present({name})", (False, True)


def _finite(kind: Kind) -> tuple[Any, ...]:
    """The values of a kind that has finitely many; of a sealed sum, those told apart by its form
    and its finite fields.
    """
    if isinstance(kind, BoolKind):
        return (False, True)
    if isinstance(kind, EnumKind):
        return kind.words
    if isinstance(kind, AdtKind):
        return tuple(value for form in kind.constructors for value in _values_of_form(form))
    return (kind.members or ()) if isinstance(kind, DTypeKind) else ()


def _values_of_form(form: Constructor) -> Iterator[AdtValue]:
    fields = [(name, _finite(kind)) for name, kind in form.fields if _finite(kind)]
    for chosen in itertools.product(*(values for _, values in fields)):
        yield AdtValue(form.name, tuple(zip((name for name, _ in fields), chosen, strict=True)))


def _joined(values: list[Any], is_and: bool) -> Any:
    """What ``and`` or ``or`` makes of truth values of which some may be unknown."""
    if any(value is not UNKNOWN and bool(value) != is_and for value in values):
        return not is_and
    return UNKNOWN if any(value is UNKNOWN for value in values) else is_and


def _is_asked(node: Name | Call) -> bool:
    """Whether the node itself is a discriminant, and not what a primitive makes of some."""
    return isinstance(node, Name) or node.function == "present"
