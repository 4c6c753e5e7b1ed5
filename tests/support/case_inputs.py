"""The tensors of a workload row's call."""

from __future__ import annotations

import torch
from torch import Tensor

from tileops_core.signature.workload import WorkloadCase


def made(case: WorkloadCase) -> list[Tensor | None]:
    """The op's inputs in order, None for those that the case leaves out; values at random."""
    metadata = case.metadata()
    return [
        fact
        and (
            torch.tensor(metadata[name], dtype=getattr(torch, fact[0])).reshape(fact[1])
            if name in metadata
            else _tensor(name, *fact)
        )
        for name, fact in case.inputs.items()
    ]


def _tensor(name: str, dtype_name: str, shape: tuple[int, ...]) -> Tensor:
    dtype = getattr(torch, dtype_name)
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, 100, shape).to(dtype)
    if name.endswith("_scale"):
        return (torch.rand(shape) + 0.5).to(dtype)
    return torch.randn(shape).to(dtype)
