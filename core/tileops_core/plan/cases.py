"""A workload case as a plan takes it: constructor values and stand-ins for tensors."""

from __future__ import annotations

from typing import Any

import torch

from tileops_core.plan.emit_expr import dtype_named
from tileops_core.plan.model import Plan, Statics
from tileops_core.signature.instance import Fact
from tileops_core.signature.kinds import DeviceKind
from tileops_core.signature.workload import WorkloadCase
from tileops_core.tensor_spec import TensorSpec


def call_of(
    plan: Plan, case: WorkloadCase, device: str = "meta"
) -> tuple[Statics, tuple[TensorSpec | None, ...]]:
    """What a case's constructor settles, and the facts of its inputs, without any data.

    Args:
        plan: The op's plan.
        case: One of its cases.
        device: Where the call's tensors are; those that stay on the CPU are there. A parameter
            that states a device and is None has it too.

    Raises:
        SignatureError: The constructor refuses the case's parameters.
    """
    values: list[Any] = []
    for param in plan.signature.params:
        if param.tensor is not None:
            values.append(_tensor(case.tensors[param.name]))
            continue
        value = case.params[param.name]
        values.append(device if value is None and isinstance(param.kind, DeviceKind) else value)
    specs = (
        _spec("cpu" if item.on_cpu else device, case.inputs[item.name])
        for item in plan.signature.inputs
    )
    return plan.statics(tuple(values)), tuple(specs)


def _tensor(fact: Fact | None) -> torch.Tensor | None:
    """A tensor of these facts that takes no memory."""
    if fact is None:
        return None
    return torch.empty(fact[1], dtype=dtype_named(fact[0]), device="meta")


def _spec(device: str, fact: Fact | None) -> TensorSpec | None:
    return None if fact is None else TensorSpec(device, dtype_named(fact[0]), fact[1])
