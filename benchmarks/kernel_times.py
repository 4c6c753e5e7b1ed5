"""Times one case: TileLang's kernel, torch without us, and what would serve without TileLang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.kernel_cases import Case
from benchmarks.timing import lower_quartiles
from tileops_core.errors import DispatchError
from tileops_core.tensor_spec import TensorSpec

OURS = "tilelang"
GENERAL = "reference"
COPIED = 256 << 20
"""Bytes of the tensor whose copy says what the memory gives."""


@dataclass(frozen=True)
class Times:
    """What one case took, seconds per call.

    Args:
        case: What was called.
        threads: Threads that torch was told to use.
        ours: TileLang's kernel; None where it refuses the call.
        torch: What a user of torch writes.
        general: The reference's kernel.
        through_op: TileLang's kernel, called through the op: its checks and its record too.
        served_by: The backend that default dispatch chooses.
        moved: Bytes that the algorithm reads and writes.
    """

    case: Case
    threads: int
    ours: float | None
    torch: float
    general: float
    through_op: float | None
    served_by: str
    moved: int

    @property
    def is_ours(self) -> bool:
        """Whether default dispatch gives the case to TileLang."""
        return self.served_by == OURS

    @property
    def over_torch(self) -> float | None:
        """Torch's time over ours: above one, TileLang is faster."""
        return self.torch / self.ours if self.ours else None

    @property
    def over_general(self) -> float | None:
        """The reference's time over ours."""
        return self.general / self.ours if self.ours else None

    @property
    def over_best(self) -> float | None:
        """The faster rival's time over ours."""
        return min(self.torch, self.general) / self.ours if self.ours else None

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of ours."""
        return self.moved / self.ours if self.ours else None


def measure(case: Case, threads: Iterable[int], seconds: float, fewest: int = 5) -> list[Times]:
    """Time a case at each number of threads, on the same tensors.

    Args:
        case: What to call.
        threads: Numbers of threads.
        seconds: About how long one number of threads may take.
        fewest: Timed blocks of each rival, however long they take.

    Returns:
        One result per number of threads.
    """
    before = torch.get_num_threads()
    tensors = case.tensors()
    default, ours = case.op(), case.op(target=OURS)
    found = []
    with torch.inference_mode():
        calls = [
            partial(case.eager(), *tensors),
            partial(kernel_of(case.op(target=GENERAL), tensors), *tensors),
        ]
        with suppress(DispatchError):  # where it refuses the call, it would not be asked
            calls += [partial(kernel_of(ours, tensors), *tensors), partial(ours, *tensors)]
        default(*tensors)
        _, moved = default.eval_roofline()
        try:
            for number in threads:
                torch.set_num_threads(number)
                eager, general, *mine = lower_quartiles(calls, seconds, fewest=fewest)
                kernel, through_op = mine or (None, None)
                found.append(
                    Times(
                        case, number, kernel, eager, general, through_op, served_by(default), moved
                    )
                )
        finally:
            torch.set_num_threads(before)
    return found


def kernel_of(op: Any, tensors: Sequence[Tensor | None]) -> Callable[..., Any]:
    """The kernel that an op calls with such tensors, without the op around it."""
    op(*tensors)
    (interface,) = op.last_call.served_by.backends
    specs = [None if tensor is None else TensorSpec.of(tensor) for tensor in tensors]
    return op.kernel_for(interface, op.call_spec(*specs)).forward  # type: ignore[no-any-return]


def served_by(op: object) -> str:
    """The backend, or the whole-op target, that served the op's last call."""
    served = op.last_call.served_by  # type: ignore[attr-defined]
    return ", ".join(map(str, served.backends.values())) or str(served.target)


def copy_bandwidth(threads: int, seconds: float, size: int = COPIED) -> float:
    """Bytes per second that a copy of a large tensor reads and writes."""
    before = torch.get_num_threads()
    source = torch.ones(size // 4)
    target = torch.empty_like(source)
    torch.set_num_threads(threads)
    try:
        (time,) = lower_quartiles([partial(target.copy_, source)], seconds)
    finally:
        torch.set_num_threads(before)
    return 2 * source.nbytes / time
