"""Where a call is when no required input says so."""

from __future__ import annotations

import attrs
import torch

from tileops_core.by_fields import EqualByFields
from tileops_core.plan.source import SourceWriter
from tileops_core.signature.kinds import DeviceKind
from tileops_core.signature.model import Signature


@attrs.frozen(slots=True, eq=False, repr=False)
class Undecided(EqualByFields):
    """What a call's device depends on, the first that is there.

    ``inputs`` are optional inputs, ``parameter`` one that states a device, ``constants`` parameters
    that are tensors.
    """

    inputs: tuple[str, ...]
    parameter: str | None
    constants: tuple[str, ...]

    def write(self, writer: SourceWriter, prefix: str = "") -> str:
        """Source of the device; parameters are read behind ``prefix``."""
        stated = "None" if self.parameter is None else f"{prefix}{self.parameter}"
        if self.constants:
            writer.use("_device_of", device_of)
            held = ", ".join(f"{prefix}{name}" for name in self.constants)
            stated = f"_device_of({stated}, {held})"
        writer.use("_default_device", default_device)
        return f"_default_device({', '.join([stated, *self.inputs])})"


def undecided_device(signature: Signature) -> Undecided | None:
    """What a call's device depends on where no required input decides it, else None."""
    deciding = [t for t in signature.inputs if not t.on_cpu]
    if any(t.optional is False for t in deciding):
        return None
    parameters = (p.name for p in signature.params if isinstance(p.kind, DeviceKind))
    return Undecided(
        tuple(t.name for t in deciding),
        next(parameters, None),
        tuple(t.name for t in signature.construction_tensors),
    )


def device_of(stated: torch.device | None, *held: torch.Tensor | None) -> torch.device | None:
    """The device stated, else that of the first tensor there is, if there is one."""
    tensors = (tensor.device for tensor in held if tensor is not None)
    return stated if stated is not None else next(tensors, None)


def default_device(stated: torch.device | None, *tensors: torch.Tensor | None) -> torch.device:
    """The device of the first tensor there is; else the one stated; else the current CUDA device,
    or the CPU where there is none. Whether a device that is stated is there shows in the call.
    """
    for tensor in tensors:
        if tensor is not None:
            return tensor.device
    if stated is None:
        stated = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if stated.type == "cuda" and stated.index is None:
        try:
            return torch.device("cuda", torch.cuda.current_device())
        except (AssertionError, RuntimeError):
            return stated  # there is none; who only asks about a call need not have it
    return stated
