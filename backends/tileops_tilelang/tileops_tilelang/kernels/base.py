"""What all kernel types of this distribution share."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from tileops_core.kernels import Kernel
from tileops_tilelang.cpu import toolchain
from tileops_tilelang.cpu.call import LARGE

SHORT_NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}
"""The dtypes that programs are written for."""

CPU = torch.device("cpu")

# Not quite what 32 bits hold, because programs round up to whole blocks.
_MOST = 2**31 - 2**16


class CPUKernel(Kernel):
    """Runs on the CPU, in a library that is compiled for it at the first call.

    Attributes:
        dtype: what the inputs are.
        large: elements from which on a result asks for large pages.
    """

    devices = frozenset({"cpu"})

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.large = LARGE // dtype.itemsize

    @classmethod
    def rows_and_columns(cls, call: Any) -> tuple[int, int]:
        """How many rows a program goes over, and how long the longest of them is."""
        return prod(call.shape[:-1]), call.shape[-1]

    @classmethod
    def refusal(cls, call: Any) -> str | None:
        """A dtype without programs, more rows than are counted, or no compiler."""
        if call.dtype not in SHORT_NAMES:
            return f"has programs for {', '.join(SHORT_NAMES.values())}, not {call.dtype}"
        # Places in memory have 64 bits, numbers of rows and columns 32.
        most = max(cls.rows_and_columns(call))
        if most > _MOST:
            return f"counts rows and columns in 32 bits, which {most:,} do not fit"
        return toolchain.missing()


def in_fresh_pages(dtype: torch.dtype, elements: int) -> bool:
    """Whether a result is so large that its memory is new at every call.

    There, what a kernel costs is mostly the first touch of the result, and large pages win.
    """
    return elements * dtype.itemsize >= LARGE


def slower(why: str) -> str:
    """What ``defers`` says of a region that was measured."""
    return f"the reference was measured to be faster: {why}"
