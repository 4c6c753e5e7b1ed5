"""What a call costs where a kernel type serves it, through dispatch instead of a target.

The ops are defined here, with entries of their own and a null kernel; that is also how an op
outside the library looks.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import torch

from benchmarks.call_overhead import over
from benchmarks.given import WIDTH, null_one, null_three, null_two, tensors_for
from benchmarks.libraries import Library
from benchmarks.memory import MEBI
from benchmarks.rows import Effort, Section
from benchmarks.timing import bytes_kept, difference_us, overhead_us

SECTION = Section("The call, in-tree")

ONLY_OURS = "its kernel types are programs for CUDA; it has no in-tree kernel on the CPU"

NULLS: dict[int, Callable[..., object]] = {1: null_one, 2: null_two, 3: null_three}
TENSORS_OF = {1: "ReLUFwdOp", 2: "RMSNormFwdOp", 3: "LayerNormFwdOp"}


def entry(inputs: int) -> dict[str, Any]:
    """A manifest entry: rows of N values, up to two vectors of N, rows of N values again."""
    vectors = {name: {"dtype": "T", "shape": "[N]"} for name in ("weight", "bias")[: inputs - 1]}
    return {
        "family": "benchmarks",
        "status": "implemented",
        "signature": {
            "forall": {"B": "Shape", "N": "Dim", "T": "DType[float16 | float32]"},
            "inputs": {"x": {"dtype": "T", "shape": "[*B, N]"}, **vectors},
            "outputs": {"y": {"dtype": "T", "shape": "[*B, N]"}},
        },
        "workloads": [
            {"B": [1], "N": WIDTH, "dtype_cases": [{"T": "float16"}], "label": "one-row"}
        ],
        "roofline": {"flops": "0"},
    }


def null_op(inputs: int, *, by_hand: bool = False) -> type[Any]:
    """An op class with a null kernel type; the same class for the same arguments.

    Args:
        inputs: Number of inputs, 1 to 3.
        by_hand: Whether it writes `forward` with `kernel_for` (two inputs), not `call_spec`.

    Returns:
        The class.
    """
    key = (inputs, by_hand)
    if key not in _OPS:
        _OPS[key] = _define(inputs, by_hand)
    return _OPS[key]


_OPS: dict[tuple[int, bool], type[Any]] = {}


def _define(inputs: int, by_hand: bool) -> type[Any]:
    from tileops_core.kernels import CallSpec, Kernel, KernelInterface
    from tileops_core.op import Op

    class NullCall(CallSpec):
        dtype: torch.dtype

    if inputs == 1:

        class NullInterface(KernelInterface):
            request = NullCall

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                """Return an empty tensor like x."""
                raise NotImplementedError

    elif inputs == 2:

        class NullInterface(KernelInterface):  # type: ignore[no-redef]
            request = NullCall

            def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
                """Return an empty tensor like x."""
                raise NotImplementedError

    else:

        class NullInterface(KernelInterface):  # type: ignore[no-redef]
            request = NullCall

            def forward(
                self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
            ) -> torch.Tensor:
                """Return an empty tensor like x."""
                raise NotImplementedError

    class NullKernel(Kernel, NullInterface):
        devices = frozenset({"cpu"})
        forward = staticmethod(NULLS[inputs])

    members: dict[str, Any] = {
        "spec": entry(inputs),
        "interfaces": {"null": NullInterface},
        "kernel_types": {"null": NullKernel},
        "__module__": __name__,
    }
    if by_hand:

        def forward(self: Any, x: torch.Tensor, weight: torch.Tensor) -> object:
            return self.kernel_for("null", NullCall(x.device, x.dtype))(x, weight)

        return type("NullByHandFwdOp", (Op,), {**members, "forward": forward})

    def call_spec_1(self: Any, x: torch.Tensor) -> CallSpec:
        return NullCall(x.device, x.dtype)

    def call_spec_2(self: Any, x: torch.Tensor, weight: torch.Tensor) -> CallSpec:
        return NullCall(x.device, x.dtype)

    def call_spec_3(
        self: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> CallSpec:
        return NullCall(x.device, x.dtype)

    call_spec = (call_spec_1, call_spec_2, call_spec_3)[inputs - 1]
    return type(f"Null{inputs}FwdOp", (Op,), {**members, "call_spec": call_spec})


def _short_form(inputs: int) -> Callable[[Library, Effort], float]:
    def measure(library: Library, effort: Effort) -> float:
        return overhead_us(
            null_op(inputs)(),
            NULLS[inputs],
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
    return overhead_us(
        null_op(2, by_hand=True)(),
        null_two,
        tensors_for("RMSNormFwdOp"),
        rounds=effort.rounds,
        loops=effort.loops,
    )


@SECTION.add(
    "reference", "RMSNorm, no target named: the reference", "us", None, not_at_peer=ONLY_OURS
)
def _reference(library: Library, effort: Effort) -> float:
    op, tensors = library.make("RMSNormFwdOp", (WIDTH,)), tensors_for("RMSNormFwdOp")
    op(*tensors)
    (kernel,) = op.iter_kernels()
    return overhead_us(op, kernel, tensors, rounds=effort.rounds, loops=effort.loops)


@SECTION.add(
    "new_shape_short",
    "null kernel, 2 inputs, a shape not seen before, identity already built",
    "us",
    75.0,
    not_at_peer=ONLY_OURS,
)
def _new_shape(library: Library, effort: Effort) -> float:
    op = null_op(2)()
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
    op = null_op(2)()
    _, weight = tensors_for("RMSNormFwdOp")
    op(torch.empty(1, WIDTH, dtype=torch.float16), weight)

    def see() -> object:
        for rows in range(2, effort.shapes + 2):
            op(torch.empty(rows, WIDTH, dtype=torch.float16), weight)
        return op

    return bytes_kept(see) / MEBI
