"""The nodes of the manifest's expression language.

Text becomes these nodes in :mod:`tileops_core.spec.grammar`; :mod:`tileops_core.signature`
gives them kinds; :mod:`tileops_core.plan` writes them as Python. Nothing ever evaluates text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.spans import Span


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Expr(EqualByFields):
    """An expression and where it stands. Equality compares meaning, not place."""

    span: Span = attrs.field(eq=False, repr=False)

    def children(self) -> Iterator[Expr]:
        """Direct sub-expressions, in reading order."""
        for name in fields_of(type(self)):
            value = getattr(self, name)
            if isinstance(value, Expr):
                yield value
            elif isinstance(value, tuple):
                yield from _exprs_in(value)

    def walk(self) -> Iterator[Expr]:
        """This node and everything below it, in reading order."""
        waiting: list[Expr] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed([*node.children()])


def fields_of(cls: type[Expr]) -> tuple[str, ...]:
    """The names of a node's parts, its place included."""
    if cls not in _FIELDS:
        _FIELDS[cls] = tuple(field.name for field in attrs.fields(cls))
    return _FIELDS[cls]


_FIELDS: dict[type, tuple[str, ...]] = {}  # attrs takes long to tell


def _exprs_in(value: object) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _exprs_in(item)


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Const(Expr):
    """An int, float (``inf`` included), string or boolean."""

    value: int | float | str | bool


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Name(Expr):
    """An index, parameter, tensor, ``let`` name, generator variable or dtype constant."""

    id: str


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class TupleOf(Expr):
    """``(a, b)``: a tuple as a value."""

    items: tuple[Expr, ...]


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Unary(Expr):
    """``-x`` or ``not x``."""

    op: str
    operand: Expr


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Binary(Expr):
    """``+ - * / // % **``."""

    op: str
    left: Expr
    right: Expr


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Compare(Expr):
    """A chain ``first op x op y``; ops are ``== != < <= > >= in`` and ``not in``."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class BoolOp(Expr):
    """``and`` or ``or`` over two or more items."""

    op: str
    items: tuple[Expr, ...]


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class IfElse(Expr):
    """``then if condition else otherwise``."""

    condition: Expr
    then: Expr
    otherwise: Expr


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Call(Expr):
    """A primitive, named by its (dotted) name; only constants and expressions as arguments."""

    function: str
    args: tuple[Expr, ...] = ()
    keywords: tuple[tuple[str, Expr], ...] = ()


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Index(Expr):
    """``value[index]``."""

    value: Expr
    index: Expr


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Slice(Expr):
    """``value[start:stop]``."""

    value: Expr
    start: Expr | None = None
    stop: Expr | None = None


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Field(Expr):
    """``v.value`` of a value known to be present, or a field of an algebraic value."""

    value: Expr
    name: str


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Each(Expr):
    """``element for variable in sequence``: only as the argument of sum, all, max, min, prod."""

    element: Expr
    variable: str
    sequence: Expr


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Splice(Expr):
    """``*value``: only among the axes of a shape."""

    value: Expr


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class FamilyUse(Expr):
    """``Family[arg, ...]``: only as a whole shape."""

    family: str
    args: tuple[Expr, ...]


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Axes(Expr):
    """``[axis, ...]``: a shape written out; items may be :class:`Splice`."""

    items: tuple[Expr, ...]


ShapeExpr: TypeAlias = FamilyUse | Axes


def free_names(expr: Expr) -> Iterator[str]:
    """The names an expression reads, in reading order; a generator's variable is its own."""
    if isinstance(expr, Name):
        yield expr.id
    elif isinstance(expr, Each):
        yield from (name for name in free_names(expr.element) if name != expr.variable)
        yield from free_names(expr.sequence)
    else:
        for child in expr.children():
            yield from free_names(child)
