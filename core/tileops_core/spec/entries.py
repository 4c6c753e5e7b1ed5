"""What an entry says, as it is written: names not resolved yet, expressions not typed yet.

An expression that could not be parsed is None here; what is wrong with it is among
:attr:`Spec.problems`, and only what depends on it stays unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileops_core.by_fields import EqualByFields, ShownByFields
from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr, ShapeExpr
from tileops_core.spec.problems import Problem


@attrs.frozen(slots=True, eq=False, repr=False)
class Written(ShownByFields):
    """A value and where it stands."""

    value: Any
    span: Span


UNREADABLE: Any = Ellipsis
"""Stands for a default that is there and could not be read."""


@attrs.frozen(slots=True, eq=False, repr=False)
class IndexEntry(ShownByFields):
    """``name: kind`` below ``forall``."""

    name: str
    kind: Written
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class TensorEntry(ShownByFields):
    """What inputs and outputs share."""

    name: str
    dtype: Expr | None
    shape: ShapeExpr | None
    dtype_text: str
    shape_text: str
    span: Span
    dtype_span: Span
    shape_span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class InputEntry(TensorEntry):
    """An input; a condition that could not be parsed is None.

    ``values`` says how a row makes the tensor's values (``UNREADABLE`` if that is there and could
    not be read), ``requires`` what any values must meet.
    """

    optional: bool | Expr | None
    kw_only: bool
    contiguous: bool
    mutated: bool | Expr | None
    write_only: bool
    on_cpu: bool
    values: Expr | None = None
    requires: tuple[RuleEntry, ...] = ()


@attrs.frozen(slots=True, eq=False, repr=False)
class OutputEntry(TensorEntry):
    """An output."""

    nullable: Expr | None
    buffer: bool
    alias: Written | None
    contiguous: bool


@attrs.frozen(slots=True, eq=False, repr=False)
class ParamEntry(ShownByFields):
    """A constructor parameter; ``default`` None means that it has none, ``kw_only`` None that this
    could not be read.

    One that is given as a tensor has a dtype and a shape instead of a type.
    """

    name: str
    type: Written
    default: Written | None
    kw_only: bool | None
    tensor: InputEntry | None
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class Pattern(EqualByFields):
    """``{constructor: _}`` or ``{constructor: {field: value}}``: values of a sealed sum."""

    constructor: str
    fields: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {plain_text(value)}" for name, value in self.fields)
        return f"{{{self.constructor}: {f'{{{inner}}}' if inner else '_'}}}"


@attrs.frozen(slots=True, eq=False, repr=False)
class AdtValue(EqualByFields):
    """A value of a sealed sum as an entry writes it: ``{constructor: {field: value}}``.

    Read like an object of the constructor's class: ``kind``, and each field by its name.
    """

    kind: str
    fields: tuple[tuple[str, Any], ...]

    def __getattr__(self, name: str) -> Any:
        for field, value in self.fields:
            if field == name:
                return value
        raise AttributeError(f"{self} has no field {name!r}")

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {plain_text(value)}" for name, value in self.fields)
        return f"{{{self.kind}: {{{inner}}}}}"


def plain_text(value: Any) -> str:
    """A plain value as an entry writes it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


@attrs.frozen(slots=True, eq=False, repr=False)
class CaseEntry(ShownByFields):
    """A case of a type family: the values of its discriminants, and the shape for them.

    A value is a boolean, a word or a :class:`Pattern`.
    """

    when: tuple[Any, ...]
    shape: ShapeExpr | None
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class FamilyEntry(ShownByFields):
    """A type family; ``match`` names its discriminants.

    Of one that is not ``whole``, what it takes or matches could not be read.
    """

    name: str
    params: tuple[tuple[str, Written], ...]
    match: tuple[Written, ...]
    cases: tuple[CaseEntry, ...]
    span: Span
    whole: bool = True


@attrs.frozen(slots=True, eq=False, repr=False)
class LetEntry(ShownByFields):
    """A named quantity."""

    name: str
    expr: Expr | None
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class RuleEntry(ShownByFields):
    """A refinement."""

    text: str
    expr: Expr | None
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class ComboEntry(ShownByFields):
    """A row of ``dtype_combos``: dtypes that go together, by the names that have them.

    Of one that is not ``whole``, something could not be read.
    """

    dtypes: Mapping[str, Written]
    span: Span
    whole: bool = True


@attrs.frozen(slots=True, eq=False, repr=False)
class StageEntry(ShownByFields):
    """A stage of a composition: a name for the place, and the op held there."""

    name: Written
    op: Written
    optional: bool
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class CompositionEntry(ShownByFields):
    """What a composite op is made of."""

    stages: tuple[StageEntry, ...]
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class ConstructorEntry(ShownByFields):
    """One form of a sealed sum: the Python class of its values, its fields by type, and what
    every value of this form meets.
    """

    name: str
    python: Written | None
    fields: tuple[tuple[str, Written], ...]
    invariant: tuple[RuleEntry, ...]
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class SharedTypeEntry(ShownByFields):
    """A type that entries share: a sealed sum by its constructors, or (``opaque``) the Python
    class of objects that expressions cannot read.
    """

    name: str
    constructors: tuple[ConstructorEntry, ...]
    opaque: Written | None
    span: Span
    problems: tuple[Problem, ...] = ()


@attrs.frozen(slots=True, eq=False, repr=False)
class RooflineEntry(ShownByFields):
    """The cost of a call, inline or by a function's dotted name."""

    flops: Expr | None
    bytes: Expr | None
    func: str | None
    span: Span


@attrs.frozen(slots=True, eq=False, repr=False)
class RowEntry(ShownByFields):
    """A workload row; ``values`` holds parameters and indices alike.

    Of one that is not ``whole``, something is there that could not be read.
    """

    label: Written
    values: Mapping[str, Written]
    some: tuple[Written, ...]
    dtype_cases: tuple[Mapping[str, Written], ...]
    small: Mapping[str, Written] | None
    span: Span
    whole: bool = True

    @property
    def names(self) -> frozenset[str]:
        """Everything that the row gives a value or passes."""
        given = frozenset(self.values).union(self.small or (), *self.dtype_cases)
        return given | {name.value for name in self.some}


@attrs.frozen(slots=True, eq=False, repr=False)
class Spec(ShownByFields):
    """One entry of a manifest file.

    ``left_out`` are the keys of the signature below which something could not be taken in.
    """

    op: str
    family: str
    status: str
    ref_api: str | None
    forall: tuple[IndexEntry, ...]
    params: tuple[ParamEntry, ...]
    inputs: tuple[InputEntry, ...]
    outputs: tuple[OutputEntry, ...]
    types: tuple[FamilyEntry, ...]
    lets: tuple[LetEntry, ...]
    rules: tuple[RuleEntry, ...]
    dtype_combos: tuple[ComboEntry, ...]
    composition: CompositionEntry | None
    roofline: RooflineEntry | None
    workloads: tuple[RowEntry, ...]
    span: Span
    problems: tuple[Problem, ...] = ()
    left_out: frozenset[str] = frozenset()
