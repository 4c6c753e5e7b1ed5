"""Whether the device of a call is there, where no tensor of the call is."""

from __future__ import annotations

import torch

from tileops_core.call.compose import Tensors
from tileops_core.call.state import CalledOp
from tileops_core.call.torch_private import ordinary_state
from tileops_core.errors import OpNotAvailableError
from tileops_core.plan.devices import undecided_device


def check_device_is_there(op: CalledOp, device: torch.device, inputs: Tensors) -> None:
    """Check that torch can put a tensor where a call is to be. An input that is there shows it.

    Raises:
        OpNotAvailableError: it cannot.
    """
    if any(x is not None and x.device == device for x in inputs):
        return
    try:
        with ordinary_state():
            torch.empty(0, device=device)
    except Exception as error:
        name, target = op._plan.op, op._construction.target
        says = str(error).partition("\n")[0].partition(". ")[0]
        raise OpNotAvailableError(
            f"{name}: {_why(op)}, and this process has no device {str(device)!r}; construct the op "
            f"for a device that is there, or call it where this one is (torch says: {says})",
            op=name,
            target=target if isinstance(target, str) else None,
        ) from error


def _why(op: CalledOp) -> str:
    """What puts a call of an op where it is, when no input does."""
    undecided = undecided_device(op._plan.signature)
    name = None if undecided is None else undecided.parameter
    values = dict(zip(op._plan.static_names, op._construction.statics, strict=True))
    if name is None or values[name] is None:
        return "no tensor and no parameter says where the call is"
    return f"the op was constructed with {name}={str(values[name])!r}"
