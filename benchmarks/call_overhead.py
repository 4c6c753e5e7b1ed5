"""What a call costs beyond its kernel: known calls, new shapes, first calls, many shapes.

A row is the median of `op(...)` minus the median of the same kernel function called directly with
the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import torch

from benchmarks.given import (
    KERNELS,
    NULL_KERNELS,
    NULL_TARGET,
    TARGET,
    WIDTH,
    new,
    normalize,
    null_one,
    null_two,
    tensors_for,
)
from benchmarks.libraries import Library
from benchmarks.rows import Effort, Section
from benchmarks.timing import MICRO, Block, difference_us, medians, overhead_us

SECTION = Section("The call")

ROTATION = 1_000


def hit(
    library: Library,
    effort: Effort,
    op: str,
    target: str = TARGET,
    tensors: Sequence[torch.Tensor] | None = None,
) -> float:
    """Overhead of a call that was made before with the same kind of tensors."""
    kernel = (KERNELS if target == TARGET else NULL_KERNELS)[op]
    return overhead_us(
        new(library, op, target),
        kernel,
        tensors or tensors_for(op),
        rounds=effort.rounds,
        loops=effort.loops,
    )


@SECTION.add("null_1", "null kernel, 1 input, whole-op target", "us", 2.0)
def _null_one(library: Library, effort: Effort) -> float:
    return hit(library, effort, "ReLUFwdOp", NULL_TARGET)


@SECTION.add("null_2", "null kernel, 2 inputs, whole-op target", "us", 2.5)
def _null_two(library: Library, effort: Effort) -> float:
    return hit(library, effort, "RMSNormFwdOp", NULL_TARGET)


@SECTION.add("null_3", "null kernel, 3 inputs, whole-op target", "us", 3.0)
def _null_three(library: Library, effort: Effort) -> float:
    return hit(library, effort, "LayerNormFwdOp", NULL_TARGET)


@SECTION.add("relu", "ReLU", "us", 2.3)
def _relu(library: Library, effort: Effort) -> float:
    return hit(library, effort, "ReLUFwdOp")


@SECTION.add("softmax", "Softmax", "us", 2.3)
def _softmax(library: Library, effort: Effort) -> float:
    return hit(library, effort, "SoftmaxFwdOp")


@SECTION.add("sum", "Sum", "us", 2.3)
def _sum(library: Library, effort: Effort) -> float:
    return hit(library, effort, "SumFwdOp")


@SECTION.add("gemm", "GEMM", "us", 3.1)
def _gemm(library: Library, effort: Effort) -> float:
    return hit(library, effort, "GEMMFwdOp")


@SECTION.add("rms_norm", "RMSNorm", "us", 3.6)
def _rms_norm(library: Library, effort: Effort) -> float:
    return hit(library, effort, "RMSNormFwdOp")


def _with_parameter() -> tuple[torch.Tensor, torch.Tensor]:
    x, weight = tensors_for("RMSNormFwdOp")
    return x, torch.nn.Parameter(weight)


@SECTION.add("parameter_no_grad", "RMSNorm, nn.Parameter weight, no_grad", "us", 3.6)
def _parameter_no_grad(library: Library, effort: Effort) -> float:
    with torch.no_grad():
        return hit(library, effort, "RMSNormFwdOp", tensors=_with_parameter())


@SECTION.add("parameter_inference", "RMSNorm, nn.Parameter weight, inference_mode", "us", 3.6)
def _parameter_inference(library: Library, effort: Effort) -> float:
    with torch.inference_mode():
        return hit(library, effort, "RMSNormFwdOp", tensors=_with_parameter())


@SECTION.add("grad", "RMSNorm, grad mode on, an input requires grad", "us", 15.0)
def _grad(library: Library, effort: Effort) -> float:
    # Ops run their kernels below autograd, so that is where the kernel alone is measured too.
    op, tensors = new(library, "RMSNormFwdOp", TARGET), _with_parameter()

    def call() -> Block:
        return lambda: _loop(op, tensors, effort.loops)

    def below_autograd() -> int:
        with torch.no_grad():
            return _loop(normalize, tensors, effort.loops)

    op(*tensors)
    return difference_us(call, lambda: below_autograd, effort.rounds)


def _loop(function: Callable[..., object], tensors: tuple[torch.Tensor, ...], loops: int) -> int:
    x, weight = tensors
    for _ in range(loops):
        function(x, weight)
    return loops


@SECTION.add("strided", "RMSNorm, non-contiguous input, beyond the copy", "us", 4.6)
def _strided(library: Library, effort: Effort) -> float:
    _, weight = tensors_for("RMSNormFwdOp")
    x = torch.randn(1, 2 * WIDTH, dtype=torch.float16)[:, ::2]

    def copy_and_normalize(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return normalize(x.contiguous(), weight)

    op = new(library, "RMSNormFwdOp", TARGET)
    return overhead_us(
        op, copy_and_normalize, (x, weight), rounds=effort.rounds, loops=effort.loops
    )


def over(items: Sequence[tuple[Callable[..., object], tuple[torch.Tensor, ...]]]) -> Block:
    """A block of one call per item."""

    def run() -> int:
        for function, tensors in items:
            function(*tensors)
        return len(items)

    return run


@SECTION.add("new_shape", "null kernel, 2 inputs, a shape not seen before", "us", 75.0)
def _new_shape(library: Library, effort: Effort) -> float:
    op = new(library, "RMSNormFwdOp", NULL_TARGET)
    _, weight = tensors_for("RMSNormFwdOp")
    op(torch.empty(1, WIDTH, dtype=torch.float16), weight)
    rows = count(2)

    def fresh() -> list[torch.Tensor]:
        return [torch.empty(next(rows), WIDTH, dtype=torch.float16) for _ in range(effort.fresh)]

    return difference_us(
        lambda: over([(op, (x, weight)) for x in fresh()]),
        lambda: over([(null_two, (x, weight)) for x in fresh()]),
        effort.rounds,
    )


@SECTION.add("first_call", "null kernel, 2 inputs, first call of a new instance", "us", 60.0)
def _first_call(library: Library, effort: Effort) -> float:
    tensors = tensors_for("RMSNormFwdOp")
    new(library, "RMSNormFwdOp", NULL_TARGET)(*tensors)

    def first() -> Block:
        ops = [new(library, "RMSNormFwdOp", NULL_TARGET) for _ in range(effort.fresh)]
        return over([(op, tensors) for op in ops])

    return difference_us(first, lambda: over([(null_two, tensors)] * effort.fresh), effort.rounds)


def _rotation(library: Library, effort: Effort) -> tuple[float, float]:
    """Overhead per call, microseconds: over a thousand shapes in turn, and over one tensor."""
    op = new(library, "ReLUFwdOp", NULL_TARGET)
    many = [(torch.empty(1, n, dtype=torch.float16),) for n in range(1, ROTATION + 1)]
    one = [(torch.empty(1, ROTATION, dtype=torch.float16),)] * ROTATION
    blocks = [
        over([(function, tensors) for tensors in group])
        for group in (many, one)
        for function in (op, null_one)
    ]
    for block in blocks:
        block()
    rounds = max(effort.rounds // 3, 5)
    seconds = medians([lambda block=block: block for block in blocks], rounds)
    turning, turning_null, still, still_null = (value * MICRO for value in seconds)
    return turning - turning_null, still - still_null


@SECTION.add("rotation", "null kernel, 1,000 shapes in rotation", "us", None)
def _rotation_us(library: Library, effort: Effort) -> float:
    return _rotation(library, effort)[0]


@SECTION.add("rotation_ratio", "the same, over a single shape", "x", 1.5, compared=False)
def _rotation_ratio(library: Library, effort: Effort) -> float:
    many, one = _rotation(library, effort)
    return many / one
