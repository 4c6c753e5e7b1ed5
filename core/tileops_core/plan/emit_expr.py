"""Manifest expressions as Python source.

Every name was resolved and every kind checked before, so this only spells. Operands are always
parenthesised: the manifest's precedence is Python's, but spelling it out costs nothing.
"""

from __future__ import annotations

import math

import torch

from tileops_core.plan.left_to_run import PRIMITIVES as left_to_run_primitives
from tileops_core.plan.source import SourceWriter
from tileops_core.signature.kinds import Kind
from tileops_core.signature.model import Signature
from tileops_core.signature.primitives import PRIMITIVES
from tileops_core.spec.expressions import (
    Axes,
    Binary,
    BoolOp,
    Call,
    Compare,
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


def dtype_named(name: str) -> torch.dtype:
    """The torch dtype with a manifest's short name."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype), name
    return dtype


def has(tensor: str) -> str:
    """The local that says whether an optional tensor is there."""
    return f"_has_{tensor}"


class ExpressionWriter:
    """Spells expressions for one signature, adding the globals they need to ``writer``."""

    def __init__(
        self, signature: Signature, writer: SourceWriter, *, left_to_run: bool = False
    ) -> None:
        self.others = left_to_run_primitives if left_to_run else {}
        self.kinds: dict[str, Kind] = signature._kinds()
        self.optional = {t.name for t in signature.inputs if t.optional is not False}
        self.always = {t.name for t in (*signature.inputs, *signature.outputs)} - self.optional
        self.writer = writer

    def write(self, expr: Expr) -> str:
        """Python source with the expression's value."""
        match expr:
            case Const(value=float() as value) if math.isinf(value):
                return "_inf" if value > 0 else "(-_inf)"
            case Const(value=value):
                return repr(value)
            case Name(id=name):
                return self._name(name)
            case TupleOf(items=items) | Axes(items=items):
                return self.tuple_of(items)
            case Splice(value=value):
                return f"*{self.write(value)}"
            case Unary(op=op, operand=operand):
                return f"({op} {self.write(operand)})"
            case Binary(op=op, left=left, right=right):
                return f"({self.write(left)} {op} {self.write(right)})"
            case Compare(first=first, rest=rest):
                tail = " ".join(f"{op} {self.write(item)}" for op, item in rest)
                return f"({self.write(first)} {tail})"
            case BoolOp(op=op, items=items):
                return "(" + f" {op} ".join(self.write(i) for i in items) + ")"
            case IfElse(condition=condition, then=then, otherwise=otherwise):
                return (
                    f"({self.write(then)} if {self.write(condition)} else {self.write(otherwise)})"
                )
            case Index(value=value, index=index):
                return f"{self.write(value)}[{self.write(index)}]"
            case Slice(value=value, start=start, stop=stop):
                bounds = ("" if bound is None else self.write(bound) for bound in (start, stop))
                return f"{self.write(value)}[{':'.join(bounds)}]"
            case Field(value=value, name=name):
                return self.write(value) if name == "value" else f"{self.write(value)}.{name}"
            case Each(element=element, variable=variable, sequence=sequence):
                return f"{self.write(element)} for {variable} in {self.write(sequence)}"
            case Call():
                return self._call(expr)
        raise AssertionError(f"no spelling for {expr!r}")

    def tuple_of(self, items: tuple[Expr, ...]) -> str:
        """A tuple display; ``[*S]`` alone is spelled as the tuple itself would be."""
        return "(" + "".join(f"{self.write(i)}, " for i in items) + ")"

    def _name(self, name: str) -> str:
        if name in self.kinds:
            return name
        dtype = getattr(torch, name, None)
        if isinstance(dtype, torch.dtype):
            return self.writer.use(f"_dtype_{name}", dtype)
        return name  # a generator's variable

    def _call(self, call: Call) -> str:
        if call.function == "present":
            (subject,) = call.args
            if isinstance(subject, Name) and subject.id in self.optional:
                return has(subject.id)
            if isinstance(subject, Name) and subject.id in self.always:
                return "True"
            return f"({self.write(subject)} is not None)"
        if call.function == "bytes":
            (subject,) = call.args
            assert isinstance(subject, Name)
            return f"_bytes_{subject.id}"
        if call.function == "len":
            return f"len({self.write(call.args[0])})"
        name = "_prim_" + call.function.replace(".", "_")
        run = self.others.get(call.function, PRIMITIVES[call.function].run)
        self.writer.use(name, run)
        parts = [self.write(a) for a in call.args]
        parts += [f"{key}={self.write(value)}" for key, value in call.keywords]
        if len(parts) == 1 and isinstance(call.args[0], Each):
            return f"{name}({parts[0]})"
        return f"{name}({', '.join(parts)})"
