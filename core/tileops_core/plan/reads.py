"""What an expression stands on: the names that it reads, and those behind quantities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops_core.signature.model import Signature
from tileops_core.spec.expressions import Expr, free_names


def exprs_behind(signature: Signature, expr: Expr) -> tuple[Expr, ...]:
    """An expression, and those of the quantities (``let``) that it reads, each once."""
    lets = {let.name: let.expr for let in signature.lets}
    found: set[str] = set()
    exprs = [expr]
    for each in exprs:  # it grows meanwhile
        for name in free_names(each):
            if name in lets and name not in found:
                found.add(name)
                exprs.append(lets[name])
    return tuple(exprs)


def values_read(signature: Signature, expr: Expr, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what an expression stands on, of those that there are."""
    names = (n for each in exprs_behind(signature, expr) for n in free_names(each))
    return {name: values[name] for name in names if name in values}
