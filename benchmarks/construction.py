"""What a new instance of a class that has instances costs."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.given import ARGUMENTS, TARGET, new
from benchmarks.libraries import Library
from benchmarks.rows import Effort, Section
from benchmarks.timing import MICRO, Block, medians

SECTION = Section("Construction")

BUDGET_US = 20.0


def _construction_of(op: str) -> Callable[[Library, Effort], float]:
    def measure(library: Library, effort: Effort) -> float:
        new(library, op, TARGET)
        op_class, arguments = library.op_class(op), ARGUMENTS[op]
        calls = 5 * effort.fresh

        def construct() -> int:
            for _ in range(calls):
                op_class(*arguments)
            return calls

        def block() -> Block:
            return construct

        (seconds,) = medians([block], effort.rounds)
        return seconds * MICRO

    return measure


for _op in ("ReLUFwdOp", "SoftmaxFwdOp", "SumFwdOp", "GEMMFwdOp", "RMSNormFwdOp"):
    SECTION.add(f"construct_{_op}", f"{_op}, after the first", "us", BUDGET_US)(
        _construction_of(_op)
    )
