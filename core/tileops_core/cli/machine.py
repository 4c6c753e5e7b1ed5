"""What this machine's devices can do at best: as their makers say, or as was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from tileops_core.cli.group import one_of
from tileops_core.kernels.device_name import device_name
from tileops_core.kernels.progress import progress
from tileops_core.kernels.tuning import measure
from tileops_core.record import measured
from tileops_core.record.cards import CARDS, card_named, card_of
from tileops_core.record.profiles import DEFAULT_KEY, DeviceProfile

CPU = torch.device("cpu")

STREAM_ELEMENTS = 1 << 24
"""Of each of three float32 tensors: together 192 MiB, more than caches hold."""

MATRICES = (256, 512, 1024, 2048)
"""Rows and columns of the products that are timed; the last ones keep every unit busy."""

_LONGEST = 0.1
"""Seconds that a product may take: a CPU without instructions for a dtype is not waited for."""

_MATRIX_DTYPES = {
    "cuda_core.fp32": torch.float32,
    "cuda_core.fp64": torch.float64,
    "tensor_core.bf16": torch.bfloat16,
    "tensor_core.fp16": torch.float16,
}
"""On a CPU the vector units multiply matrices too, so the best product is their rate."""


def profile_of(device: torch.device) -> DeviceProfile | None:
    """The profile of a device of this machine, None where there is none."""
    name = device_name(device)
    if device.type == "cpu":
        return measured.read(name, torch.get_num_threads())
    return card_of(name)


def profile_named(name: str) -> DeviceProfile | None:
    """The profile of a card, or of this machine's CPU; None for a CPU that was not measured.

    Raises:
        click.UsageError: there is none of this name.
    """
    if name == "cpu":
        return profile_of(CPU)
    one_of("profile", name, ["cpu", *(card.name for card in CARDS)])
    return card_named(name)


def measure_cpu(
    elements: int = STREAM_ELEMENTS, matrices: Sequence[int] = MATRICES
) -> DeviceProfile:
    """Measure the CPU with as many threads as torch has, and keep what comes of it.

    Args:
        elements: how long the vectors are that are streamed.
        matrices: how large the matrices are that are multiplied, growing.
    """
    name, threads = device_name(CPU), torch.get_num_threads()
    with progress("measuring the CPU", 1 + len(_MATRIX_DTYPES)) as step:
        bandwidth = _stream(elements)
        step()
        peaks: dict[str, float] = {}
        for key, dtype in _MATRIX_DTYPES.items():
            rate = _products(matrices, dtype)
            if rate is not None:
                # What torch does slowly in 16 bits can be done in 32 and converted.
                low = dtype.itemsize < 4
                peaks[key] = max(rate, peaks.get(DEFAULT_KEY, 0.0)) if low else rate
            step()
    found = measured.profile(name, threads, bandwidth, peaks)
    measured.keep(name, threads, found)
    return found


def _stream(elements: int) -> float:
    """Bytes per second that two vectors are read and one is written with."""
    a, b = torch.rand(2, elements).unbind()
    c = torch.zeros(elements)

    def triad() -> None:
        torch.add(a, b, alpha=3.0, out=c)

    return 3 * elements * c.element_size() / _seconds(triad)


def _products(matrices: Sequence[int], dtype: torch.dtype) -> float | None:
    """Operations per second of the best product of two matrices, None where torch has none."""
    best = 0.0
    for rows in matrices:
        if best and 2 * rows**3 / best > _LONGEST:
            break
        a, b = (torch.rand(rows, rows).to(dtype) for _ in range(2))
        c = torch.empty(rows, rows, dtype=dtype)
        try:
            seconds = _seconds(partial(torch.mm, a, b, out=c))
        except RuntimeError:
            return None
        best = max(best, 2 * rows**3 / seconds)
    return best


def _seconds(run: Callable[[], object]) -> float:
    with torch.inference_mode():
        return measure(run, CPU)
