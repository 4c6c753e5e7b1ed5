"""What instances, calls and shapes leave in memory, as Python's allocator counts it."""

from __future__ import annotations

import torch

from benchmarks.given import NULL_TARGET, WIDTH, new, tensors_for
from benchmarks.libraries import Library
from benchmarks.rows import Effort, Section
from benchmarks.timing import bytes_kept

SECTION = Section("Memory")

MEBI = 2**20


@SECTION.add("seen_once", "kept after 10,000 shapes seen once each", "MiB", 3.0)
def _seen_once(library: Library, effort: Effort) -> float:
    op = new(library, "RMSNormFwdOp", NULL_TARGET)
    _, weight = tensors_for("RMSNormFwdOp")
    op(torch.empty(1, WIDTH, dtype=torch.float16), weight)

    def see() -> object:
        for rows in range(2, effort.shapes + 2):
            op(torch.empty(rows, WIDTH, dtype=torch.float16), weight)
        return op

    return bytes_kept(see) / MEBI


@SECTION.add("bytes_instance", "one instance", "B", 1_200)
def _bytes_instance(library: Library, effort: Effort) -> float:
    new(library, "RMSNormFwdOp", NULL_TARGET)
    number = 10 * effort.fresh

    def make() -> object:
        return [new(library, "RMSNormFwdOp", NULL_TARGET) for _ in range(number)]

    return bytes_kept(make) / number


@SECTION.add("bytes_called", "one instance, called once", "B", 3_200)
def _bytes_called(library: Library, effort: Effort) -> float:
    tensors = tensors_for("RMSNormFwdOp")
    new(library, "RMSNormFwdOp", NULL_TARGET)(*tensors)
    number = 10 * effort.fresh

    def make_and_call() -> object:
        ops = [new(library, "RMSNormFwdOp", NULL_TARGET) for _ in range(number)]
        for op in ops:
            op(*tensors)
        return ops

    return bytes_kept(make_and_call) / number


@SECTION.add("bytes_shape", "one shape more", "B", 1_200)
def _bytes_shape(library: Library, effort: Effort) -> float:
    op = new(library, "RMSNormFwdOp", NULL_TARGET)
    _, weight = tensors_for("RMSNormFwdOp")
    op(torch.empty(1, WIDTH, dtype=torch.float16), weight)
    number = 5 * effort.fresh

    def see() -> object:
        for rows in range(2, number + 2):
            op(torch.empty(rows, WIDTH, dtype=torch.float16), weight)
        return op

    return bytes_kept(see) / number
