"""The checks of ``checks(metadata=True)``: tensors that describe others hold what they must."""

from __future__ import annotations

from typing import Any

import torch

from tileops_core.call.compose import Tensors
from tileops_core.errors import SignatureError
from tileops_core.plan.model import Plan, Statics
from tileops_core.plan.sites import dtype_text
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.instance import told
from tileops_core.signature.metadata import arguments
from tileops_core.signature.model import Requirement
from tileops_core.signature.predicates import PREDICATES


def check_metadata(plan: Plan, statics: Statics, inputs: Tensors) -> None:
    """Read the values of metadata tensors and check what the entry requires of them.

    Args:
        plan: the op's plan.
        statics: what the constructor settled.
        inputs: the signature's inputs in order, None for absent ones; they hold data.

    Raises:
        SignatureError: a value is not as the entry requires, or the call is refused anyway.
    """
    declared = plan.signature.inputs
    if not any(tensor.requires for tensor in declared):
        return
    facts = plan.check(statics, *inputs)
    by_name = {tensor.name: x for tensor, x in zip(declared, inputs, strict=True)}
    names: dict[str, Any] = {
        **dict(zip(plan.static_names, statics, strict=True)),
        **dict(zip(plan.fact_names, facts, strict=True)),
        **{name: x if x is None else (x.dtype, tuple(x.shape)) for name, x in by_name.items()},
    }
    names = {name: _as_written(value) for name, value in names.items()}
    read = {
        name: values
        for tensor in declared
        for name in (tensor.name, *(n for r in tensor.requires for n in r.tensors))
        if tensor.requires and (values := _values(by_name[name])) is not None
    }
    for tensor in declared:
        if tensor.name in read:
            for requirement in tensor.requires:
                _check(plan.op, tensor.name, requirement, names, read)


def _check(
    op: str, name: str, requirement: Requirement, names: dict[str, Any], read: dict[str, Any]
) -> None:
    others = {other: read[other] for other in requirement.tensors}
    try:
        args = arguments(requirement.call, lambda expr: evaluate(expr, names), others)
    except (ValueError, ArithmeticError, IndexError) as error:
        raise _refused(op, name, requirement, f"{name}: {error}", None) from None
    violation = PREDICATES[requirement.call.function].check(read[name], *args)
    if violation is not None:
        raise _refused(op, name, requirement, told(name, violation), violation.value)


def _refused(
    op: str, name: str, requirement: Requirement, said: str, actual: object
) -> SignatureError:
    return SignatureError(
        f"{op}: {said}; the signature requires {requirement.text} of {name}  "
        f"[{requirement.span.short}]",
        op=op,
        tensor=name,
        expected=requirement.text,
        actual=actual,
        span=requirement.span,
    )


def _as_written(value: Any) -> Any:
    """A value as expressions of an entry compare it: dtypes by their short names."""
    return dtype_text(value) if isinstance(value, torch.dtype) else value


def _values(tensor: torch.Tensor | None) -> Any:
    return None if tensor is None else tensor.tolist()
