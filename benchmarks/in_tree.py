"""What a call costs where a kernel type serves it, through dispatch instead of a target.

The peer has no such kernel on the CPU, so its processes never import `null_ops`, whose ops these
rows call.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import torch

from benchmarks.call_overhead import over
from benchmarks.given import WIDTH, null_two, tensors_for
from benchmarks.libraries import Library
from benchmarks.memory import MEBI
from benchmarks.rows import Effort, Section
from benchmarks.timing import bytes_kept, difference_us, overhead_us

SECTION = Section("The call, in-tree")

ONLY_OURS = "its kernel types are programs for CUDA; it has no in-tree kernel on the CPU"

TENSORS_OF = {1: "ReLUFwdOp", 2: "RMSNormFwdOp", 3: "LayerNormFwdOp"}


def _short_form(inputs: int) -> Callable[[Library, Effort], float]:
    def measure(library: Library, effort: Effort) -> float:
        from benchmarks.null_ops import SHORT_FORM

        op_class, kernel = SHORT_FORM[inputs]
        return overhead_us(
            op_class(),
            kernel,
            tensors_for(TENSORS_OF[inputs]),
            rounds=effort.rounds,
            loops=effort.loops,
        )

    return measure


for _inputs, _budget in ((1, 2.0), (2, 2.5), (3, 3.0)):
    SECTION.add(
        f"null_short_{_inputs}",
        f"null kernel, {_inputs} input{'s' if _inputs > 1 else ''}, short form",
        "us",
        _budget,
        not_at_peer=ONLY_OURS,
    )(_short_form(_inputs))


@SECTION.add(
    "by_hand",
    "null kernel, 2 inputs, hand-written forward with kernel_for",
    "us",
    4.5,
    not_at_peer=ONLY_OURS,
)
def _by_hand(library: Library, effort: Effort) -> float:
    from benchmarks.null_ops import NullByHandFwdOp

    return overhead_us(
        NullByHandFwdOp(),
        null_two,
        tensors_for("RMSNormFwdOp"),
        rounds=effort.rounds,
        loops=effort.loops,
    )


@SECTION.add(
    "reference", "RMSNorm, no target named: the reference", "us", None, not_at_peer=ONLY_OURS
)
def _reference(library: Library, effort: Effort) -> float:
    from tileops_core import TensorSpec

    op, tensors = library.make("RMSNormFwdOp", (WIDTH,)), tensors_for("RMSNormFwdOp")
    op(*tensors)
    (interface,) = op.last_call.served_by.kernels
    kernel = op.kernel_for(interface, op.call_spec(*map(TensorSpec.of, tensors)))
    return overhead_us(op, kernel.forward, tensors, rounds=effort.rounds, loops=effort.loops)


@SECTION.add(
    "new_shape_short",
    "null kernel, 2 inputs, a shape not seen before, identity already built",
    "us",
    75.0,
    not_at_peer=ONLY_OURS,
)
def _new_shape(library: Library, effort: Effort) -> float:
    from benchmarks.null_ops import NullTwoFwdOp

    op = NullTwoFwdOp()
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


@SECTION.add(
    "seen_once_short",
    "kept after 10,000 shapes seen once each, one kernel",
    "MiB",
    3.0,
    not_at_peer=ONLY_OURS,
)
def _seen_once(library: Library, effort: Effort) -> float:
    from benchmarks.null_ops import NullTwoFwdOp

    op = NullTwoFwdOp()
    _, weight = tensors_for("RMSNormFwdOp")
    op(torch.empty(1, WIDTH, dtype=torch.float16), weight)

    def see() -> object:
        for rows in range(2, effort.shapes + 2):
            op(torch.empty(rows, WIDTH, dtype=torch.float16), weight)
        return op

    return bytes_kept(see) / MEBI
