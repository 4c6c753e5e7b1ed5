"""What a primitive is, and which kinds its arguments may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.kinds import (
    DIM,
    FLOAT,
    INT,
    AxesKind,
    BoolKind,
    DTypeKind,
    EachKind,
    IntKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    ShapeKind,
    TupleKind,
    is_int,
    is_number,
)


class PrimitiveError(ValueError):
    """A value outside a primitive's domain; ``index_error`` when torch raises IndexError then."""

    def __init__(self, message: str, *, index_error: bool = False) -> None:
        super().__init__(message)
        self.index_error = index_error


@attrs.frozen(slots=True, eq=False, repr=False)
class Argument(EqualByFields):
    """A formal argument: whether a kind may stand there, and what to call what may."""

    name: str
    accepts: Callable[[Kind], bool]
    noun: str

    def __str__(self) -> str:
        return f"{self.name}: {self.noun}"


def usage(name: str, args: Sequence[object]) -> str:
    """How a function is called: ``ceil_div(number: an int, divisor: an int)``."""
    return f"{name}({', '.join(map(str, args))})"


@attrs.frozen(slots=True, eq=False, repr=False)
class Primitive(EqualByFields):
    """One function of the language.

    ``rest`` takes the arguments past ``args``, if any may follow, at least ``least`` of them;
    ``alone`` is what may stand there instead as the only one. ``optional`` arguments are given by
    keyword. ``explain`` says, for a predicate that does not hold, what is wrong with the values.

    What it means stands in the docstring of ``run``, or in ``doc`` where that is Python's own:
    sentences, then examples in the language behind ``>>>``, each with its value.
    """

    name: str
    args: tuple[Argument, ...]
    result: Callable[[Sequence[Kind]], Kind]
    run: Callable[..., Any]
    rest: Argument | None = None
    least: int = 0
    alone: Argument | None = None
    optional: tuple[Argument, ...] = ()
    explain: Callable[..., PrimitiveError | None] | None = None
    doc: str = ""

    @property
    def usage(self) -> str:
        """How it is called: its arguments in their order, and what each may be."""
        rest = [*[self.rest] * max(self.least, 1), "..."] if self.rest else []
        optional = [f"{argument.name}={argument.noun}" for argument in self.optional]
        text = usage(self.name, [*self.args, *rest, *optional])
        return f"{text} or {usage(self.name, [self.alone])}" if self.alone else text


def is_shape(kind: Kind) -> bool:
    """Whether a value is a tuple of ints."""
    return isinstance(kind, ShapeKind) or is_ints(kind)


def is_ints(kind: Kind) -> bool:
    """Whether a value is a tuple of ints that is written out."""
    return isinstance(kind, TupleKind) and all(is_int(item) for item in kind.items)


def is_axes(kind: Kind) -> bool:
    """Whether a value can be the ``dim`` of a reduction."""
    inner = kind.of if isinstance(kind, MaybeKind) else kind
    return isinstance(inner, (AxesKind, IntKind)) or is_shape(inner)


def is_per_axis(kind: Kind) -> bool:
    """Whether a value is one for all axes, or one for each."""
    inner = kind.of if isinstance(kind, MaybeKind) else kind
    return isinstance(inner, IntTupleKind) or is_axes(inner)


def is_sequence(kind: Kind) -> bool:
    """Whether a value is a sequence of numbers."""
    return (
        is_shape(kind)
        or (isinstance(kind, IntTupleKind) and not kind.holes)
        or (isinstance(kind, EachKind) and is_number(kind.of))
        or (isinstance(kind, TupleKind) and bool(kind.items) and all(map(is_number, kind.items)))
    )


def is_dtype(kind: Kind) -> bool:
    """Whether a value is a dtype."""
    return isinstance(kind, DTypeKind)


def is_maybe_dtype(kind: Kind) -> bool:
    """Whether a value is a dtype or None."""
    return isinstance(kind, MaybeKind) and is_dtype(kind.of)


def has_category(kind: Kind) -> bool:
    """Whether a value is a number or a dtype."""
    return is_number(kind) or isinstance(kind, (BoolKind, DTypeKind))


def is_scalar(kind: Kind) -> bool:
    """Whether a value is a number or a truth value."""
    return is_number(kind) or isinstance(kind, BoolKind)


def joined_number(kinds: Sequence[Kind]) -> Kind:
    """The kind of a number that is any one of these."""
    if all(kind == DIM for kind in kinds):
        return DIM
    if all(is_int(kind) for kind in kinds):
        return INT
    return FLOAT


def tuple_text(items: Sequence[Any]) -> str:
    """A tuple as messages show it; its items may be symbolic."""
    return "(" + ", ".join(map(str, items)) + ("," if len(items) == 1 else "") + ")"
