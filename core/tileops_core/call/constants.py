"""Parameters that are tensors, on their way to a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch

from tileops_core.call.state import CalledOp
from tileops_core.call.torch_private import ordinary_state
from tileops_core.errors import SignatureError
from tileops_core.signature.model import Input


def constants(op: CalledOp, device: torch.device) -> Mapping[str, torch.Tensor | None]:
    """An op's parameters that are tensors, by name, on a device; copied there once.

    Raises:
        SignatureError: one that has no data would have to be copied.
    """
    found: dict[str, torch.Tensor | None] = {}
    values = dict(zip(op._plan.static_names, op._construction.statics, strict=True))
    for declared in op._plan.signature.construction_tensors:
        held = values[declared.name]
        if held is not None and held.device != device:
            key = (f"parameter {declared.name}", device)
            kept = op._running.derived
            if key not in kept:
                if held.device.type == "meta":
                    _refuse_meta(op._plan.op, declared, device)
                with ordinary_state():
                    kept.setdefault(key, held.to(device))
            held = kept[key]
        found[declared.name] = held
    return found


def _refuse_meta(op: str, declared: Input, device: torch.device) -> NoReturn:
    name, span = declared.name, declared.span
    raise SignatureError(
        f"{op}: {name} was given on the meta device, where it has no data, and this call is on "
        f"{device}; construct the op with a tensor that has data, or call it with meta tensors"
        f"  [{span.short}]",
        op=op,
        tensor=name,
        expected="a tensor with data",
        actual=torch.device("meta"),
        span=span,
    )


def given(
    kernel: Callable[..., Any], tensors: Mapping[str, torch.Tensor | None]
) -> Callable[..., Any]:
    """A kernel that takes some tensors by name, with these for them."""
    if not tensors:
        return kernel

    def with_tensors(*inputs: Any, **more: Any) -> Any:
        return kernel(*inputs, **tensors, **more)

    return with_tensors
