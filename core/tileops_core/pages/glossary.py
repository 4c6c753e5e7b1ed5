"""What the functions of the language give, in a sentence each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tileops_core.pages.markdown import code, table
from tileops_core.signature.generators import GENERATORS
from tileops_core.signature.predicates import PREDICATES
from tileops_core.signature.primitives import PRIMITIVES

_PRIMITIVES: Mapping[str, tuple[str, str]] = {
    "broadcast": ("broadcast(shape, …)", "The shape that these shapes broadcast to."),
    "reduced": (
        "reduced(shape, dim, keepdim, mode)",
        "What a reduction leaves; `mode` says if an empty `dim` is all axes, none, or refused.",
    ),
    "valid_axes": ("valid_axes(shape, dim)", "Whether the shape has every axis of `dim`."),
    "unique_axes": ("unique_axes(shape, dim)", "Whether no axis stands in `dim` twice."),
    "nonempty_axes": (
        "nonempty_axes(shape, dim)",
        "Whether every axis of `dim` has elements; None stands for all of them.",
    ),
    "per_axis": (
        "per_axis(value, i, n, fallback=…)",
        "What `value` says of axis `i` of `n`: one number stands for each, None for the fallback.",
    ),
    "ceil_div": ("ceil_div(a, b)", "The quotient, rounded up."),
    "len": ("len(values)", "How many there are."),
    "prod": ("prod(values)", "The product of all, 1 of none."),
    "sum": ("sum(values)", "The sum of all, 0 of none."),
    "max": ("max(value, …)", "The greatest."),
    "min": ("min(value, …)", "The least."),
    "all": ("all(conditions)", "Whether each of them holds."),
    "category": (
        "category(value)",
        "Whether it is of bool, int, float or complex.",
    ),
    "representable": ("representable(value, dtype)", "Whether the dtype can hold the number."),
    "coalesce_dtype": (
        "coalesce_dtype(given, dtype)",
        "`dtype` where `given` is None, else that.",
    ),
    "promote_int_to_float": (
        "promote_int_to_float(dtype)",
        "float32 for bool and integers, else the dtype itself.",
    ),
    "present": ("present(value)", "Whether a tensor is there, or a value is not None."),
    "bytes": ("bytes(tensor)", "The size of a tensor in bytes, 0 where it is not there."),
}
"""How those are called whose code does not tell it, and what they give."""


def primitives() -> list[str]:
    """The table of the functions that expressions call."""
    rows = (
        _PRIMITIVES[name] if name in _PRIMITIVES else (_call(item), _sentence(item.run))
        for name, item in PRIMITIVES.items()
    )
    return _table("function", rows)


def predicates() -> list[str]:
    """The table of what metadata must meet."""
    return _table(
        "predicate", ((_call(p), _sentence(p.check)) for p in PREDICATES.values()), "holds if"
    )


def generators() -> list[str]:
    """The table of how workloads make metadata."""
    rows = ((_call(g), _sentence(g.run)) for g in GENERATORS.values())
    return _table("generator", rows)


def _call(item: Any) -> str:
    return f"{item.name}({', '.join(getattr(arg, 'name', arg) for arg in item.args)})"


def _table(what: str, rows: Iterable[tuple[str, str]], verb: str = "gives") -> list[str]:
    return table([what, verb], ([code(name), said] for name, said in rows))


def _sentence(function: Callable[..., Any]) -> str:
    """The first sentence of a docstring; code there is in double backticks."""
    said, _, _ = (inspect.getdoc(function) or "").partition("\n\n")
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(said.split()))
