"""Calls to try an expression on, where no workload row evaluates it.

A call is a row's with something changed: what the branch needs (a flag, a word, a dtype, a tensor
that is passed or not), then one size or value at a time. Sizes are small and positive, and some are
what the conditions on the way compare with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tileops_core.signature.branches import UNKNOWN, Branches, Given, TooManyBranches
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.instance import Instance
from tileops_core.signature.kinds import (
    AdtKind,
    AxesKind,
    BoolKind,
    Constructor,
    DimKind,
    DTypeKind,
    EnumKind,
    IntKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    ScalarKind,
    SeqKind,
    ShapeKind,
    WordOrKind,
)
from tileops_core.signature.model import Signature
from tileops_core.spec.entries import AdtValue
from tileops_core.spec.expressions import Const, Expr, free_names
from tileops_core.validate.walks import Condition, Stated

_BRANCHES = 8
"""So many combinations of what a branch needs are tried."""

_SIZES = (2, 1, 3, 4, 8, 0, 64, 4096)
_SCALARS: Mapping[str, tuple[Any, ...]] = {
    "int": (1, 0, 2), "float": (0.5, 1.0, 0.0), "bool": (True, False), "str": ("word",),
    "complex": (1j,),
}  # fmt: skip


class Trials:
    """Makes calls of one entry.

    Args:
        signature: The entry.
        rows: Calls of its rows; at least one.
    """

    def __init__(self, signature: Signature, rows: Sequence[Instance]) -> None:
        self.signature = signature
        self.branches = Branches(signature)
        self.lets = {let.name: let.expr for let in signature.lets}
        self.kinds: dict[str, Kind] = {i.name: i.kind for i in signature.indices}
        self.params = {p.name: p.kind for p in signature.params if p.tensor is None}
        self.kinds |= self.params
        self.bases = [self._whole(row) for row in rows]

    def of(
        self, place: Stated, part: Expr, conditions: tuple[Condition, ...]
    ) -> Iterator[Instance]:
        """Calls that may evaluate a part of an expression, the likeliest first.

        Args:
            place: The expression.
            part: The part.
            conditions: What has to hold for it to be evaluated.
        """
        givens = self._givens(place, conditions)
        for given, base in itertools.product(givens, self.bases):
            yield self._call(self._on_branch(base, given))
        read = [*(condition for condition, _ in conditions), part]
        changes = list(self._changes(read))
        for change, base in itertools.product(changes, self.bases[:2]):
            for given in givens[:4]:
                yield self._call({**self._on_branch(base, given), **change})
        for first, second in itertools.combinations(changes, 2):
            if not first.keys() & second.keys():
                for given in givens[:2]:
                    yield self._call({**self._on_branch(self.bases[0], given), **first, **second})

    # -- the branch -----------------------------------------------------------------------

    def _givens(self, place: Stated, conditions: tuple[Condition, ...]) -> list[Given]:
        """Values of discriminants with which every condition holds, or may hold."""
        branches = self.branches
        keys = frozenset().union(*(branches.keys(condition) for condition, _ in conditions))
        if place.tensor is not None:
            keys |= branches.keys_of_input(place.tensor)
        try:
            accepted = branches.accepted(keys)
        except TooManyBranches:
            return [{}]
        fitting = (given for given in accepted if self._fits(place, conditions, given))
        return list(itertools.islice(fitting, _BRANCHES))

    def _fits(self, place: Stated, conditions: tuple[Condition, ...], given: Given) -> bool:
        if place.tensor is not None and self.branches.is_there(place.tensor, given) is False:
            return False
        values = ((self.branches.value(condition, given), due) for condition, due in conditions)
        return all(value is UNKNOWN or bool(value) == due for value, due in values)

    def _on_branch(self, base: Mapping[str, Any], given: Given) -> dict[str, Any]:
        """A call's values with those of a branch."""
        values = dict(base)
        for key, value in given.items():
            if not isinstance(key, str):
                continue  # a comparison: sizes decide it
            name = key.removeprefix("present(").rstrip(")")
            if name not in self.kinds:
                values["some"] = {*values["some"], name} if value else {*values["some"]} - {name}
            elif name == key:
                values[name] = self._form(name, value) if isinstance(value, AdtValue) else value
            elif not value:
                values[name] = None
            elif values[name] is None:
                values[name] = next(self._values(self.kinds[name], present=True))
        return values

    def _form(self, param: str, value: AdtValue) -> AdtValue:
        """A value of a sealed sum, whose fields that nothing tells apart are those of a row."""
        kind = self.kinds[param]
        kind = kind.of if isinstance(kind, MaybeKind) else kind
        assert isinstance(kind, AdtKind)
        form = next(form for form in kind.constructors if form.name == value.kind)
        told = dict(value.fields)
        for base in self.bases:
            known = base[param]
            if isinstance(known, AdtValue) and known.kind == value.kind:
                fields = {**dict(known.fields), **told}
                if _keeps_invariants(form, fields):
                    return AdtValue(value.kind, tuple(fields.items()))
        names = [field for field, _ in form.fields]
        choices = [
            (told[field],) if field in told else tuple(self._values(of))
            for field, of in form.fields
        ]
        for chosen in itertools.islice(itertools.product(*choices), 64):
            fields = dict(zip(names, chosen, strict=True))
            if _keeps_invariants(form, fields):
                break
        return AdtValue(value.kind, tuple(fields.items()))

    # -- sizes and values -----------------------------------------------------------------

    def _changes(self, read: Iterable[Expr]) -> Iterator[dict[str, Any]]:
        """One name with another value, for each name behind some expressions."""
        names, numbers, words = self._behind(read)
        near = [n + d for n in numbers for d in (0, 1, -1) if isinstance(n, int)]
        for name in names:
            kind = self.kinds.get(name)
            if kind is None or isinstance(kind, BoolKind | EnumKind | DTypeKind | AdtKind):
                continue  # a tensor, or what the branch decides
            for value in dict.fromkeys(self._values(kind, near=near, numbers=numbers, words=words)):
                yield {name: value}

    def _behind(self, read: Iterable[Expr]) -> tuple[list[str], list[Any], list[str]]:
        """The names behind expressions, and the numbers and words in them; those of ``let`` too."""
        exprs, names = list(read), dict[str, None]()
        for expr in exprs:  # it grows meanwhile
            for name in free_names(expr):
                if name in self.lets and name not in names:
                    exprs.append(self.lets[name])
                names[name] = None
        constants = [n.value for expr in exprs for n in expr.walk() if isinstance(n, Const)]
        numbers = [c for c in constants if isinstance(c, int | float) and not isinstance(c, bool)]
        words = [c for c in constants if isinstance(c, str)]
        return list(names), list(dict.fromkeys(numbers))[:8], list(dict.fromkeys(words))[:8]

    def _values(
        self,
        kind: Kind,
        *,
        present: bool = False,
        near: Sequence[int] = (),
        numbers: Sequence[Any] = (),
        words: Sequence[str] = (),
    ) -> Iterator[Any]:
        """Values of a kind; ``present`` leaves out None."""

        def values(of: Kind) -> Iterator[Any]:
            return self._values(of, present=True, near=near, numbers=numbers, words=words)

        match kind:
            case MaybeKind(of=of):
                yield from values(of)
                yield from () if present else (None,)
            case WordOrKind(words=known, of=of):
                yield from values(of)
                yield from known
            case DimKind():
                yield from (*(n for n in near if n >= 0), *_SIZES)
            case IntKind():
                yield from (*near, *_SIZES, -1)
            case IntTupleKind(length=length):
                yield from ((n,) * length for n in (*near, *_SIZES))
            case ShapeKind():
                sizes = [n for n in near if n >= 0] + [2, 1, 3]
                yield from ((n,) * rank for rank in (1, 2, 0, 3, 4) for n in sizes)
            case SeqKind():
                yield from ((2, 2), (1,), ())
            case AxesKind(optional=optional):
                yield from (0, (0,), (0, 1), (), -1)
                yield from (None,) if optional and not present else ()
            case BoolKind():
                yield from (True, False)
            case EnumKind(words=known):
                yield from known
            case DTypeKind(members=members):
                yield from members or ("float32",)
            case ScalarKind(types=types):
                if {"int", "float"} & set(types):
                    yield from (*numbers, *(n + 1 for n in numbers))
                yield from words if "str" in types else ()
                yield from (value for name in types for value in _SCALARS[name])
            case AdtKind(constructors=forms):
                for form in forms:
                    fields = {name: next(self._values(of)) for name, of in form.fields}
                    yield AdtValue(form.name, tuple(fields.items()))
            case _:
                yield None  # a device, or an object that no expression reads

    # -- calls ----------------------------------------------------------------------------

    def _whole(self, row: Instance) -> dict[str, Any]:
        """A row's call by name, with a value for each index that its branch does not use."""
        unused = {i.name: next(self._values(i.kind)) for i in self.signature.indices}
        return {**unused, **row.params, **row.given, "some": set(row.some)}

    def _call(self, values: Mapping[str, Any]) -> Instance:
        params = {name: values[name] for name in self.params}
        given = {i.name: values[i.name] for i in self.signature.indices}
        return Instance(self.signature, "trial", tuple(values["some"]), params, given)


def _keeps_invariants(form: Constructor, fields: Mapping[str, Any]) -> bool:
    try:
        return all(evaluate(condition, fields) for _, condition in form.invariant)
    except (ValueError, ArithmeticError, LookupError, TypeError):
        return False
