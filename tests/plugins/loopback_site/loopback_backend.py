"""A backend whose target serves every op by handing each call to the reference's function.

It comes in as a stranger's does: a distribution with an entry point, hooks, a detector and one
builder per op. What holds for ops served by it holds for ops served by any whole-op target.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tileops_core.backend import BuilderRegistration, TargetRegistration, TensorSpec, hookimpl
from tileops_core.backend.registry import REGISTRY
from tileops_reference import plugin as reference  # its hooks by name would count as ours

claims_devices = False
"""Whether the detector claims every device; otherwise the target serves who names it."""


def detect(device: torch.device) -> bool:
    """Claim every device, or none."""
    return claims_devices


def build(op: str, *inputs: TensorSpec | None, **parameters: object) -> Callable[..., object]:
    """Build the kernel of one op: the reference's function with the op's parameters."""
    function = REGISTRY.oracle(op)
    assert function is not None, op
    compute = partial(function, **parameters)

    def kernel(*inputs: torch.Tensor | None, out: torch.Tensor | None = None, **named: Any) -> Any:
        result = compute(*inputs, **named)
        return result if out is None else out.copy_(result)

    return kernel


@hookimpl
def tileops_targets() -> list[TargetRegistration]:
    """One target."""
    return [TargetRegistration("loopback", detect)]


@hookimpl
def tileops_kernel_builders() -> list[BuilderRegistration]:
    """One builder for every op that the reference has a function for."""
    return [
        BuilderRegistration(oracle.op, "loopback", partial(build, oracle.op))
        for oracle in reference.tileops_oracles()
    ]
