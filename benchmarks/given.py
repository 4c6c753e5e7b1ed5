"""What both libraries are given: the kernels, the tensors, the targets that serve them.

The kernels go to both libraries through a target's builder, so both call the very same function.
Tensors are small (one row of 64 float16 values, what belongs to it), on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import rms_norm

from benchmarks.libraries import Library

TARGET = "bench"
NULL_TARGET = "bench_null"
WIDTH = 64


def null_one(x: torch.Tensor) -> torch.Tensor:
    """The null kernel of one input: a fresh empty tensor."""
    return torch.empty_like(x)


def null_two(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The null kernel of two inputs."""
    return torch.empty_like(x)


def null_three(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The null kernel of three inputs."""
    return torch.empty_like(x)


def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def total(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x, -1)


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b.t())


def normalize(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return rms_norm(x, (WIDTH,), weight)


KERNELS: dict[str, Callable[..., object]] = {
    "ReLUFwdOp": relu,
    "SoftmaxFwdOp": softmax,
    "SumFwdOp": total,
    "GEMMFwdOp": gemm,
    "RMSNormFwdOp": normalize,
}
NULL_KERNELS: dict[str, Callable[..., object]] = {
    "ReLUFwdOp": null_one,
    "RMSNormFwdOp": null_two,
    "LayerNormFwdOp": null_three,
}
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "ReLUFwdOp": (),
    "SoftmaxFwdOp": (-1,),
    "SumFwdOp": (-1,),
    "GEMMFwdOp": (),
    "RMSNormFwdOp": ((WIDTH,),),
    "LayerNormFwdOp": ((WIDTH,),),
}


def install(library: Library) -> None:
    """Register the targets and their kernels, once per process, before any row."""
    for target, kernels in ((TARGET, KERNELS), (NULL_TARGET, NULL_KERNELS)):
        library.add_target(target)
        for op, kernel in kernels.items():
            library.serve(op, target, kernel)


def tensors_for(op: str) -> tuple[torch.Tensor, ...]:
    """The tensors of the row: float16, one row of 64 values and what belongs to it."""
    x = torch.randn(1, WIDTH, dtype=torch.float16)
    vector = torch.randn(WIDTH, dtype=torch.float16)
    if op == "GEMMFwdOp":
        return x, torch.randn(WIDTH, WIDTH, dtype=torch.float16)
    return (x, vector, vector.clone())[: {"RMSNormFwdOp": 2, "LayerNormFwdOp": 3}.get(op, 1)]


def new(library: Library, op: str, target: str) -> Callable[..., object]:
    """A new instance served by the target."""
    return library.make(op, *ARGUMENTS[op], target=target)
