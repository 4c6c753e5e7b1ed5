"""Gated activations."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import torch
from torch import Tensor

from tileops_core.interfaces.elementwise import ElementwiseCall, GatedFwdInterface
from tileops_tilelang.cpu.call import agree, disagreement, in_large_pages, threads_for
from tileops_tilelang.cpu.functions import function
from tileops_tilelang.kernels.base import CPU, SHORT_NAMES, CPUKernel, slower

_FUNCTIONS: dict[tuple[object, ...], str] = {
    ("silu_and_mul",): "silu",
    ("gelu_and_mul", "none"): "gelu",
    ("gelu_and_mul", "tanh"): "gelu_tanh",
}
"""What a program calls the functions that a call spec names."""


class GatedTileLang(CPUKernel, GatedFwdInterface):
    """A function of one half of each row times the other half, in one pass."""

    def __init__(self, dtype: torch.dtype, function_name: str) -> None:
        super().__init__(dtype)
        self.run = function("gated:gated", dtype=SHORT_NAMES[dtype], function=function_name)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function to the gate and multiply."""
        rows, width = input.shape
        length = width // 2
        count = rows * length
        if not agree(input, self.dtype, 2 * count):
            raise disagreement("gated activation", input=input)
        y = torch.empty(rows, length, dtype=self.dtype, device=CPU)
        if count >= self.large:
            in_large_pages(y)
        self.run(input.data_ptr(), y.data_ptr(), length, rows, threads_for(count))
        return y

    @classmethod
    def rows_and_columns(cls, call: ElementwiseCall) -> tuple[int, int]:
        """The rows of the one input."""
        rows, columns = call.shapes[0]
        return rows, columns

    @classmethod
    def defers(cls, call: ElementwiseCall) -> str | None:
        """The exact GELU in float32, where torch's error function is the faster one."""
        # Measured on a Zen 4: 0.7 between 1,024 elements of the result and 4 M, 1.1 and more
        # outside; every other function and dtype at 1.0 to 6.
        if call.parameters != ("none",):
            return None
        rows, columns = cls.rows_and_columns(call)
        if call.dtype is torch.float32 and 1 << 10 < rows * columns // 2 < 1 << 22:
            return slower("the exact GELU in float32")
        return None

    @classmethod
    def entry_for(cls, call: ElementwiseCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per dtype and function."""
        key = (call.function, *call.parameters)
        facts = (call.dtype, _FUNCTIONS[key])
        return facts, partial(cls, *facts)
