"""Constructor parameters as attributes: plain to read, fixed once the op is constructed."""

from __future__ import annotations

from types import FunctionType
from typing import Any, NoReturn

from tileops_core.call.torch_private import not_traced
from tileops_core.plan.emit_expr import dtype_named
from tileops_core.plan.params import sum_value
from tileops_core.plan.source import SourceWriter, compile_source
from tileops_core.signature.kinds import AdtKind, DTypeKind, MaybeKind
from tileops_core.signature.model import REQUIRED, Param, Signature

CONSTRUCTED = "an op is constructed in compiled code; construct it once, outside, and call it there"


class ParameterAttribute:
    """Refuses writes after construction.

    It has no ``__get__``, so reading a parameter is a plain look-up in the instance.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __set__(self, op: Any, value: Any) -> None:
        if getattr(op, "_construction", None) is not None:
            refuse_write(op, self.name)
        op.__dict__[self.name] = value

    def __delete__(self, op: Any) -> None:
        refuse_write(op, self.name)


def refuse_write(op: Any, attribute: str) -> NoReturn:
    """Refuse to change what the constructor settled.

    Raises:
        AttributeError: always.
    """
    name = type(op).__name__
    raise AttributeError(
        f"{name}: {attribute} is fixed at construction; construct a new op, as in "
        f"{name}(..., {attribute}=...)"
    )


def default_of(param: Param) -> Any:
    """The default as the constructor states it: a dtype's name becomes the dtype, a sealed sum's
    value an object of its form's class.
    """
    kind = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
    if isinstance(kind, DTypeKind) and isinstance(param.default, str):
        return dtype_named(param.default)
    if isinstance(kind, AdtKind) and param.default is not None:
        return sum_value(kind, param.default)
    if isinstance(param.default, list):
        return tuple(param.default)
    return param.default


def emit_init(signature: Signature, base_init: FunctionType) -> FunctionType:
    """A constructor with the entry's parameters: same names, order, defaults and kinds of passing.

    Its docstring and annotations are the entry's, so ``help`` and ``inspect`` show them.
    """
    w = SourceWriter()
    w.use("_initialize", base_init)
    positional: list[str] = []
    named: list[str] = []
    for param in signature.params:
        text = param.name
        if param.default is not REQUIRED:
            text += f"={w.use(f'_default_{param.name}', default_of(param))}"
        (named if param.kw_only else positional).append(text)
    arguments = ", ".join(["self", *positional, "*", *named, "target=None"])
    with w.block(f"def __init__({arguments}):"):
        for param in signature.params:
            w.line(f"self.{param.name} = {param.name}")
        w.line("_initialize(self, target=target)")
    init = compile_source(w, f"<tileops init {signature.op}>")["__init__"]
    init.__qualname__ = signature.op
    init.__doc__ = _docstring(signature.params)
    annotations: dict[str, Any] = {p.name: p.annotation for p in signature.params}
    init.__annotations__ = {**annotations, "target": "str | Builtin | None", "return": None}
    untraced: FunctionType = not_traced(init, CONSTRUCTED)
    return untraced


def _docstring(params: tuple[Param, ...]) -> str:
    lines = ["Construct once, call many times.", "", "Args:"]
    for param in params:
        default = "" if param.default is REQUIRED else f" Default: {default_of(param)!r}."
        lines.append(f"    {param.name}: {param.help}.{default}")
    lines.append("    target: who computes: a target's or a backend's name, BUILTIN, or None for")
    lines.append("        the process default, then whoever claims the call's device.")
    return "\n".join(lines)
