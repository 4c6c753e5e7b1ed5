"""What may stand where a tensor belongs; asked before anything of it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tileops_core.errors import NotATensorError
from tileops_core.plan.forms import check_form
from tileops_core.plan.model import Plan
from tileops_core.plan.sites import value_text
from tileops_core.spans import Span


def admit(plan: Plan, inputs: Sequence[Any], out: Any) -> None:
    """Check that every input is an ordinary dense tensor, or None where it may be absent.

    Raises:
        NotATensorError: something else came, or None for a tensor that must be there.
        SignatureError: a sparse, nested, quantized or otherwise laid out tensor came.
    """
    for declared, value in zip(plan.signature.inputs, inputs, strict=True):
        if value is None and declared.optional is not False:
            continue
        _admit_one(plan.op, declared.name, value, declared.span)
    if out is not None:
        buffer = plan.signature.out_buffer
        assert buffer is not None
        _admit_one(plan.op, "out", out, buffer.span)


def _admit_one(op: str, name: str, value: Any, span: Span) -> None:
    if not isinstance(value, torch.Tensor):
        got = "None" if value is None else f"{value_text(value)} ({type(value).__name__})"
        raise NotATensorError(
            f"{op}: {name} must be a torch.Tensor, got {got}  [{span.short}]",
            op=op,
            tensor=name,
            expected="torch.Tensor",
            actual=value,
            span=span,
        )
    check_form(op, name, value, span)
