"""Calls of an entry that no workload row describes: another branch, other sizes, other values.

A call is a row's with something changed. It is written as a dictionary of parameters and indices by
name, and ``"some"``, the set of the ``optional: true`` tensors that are passed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tileops_core.signature.branches import Branches, Given
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.instance import Instance, RowFault
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
from tileops_core.signature.scaling import changed
from tileops_core.spec.entries import AdtValue

_SIZES = (2, 1, 3, 4, 8, 0, 64, 4096)
_SCALARS: Mapping[str, tuple[Any, ...]] = {
    "int": (1, 0, 2), "float": (0.5, 1.0, 0.0), "bool": (True, False), "str": ("word",),
    "complex": (1j,),
}  # fmt: skip


class Calls:
    """Makes calls of one entry.

    Args:
        signature: The entry.
        rows: Calls of its rows; at least one.

    Attributes:
        branches: The entry's discriminants.
        kinds: The kind of each parameter that is no tensor, and of each index.
        bases: The rows' calls as dictionaries, with a value for every index.
    """

    def __init__(self, signature: Signature, rows: Sequence[Instance]) -> None:
        self.signature = signature
        self.branches = Branches(signature)
        self.kinds: dict[str, Kind] = {i.name: i.kind for i in signature.indices}
        self._params = {p.name: p.kind for p in signature.params if p.tensor is None}
        self.kinds |= self._params
        self.bases = [self.whole(row) for row in rows]

    def whole(self, row: Instance) -> dict[str, Any]:
        """A call by name, with a value for each index that its branch does not use."""
        unused = {i.name: next(values_of(i.kind)) for i in self.signature.indices}
        return {**unused, **row.params, **row.given, "some": set(row.some)}

    def call(self, values: Mapping[str, Any], label: str) -> Instance:
        """The call that a dictionary describes; nobody has checked it yet."""
        params = {name: values[name] for name in self._params}
        given = {i.name: values[i.name] for i in self.signature.indices}
        return Instance(self.signature, label, tuple(sorted(values["some"])), params, given)

    def settled(self, values: Mapping[str, Any], label: str) -> Instance | None:
        """The call that a dictionary describes, checked; None when the entry does not accept it.

        Indices that its branch does not use are left out, and Dims that metadata tells follow.
        """
        made = self.call(values, label)
        try:
            used = made.used()
        except (RowFault, LookupError):
            return None
        given = {name: value for name, value in made.given.items() if name in used}
        made = Instance(self.signature, label, made.some, made.params, given)
        try:
            made.check()
            made.metadata(0)
        except RowFault:
            try:
                return changed(made, {})  # the Dims that metadata tells may be others now
            except (RowFault, LookupError):
                return None
        return made

    def on_branch(self, base: Mapping[str, Any], given: Given) -> dict[str, Any]:
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
                values[name] = next(values_of(self.kinds[name], present=True))
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
            (told[field],) if field in told else tuple(values_of(of)) for field, of in form.fields
        ]
        for chosen in itertools.islice(itertools.product(*choices), 64):
            fields = dict(zip(names, chosen, strict=True))
            if _keeps_invariants(form, fields):
                break
        return AdtValue(value.kind, tuple(fields.items()))


def values_of(
    kind: Kind,
    *,
    present: bool = False,
    near: Sequence[int] = (),
    numbers: Sequence[Any] = (),
    words: Sequence[str] = (),
) -> Iterator[Any]:
    """Values of a kind, some of them small and ordinary.

    Args:
        kind: The kind.
        present: Leave out None.
        near: Ints to begin with, where the kind has ints.
        numbers: Numbers to begin with, where it has any.
        words: Texts to begin with, where it has any.
    """

    def values(of: Kind) -> Iterator[Any]:
        return values_of(of, present=True, near=near, numbers=numbers, words=words)

    match kind:
        case MaybeKind(of=of):
            yield from values(of)
            yield from () if present else (None,)
        case WordOrKind(words=known, of=of):
            yield from known
            yield from values(of)
        case DimKind():
            yield from (*(n for n in near if n >= 0), *_SIZES)
        case IntKind():
            yield from (*near, *_SIZES[:-1], -1, _SIZES[-1])
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
                fields = {name: next(values_of(of)) for name, of in form.fields}
                yield AdtValue(form.name, tuple(fields.items()))
        case _:
            yield None  # a device, or an object that no expression reads


def _keeps_invariants(form: Constructor, fields: Mapping[str, Any]) -> bool:
    try:
        return all(evaluate(condition, fields) for _, condition in form.invariant)
    except (ValueError, ArithmeticError, LookupError, TypeError):
        return False
