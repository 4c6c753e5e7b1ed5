"""What a call costs in instructions, which nothing else on the machine changes.

As in `call_overhead`, a row is what `op(...)` takes minus what the same kernel function takes when
it is called directly. Counted by valgrind, where it is installed, in one process per library.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from benchmarks import counting, workers
from benchmarks.call_overhead import over
from benchmarks.given import KERNELS, NULL_KERNELS, NULL_TARGET, TARGET, new, tensors_for
from benchmarks.libraries import Library
from benchmarks.rows import Effort, Section, Unmeasured, Value
from benchmarks.timing import Block, block_of

SECTION = Section("Instructions of a call")
LOOPS = 200
"""Calls that are counted. What the interpreter does once in many calls may fall among them."""


def beyond(
    op: Callable[..., object], kernel: Callable[..., object], tensors: tuple[torch.Tensor, ...]
) -> float:
    """Instructions of a known call of the op beyond those of its kernel."""
    op(*tensors)
    counts = [
        counting.per_call(lambda loops, f=function: block_of(f, tensors, loops), LOOPS)  # type: ignore[misc]
        for function in (op, kernel)
    ]
    return counts[0] - counts[1]


def _null(op: str) -> Callable[[Library, Effort], float]:
    def measure(library: Library, effort: Effort) -> float:
        return beyond(new(library, op, NULL_TARGET), NULL_KERNELS[op], tensors_for(op))

    return measure


for _number, _op in enumerate(NULL_KERNELS, 1):
    _inputs = f"{_number} input{'s' if _number > 1 else ''}"
    SECTION.add(
        f"count_{_number}", f"null kernel, {_inputs}, whole-op target", "", None, summed=False
    )(_null(_op))


@SECTION.add("count_parameter", "RMSNorm, nn.Parameter weight, no_grad", "", None, summed=False)
def _parameter(library: Library, effort: Effort) -> float:
    x, weight = tensors_for("RMSNormFwdOp")
    op = new(library, "RMSNormFwdOp", TARGET)
    with torch.no_grad():
        return beyond(op, KERNELS["RMSNormFwdOp"], (x, torch.nn.Parameter(weight)))


@SECTION.add(
    "count_first", "null kernel, 2 inputs, first call of a new instance", "", None, summed=False
)
def _first(library: Library, effort: Effort) -> float:
    tensors = tensors_for("RMSNormFwdOp")
    kernel = NULL_KERNELS["RMSNormFwdOp"]

    def of_new(loops: int) -> Block:
        ops = [new(library, "RMSNormFwdOp", NULL_TARGET) for _ in range(2 * loops)]
        left = iter(ops)  # a block is run once to warm up, and once to be counted
        return lambda: over([(next(left), tensors) for _ in range(loops)])()

    first = counting.per_call(of_new, effort.fresh)
    return first - counting.per_call(lambda loops: over([(kernel, tensors)] * loops), effort.fresh)


def run(environments: Mapping[str, Mapping[str, str]], effort: str) -> dict[str, dict[str, Value]]:
    """Count in one process per library.

    Args:
        environments: The environment variables of each library's process, by its name.
        effort: A key of `EFFORTS`.

    Returns:
        Per library the rows' values by key.
    """
    found: dict[str, dict[str, Value]] = {}
    for library, environment in environments.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                before = counting.command(Path(folder))
            except counting.CannotCountError as error:
                found[library] = {row.key: Unmeasured(str(error)) for row in SECTION}
                continue
            counted = {**environment, counting.FOLDER: folder, "PYTHONHASHSEED": "0"}
            found[library] = workers.one(library, ["instructions"], counted, effort, before)
    return found
