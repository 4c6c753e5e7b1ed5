"""What an entry says, as it is written: names not resolved yet, expressions not typed yet.

An expression that could not be parsed is None here; what is wrong with it is among
:attr:`Spec.problems`, and only what depends on it stays unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr, ShapeExpr
from tileops_core.spec.problems import Problem


@attrs.frozen(slots=True, eq=False)
class Written:
    """A value and where it stands."""

    value: Any
    span: Span


UNREADABLE: Any = Ellipsis
"""Stands for a default that is there and could not be read."""


@attrs.frozen(slots=True, eq=False)
class IndexEntry:
    """``name: kind`` below ``forall``."""

    name: str
    kind: Written
    span: Span


@attrs.frozen(slots=True, eq=False)
class ParamEntry:
    """A constructor parameter; ``default`` None means that it has none."""

    name: str
    type: Written
    default: Written | None
    kw_only: bool
    span: Span


@attrs.frozen(slots=True, eq=False)
class TensorEntry:
    """What inputs and outputs share."""

    name: str
    dtype: Expr | None
    shape: ShapeExpr | None
    dtype_text: str
    shape_text: str
    span: Span
    dtype_span: Span
    shape_span: Span


@attrs.frozen(slots=True, eq=False)
class InputEntry(TensorEntry):
    """An input; a condition that could not be parsed is None."""

    optional: bool | Expr | None
    kw_only: bool
    contiguous: bool
    mutated: bool | Expr | None
    write_only: bool
    on_cpu: bool


@attrs.frozen(slots=True, eq=False)
class OutputEntry(TensorEntry):
    """An output."""

    nullable: Expr | None
    buffer: bool
    alias: Written | None


@attrs.frozen(slots=True, eq=False)
class CaseEntry:
    """A case of a type family: the values of its discriminants, and the shape for them."""

    when: tuple[Any, ...]
    shape: ShapeExpr | None
    span: Span


@attrs.frozen(slots=True, eq=False)
class FamilyEntry:
    """A type family; ``match`` names its discriminants."""

    name: str
    params: tuple[tuple[str, Written], ...]
    match: tuple[Written, ...]
    cases: tuple[CaseEntry, ...]
    span: Span


@attrs.frozen(slots=True, eq=False)
class LetEntry:
    """A named quantity."""

    name: str
    expr: Expr | None
    span: Span


@attrs.frozen(slots=True, eq=False)
class RuleEntry:
    """A refinement."""

    text: str
    expr: Expr | None
    span: Span


@attrs.frozen(slots=True, eq=False)
class RooflineEntry:
    """The cost of a call, inline or by a function's dotted name."""

    flops: Expr | None
    bytes: Expr | None
    func: str | None
    span: Span


@attrs.frozen(slots=True, eq=False)
class RowEntry:
    """A workload row; ``values`` holds parameters and indices alike."""

    label: Written
    values: Mapping[str, Written]
    some: tuple[Written, ...]
    dtype_cases: tuple[Mapping[str, Written], ...]
    small: Mapping[str, Written] | None
    span: Span


@attrs.frozen(slots=True, eq=False)
class Spec:
    """One entry of a manifest file."""

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
    roofline: RooflineEntry | None
    workloads: tuple[RowEntry, ...]
    span: Span
    problems: tuple[Problem, ...] = ()
