"""What a call costs in compiled code, how long compiling takes, and how many graphs there are.

A compiled function has one op in it. Beside it stand, in the same process and in turn, the same
function around a custom operator that does nothing but run the same kernel: the least that any
library pays which wants its kernels left alone by the compiler.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from statistics import median
from typing import Any

import torch

from benchmarks.given import (
    KERNELS,
    NULL_KERNELS,
    NULL_TARGET,
    TARGET,
    WIDTH,
    new,
    null_one,
    null_three,
    null_two,
    tensors_for,
)
from benchmarks.libraries import Library
from benchmarks.rows import Effort, Section
from benchmarks.timing import MICRO, Block, block_of, medians

SECTION = Section("Compiled")

HALF = 0.5
"""The share of the peer's that a compiled call may take."""
LAYERS = 64
BATCHES = (3, 5, 7, 2, 11)

_KEPT: list[Any] = []


def whole(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function compiled as one graph, anew."""
    return torch.compile(function, fullgraph=True, **options)


def taking(function: Callable[..., Any], inputs: int) -> Callable[..., Any]:
    """A function of so many tensors that calls another one, as a user writes it."""
    if inputs == 1:
        return lambda x: function(x)
    if inputs == 2:
        return lambda x, y: function(x, y)
    return lambda x, y, z: function(x, y, z)


def bare_operator(kernel: Callable[..., Any], inputs: int) -> Callable[..., Any]:
    """A custom operator that runs a kernel and does nothing else."""
    name = f"bare_{kernel.__name__}"
    arguments = ", ".join(f"Tensor x{i}" for i in range(inputs))
    if not _KEPT:
        _KEPT.append(torch.library.Library("tileops_bench", "FRAGMENT"))
    if name not in _KEPT:
        library = _KEPT[0]
        library.define(f"{name}(str key, {arguments}) -> Tensor")
        library.impl(name, lambda key, *tensors: kernel(*tensors), "CompositeExplicitAutograd")
        library.impl(name, lambda key, *tensors: kernel(*tensors), "Meta")
        library.impl(name, torch.library.fallthrough_kernel, "Autograd")
        _KEPT.append(name)
    operator = getattr(torch.ops.tileops_bench, name).default
    return lambda *tensors: operator("a key", *tensors)


def steady(functions: Sequence[Callable[..., Any]], op: str, effort: Effort) -> list[float]:
    """Median microseconds of each compiled function on the op's tensors, measured in turn."""
    tensors = tensors_for(op)
    blocks: list[Block] = []
    with torch.no_grad():
        for function in functions:
            compiled = whole(taking(function, len(tensors)))
            compiled(*tensors)
            blocks.append(block_of(compiled, tensors, effort.loops))
        seconds = medians([lambda block=block: block for block in blocks], effort.rounds)
    torch._dynamo.reset()
    return [value * MICRO for value in seconds]


def _call(op: str) -> Callable[[Library, Effort], float]:
    def measure(library: Library, effort: Effort) -> float:
        return steady([new(library, op, TARGET)], op, effort)[0]

    return measure


def _bare(op: str) -> Callable[[Library, Effort], float]:
    def measure(library: Library, effort: Effort) -> float:
        kernel = bare_operator(KERNELS[op], len(tensors_for(op)))
        return steady([kernel], op, effort)[0]

    return measure


for _op, _title in (("ReLUFwdOp", "ReLU"), ("RMSNormFwdOp", "RMSNorm"), ("GEMMFwdOp", "GEMM")):
    SECTION.add(
        f"compiled_{_op}",
        f"a compiled function of one {_title}, its kernel included",
        "us",
        None,
        share=HALF,
    )(_call(_op))
    SECTION.add(
        f"bare_{_op}",
        "the same kernel in an operator of its own",
        "us",
        None,
        compared=False,
    )(_bare(_op))


def _beyond(op: str, kernel: Callable[..., Any]) -> Callable[[Library, Effort], float]:
    def measure(library: Library, effort: Effort) -> float:
        bare = bare_operator(kernel, len(tensors_for(op)))
        ours, least = steady([new(library, op, NULL_TARGET), bare], op, effort)
        return ours - least

    return measure


for _number, (_op, _kernel) in enumerate(
    (("ReLUFwdOp", null_one), ("RMSNormFwdOp", null_two), ("LayerNormFwdOp", null_three)), 1
):
    assert NULL_KERNELS[_op] is _kernel
    SECTION.add(
        f"beyond_{_number}",
        f"null kernel, {_number} input{'s' if _number > 1 else ''}, beyond an operator that only "
        "runs it",
        "us",
        5.0,
        share=HALF,
    )(_beyond(_op, _kernel))


@SECTION.add("cold", "compiling a function of one RMSNorm, after the first", "ms", None, share=1.0)
def _cold(library: Library, effort: Effort) -> float:
    tensors = tensors_for("RMSNormFwdOp")
    seconds = []
    # What was compiled before must not be found again, in memory or on the disk. What other rows
    # have left is nothing for the collector to look through: compiling makes it look often.
    uncaching = torch._inductor.config.patch(force_disable_caches=True)
    with torch.no_grad(), uncaching, nothing_to_collect():
        for _ in repeat(None, effort.compilations + 1):
            op = new(library, "RMSNormFwdOp", TARGET)
            torch._dynamo.reset()
            start = time.perf_counter()
            whole(lambda x, weight, op=op: op(x, weight))(*tensors)
            seconds.append(time.perf_counter() - start)
    torch._dynamo.reset()
    return median(seconds[1:]) * 1e3


@contextmanager
def nothing_to_collect() -> Iterator[None]:
    """A context in which the collector passes over what is there now."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Layer(torch.nn.Module):
    """A layer that holds an op and a weight of its own."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self.norm = new(library, "RMSNormFwdOp", TARGET)
        self.weight = torch.nn.Parameter(torch.randn(WIDTH, dtype=torch.float16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normalized: torch.Tensor = self.norm(x, self.weight)
        return normalized * 2


def rows_of(rows: int) -> torch.Tensor:
    return torch.randn(rows, WIDTH, dtype=torch.float16)


def graphs_of(run: Callable[[], object]) -> float:
    """How many graphs dynamo makes of something."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    try:
        with torch.no_grad():
            run()
        return float(counters["stats"]["unique_graphs"])
    finally:
        torch._dynamo.reset()


def one_by_one(library: Library, batches: Sequence[int], **options: Any) -> float:
    """Graphs of as many layers, each compiled by itself, over batch sizes."""
    layers = [Layer(library) for _ in range(LAYERS)]

    def run() -> None:
        for layer in layers:
            compiled = whole(layer, backend="eager", **options)
            for rows in batches:
                compiled(rows_of(rows))

    return graphs_of(run)


@SECTION.add("layers", f"{LAYERS} equal layers compiled one by one", "graphs", 1, compared=False)
def _layers(library: Library, effort: Effort) -> float:
    return one_by_one(library, BATCHES[:1])


@SECTION.add("layers_batches", "the same over 5 batch sizes", "graphs", 2, compared=False)
def _layers_batches(library: Library, effort: Effort) -> float:
    return one_by_one(library, BATCHES)


@SECTION.add("layers_dynamic", "the same, dynamic=True", "graphs", 1, compared=False)
def _layers_dynamic(library: Library, effort: Effort) -> float:
    return one_by_one(library, BATCHES, dynamic=True)


@SECTION.add("model", f"a model of {LAYERS} layers compiled at once", "graphs", 1, compared=False)
def _model(library: Library, effort: Effort) -> float:
    model = torch.nn.Sequential(*[Layer(library) for _ in range(LAYERS)])
    return graphs_of(lambda: whole(model, backend="eager")(rows_of(3)))
