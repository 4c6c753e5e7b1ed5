"""Expressions, parameters and tensors as people write them, and the call in Python."""

from __future__ import annotations

from tileops_core.signature.kinds import DimKind, DTypeKind, Kind, SeqKind, ShapeKind
from tileops_core.signature.model import (
    REQUIRED,
    Input,
    Output,
    Param,
    Signature,
    TensorDecl,
)
from tileops_core.spec.entries import AdtValue
from tileops_core.spec.expressions import (
    Axes,
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    FamilyUse,
    Field,
    IfElse,
    Index,
    Name,
    Slice,
    Splice,
    TupleOf,
    Unary,
)

_LEVELS = {"+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7, "**": 9}
_POSTFIX = 10


def text_of(expr: Expr) -> str:
    """An expression as the entry would have it, with no more parentheses than needed."""
    return _write(expr)[0]


def _write(expr: Expr) -> tuple[str, int]:
    """Text, and how tightly its outermost operator binds."""
    match expr:
        case Const(value=value):
            if isinstance(value, (int, float)) and value < 0:
                return repr(value), 8
            return repr(value), _POSTFIX
        case Name(id=name):
            return name, _POSTFIX
        case Unary(op="not", operand=operand):
            return f"not {_at(operand, 3)}", 3
        case Unary(op=op, operand=operand):
            return f"{op}{_at(operand, 8)}", 8
        case Binary(op="**", left=left, right=right):
            return f"{_at(left, _POSTFIX)} ** {_at(right, 8)}", 9
        case Binary(op=op, left=left, right=right):
            level = _LEVELS[op]
            return f"{_at(left, level)} {op} {_at(right, level + 1)}", level
        case Compare(first=first, rest=rest):
            links = "".join(f" {op} {_at(item, 5)}" for op, item in rest)
            return _at(first, 5) + links, 4
        case BoolOp(op=op, items=items):
            level = 2 if op == "and" else 1
            return f" {op} ".join(_at(item, level + 1) for item in items), level
        case IfElse(condition=condition, then=then, otherwise=otherwise):
            return f"{_at(then, 1)} if {_at(condition, 1)} else {_at(otherwise, 0)}", 0
        case Each(element=element, variable=variable, sequence=sequence):
            return f"{_at(element, 0)} for {variable} in {_at(sequence, 1)}", 0
        case Splice(value=value):
            return f"*{_at(value, 8)}", 0
        case TupleOf(items=items):
            comma = "," if len(items) == 1 else ""
            return f"({list_of(items)}{comma})", _POSTFIX
        case Axes(items=items):
            return f"[{list_of(items)}]", _POSTFIX
        case FamilyUse(family=family, args=args):
            return f"{family}[{list_of(args)}]", _POSTFIX
        case Call(function=function, args=args, keywords=keywords):
            named = [f"{name}={_at(value, 0)}" for name, value in keywords]
            return f"{function}({', '.join([*map(text_of, args), *named])})", _POSTFIX
        case Index(value=value, index=index):
            return f"{_at(value, _POSTFIX)}[{text_of(index)}]", _POSTFIX
        case Slice(value=value, start=start, stop=stop):
            ends = [text_of(end) if end is not None else "" for end in (start, stop)]
            return f"{_at(value, _POSTFIX)}[{':'.join(ends)}]", _POSTFIX
        case Field(value=value, name=name):
            return f"{_at(value, _POSTFIX)}.{name}", _POSTFIX
    raise AssertionError(f"no text for {type(expr).__name__}")


def _at(expr: Expr, level: int) -> str:
    text, own = _write(expr)
    return text if own >= level else f"({text})"


def list_of(items: tuple[Expr, ...]) -> str:
    """Expressions with commas between them."""
    return ", ".join(map(text_of, items))


def kind_name(kind: Kind) -> str:
    """The word of the entry for the kind of a ``forall`` index."""
    words = {DimKind: "Dim", ShapeKind: "Shape", SeqKind: "Seq[Int]", DTypeKind: "DType"}
    return words.get(type(kind), type(kind).__name__.removesuffix("Kind"))


def as_python(signature: Signature) -> str:
    """How to construct and how to call: two lines of Python."""
    plain = [parameter(p) for p in signature.params if not p.kw_only]
    named = [parameter(p) for p in signature.params if p.kw_only]
    construct = ", ".join([*plain, "*", *named, "target=None"])
    taken = [_argument(t) for t in signature.inputs if not t.kw_only]
    by_name = [_argument(t) for t in signature.inputs if t.kw_only]
    if signature.out_buffer is not None:
        (by_name or taken).append("out=None")
    call = ", ".join([*taken, *(["*", *by_name] if by_name else [])])
    returned = ", ".join(o.name for o in signature.outputs) or "None"
    return f"op = {signature.op}({construct})\n{returned} = op({call})"


def parameter(param: Param) -> str:
    """A parameter with its type and default, as Python has it."""
    written = f"{param.name}: {param.annotation}"
    if param.default is REQUIRED:
        return written
    shown = param.default if isinstance(param.default, AdtValue) else repr(param.default)
    return f"{written} = {shown}"


def _argument(tensor: Input) -> str:
    return tensor.name if tensor.optional is False else f"{tensor.name}=None"


def remarks(tensor: TensorDecl) -> list[str]:
    """What holds of one tensor besides its type, each in a few words."""
    said = []
    if isinstance(tensor, Input):
        said += _on(tensor.optional, "optional", "passed exactly if")
        said += _on(tensor.mutated, "written", "written if")
        said += ["never read"] if tensor.write_only else []
        said += ["by name"] if tensor.kw_only else []
        said += ["contiguous"] if tensor.contiguous else []
        said += ["on the CPU"] if tensor.on_cpu else []
    if isinstance(tensor, Output):
        said += [f"None if {text_of(tensor.nullable)}"] if tensor.nullable is not None else []
        said += ["into out= if passed"] if tensor.buffer else []
        said += ["contiguous"] if tensor.contiguous else []
        said += [f"is {tensor.alias} where that is written"] if tensor.alias else []
    return said


def _on(condition: bool | Expr, always: str, sometimes: str) -> list[str]:
    if isinstance(condition, Expr):
        return [f"{sometimes} {text_of(condition)}"]
    return [always] if condition else []
