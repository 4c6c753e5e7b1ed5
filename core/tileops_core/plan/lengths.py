"""Which expressions may give what is no length of an axis: a negative number."""

from __future__ import annotations

from typing import Any

from tileops_core.signature.kinds import DimKind, MaybeKind, ShapeKind
from tileops_core.signature.model import Signature
from tileops_core.spec.expressions import (
    Binary,
    Call,
    Const,
    Each,
    Expr,
    Field,
    IfElse,
    Index,
    Name,
    Slice,
    Splice,
    TupleOf,
    Unary,
)


class Lengths:
    """Tells by an entry's expressions alone, whatever its refinements rule out.

    Args:
        signature: The entry.
    """

    def __init__(self, signature: Signature) -> None:
        self._kinds = signature._kinds()
        self._lets: dict[str, bool] = {}
        for let in signature.lets:  # each reads only earlier ones
            self._lets[let.name] = self.may_fail(let.expr)

    def may_fail(self, expr: Expr) -> bool:
        """Whether a value, or an item of a sequence, may be no length."""
        return self._fails(expr, {})

    def _fails(self, expr: Expr, variables: dict[str, bool]) -> bool:
        """``variables`` are those of the generators around, and whether they may fail."""

        def fails(part: Expr) -> bool:
            return self._fails(part, variables)

        match expr:
            case Const(value=value):
                return isinstance(value, int) and value < 0
            case Name(id=name):
                known = variables.get(name, self._lets.get(name))
                return not _is_length(self._kinds.get(name)) if known is None else known
            case Binary(op="+" | "*" | "//" | "**", left=left, right=right):
                return fails(left) or fails(right)
            case Binary(op="%", right=right):
                return fails(right)  # the remainder has the divisor's sign
            case IfElse(then=then, otherwise=otherwise):
                return fails(then) or fails(otherwise)
            case TupleOf(items=items):
                return any(map(fails, items))
            case Index(value=value) | Slice(value=value) | Splice(value=value):
                return fails(value)
            case Each(element=element, variable=variable, sequence=sequence):
                return self._fails(element, {**variables, variable: fails(sequence)})
            case Field(value=Name(id=name), name="value"):
                kind = self._kinds.get(name)
                return not (isinstance(kind, MaybeKind) and _is_length(kind.of))
            case Call():
                return self._call(expr, [fails(a) for a in expr.args])
            case Field() | Binary() | Unary():
                return True
        return False

    def _call(self, call: Call, fail: list[bool]) -> bool:
        """``fail`` says of each argument whether it may fail."""
        if call.function in ("len", "bytes", "mhc.expansion"):
            return False
        if call.function == "reduced":
            return fail[0]  # the rest are axes and words
        if call.function == "max" and len(fail) > 1:
            return all(fail)
        if call.function in ("broadcast", "ceil_div", "max", "min", "prod", "sum"):
            return any(fail)
        return True


def _is_length(kind: Any) -> bool:
    return isinstance(kind, DimKind | ShapeKind)


def is_no_length(value: Any) -> bool:
    """Whether a number is negative, so that no axis has this length.

    Nothing is asked of a symbolic one: the answer would tie a graph that is being traced to it.
    The body of the traced call gets numbers and asks again.
    """
    return isinstance(value, int) and value < 0


def first_wrong(values: Any) -> int | None:
    """Where in a run of axes is the first that has no length; None if all have."""
    return next((i for i, value in enumerate(values) if is_no_length(value)), None)
