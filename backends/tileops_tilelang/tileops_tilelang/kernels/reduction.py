"""Softmax and argmax along any axis; another than the last is brought there first."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from math import prod

import torch
from torch import Tensor

from tileops_core.interfaces.reduction import (
    ArgreduceCall,
    ArgreduceFwdInterface,
    SoftmaxCall,
    SoftmaxFwdInterface,
)
from tileops_tilelang.cpu.call import agree, disagreement, in_large_pages, threads_for
from tileops_tilelang.cpu.functions import function
from tileops_tilelang.kernels.base import CPU, SHORT_NAMES, CPUKernel, in_fresh_pages, slower


class SoftmaxTileLang(CPUKernel, SoftmaxFwdInterface):
    """Softmax along the last axis."""

    def __init__(self, dtype: torch.dtype, out_dtype: torch.dtype) -> None:
        super().__init__(out_dtype)
        self.in_dtype = dtype
        # A wider result is widened on the way; a narrower one is of the rounded input.
        self.read_dtype = dtype if out_dtype is torch.float32 else out_dtype
        self.run = function(
            "reduction:softmax",
            dtype=SHORT_NAMES[self.read_dtype],
            out_dtype=SHORT_NAMES[out_dtype],
        )

    def forward(self, x: Tensor) -> Tensor:
        """Compute it."""
        count = x.numel()
        if not agree(x, self.in_dtype, count):
            raise disagreement("Softmax", x=x)
        if self.read_dtype is not self.in_dtype:
            x = x.to(self.read_dtype)
        length = x.shape[-1] if x.ndim else 1
        y = torch.empty_like(x, dtype=self.dtype)
        if count >= self.large:
            in_large_pages(y)
        rows = count // length if length else 0
        self.run(x.data_ptr(), y.data_ptr(), length, rows, threads_for(count))
        return y

    @classmethod
    def rows_and_columns(cls, call: SoftmaxCall) -> tuple[int, int]:
        """Rows along the axis."""
        return _rows_and_columns(call.shape, call.dim)

    @classmethod
    def refusal(cls, call: SoftmaxCall) -> str | None:
        """The result's dtype counts too."""
        if call.out_dtype not in SHORT_NAMES:
            return f"has programs for {', '.join(SHORT_NAMES.values())}, not {call.out_dtype}"
        return super().refusal(call)

    @classmethod
    def defers(cls, call: SoftmaxCall) -> str | None:
        """Almost always: torch's exponential is the faster one."""
        # Measured on a Zen 4: 0.2 to 1.1 of torch where the result's memory is used again, 1.1 to
        # 2.4 where it is fresh.
        if call.dim < len(call.shape) - 1:
            return slower("another axis than the last, which is copied")
        if in_fresh_pages(call.out_dtype, prod(call.shape)):
            return None
        return slower("results below 32 MiB")

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per pair of dtypes, and per axis that is not the last."""
        facts = (call.dtype, call.out_dtype)
        if call.dim >= len(call.shape) - 1:
            return facts, partial(cls, *facts)
        return (*facts, call.dim), partial(InnerSoftmaxTileLang, *facts, call.dim)


class InnerSoftmaxTileLang(SoftmaxTileLang):
    """Softmax along another axis than the last, by way of two copies."""

    def __init__(self, dtype: torch.dtype, out_dtype: torch.dtype, dim: int) -> None:
        super().__init__(dtype, out_dtype)
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Compute it."""
        moved = super().forward(x.movedim(self.dim, -1).contiguous())
        return moved.movedim(-1, self.dim).contiguous()


class ArgmaxTileLang(CPUKernel, ArgreduceFwdInterface):
    """The index of the first maximum of each row."""

    def __init__(self, dtype: torch.dtype, dim: int | None, keepdim: bool) -> None:
        super().__init__(dtype)
        self.dim, self.keepdim = dim, keepdim
        self.run = function("reduction:argmax", dtype=SHORT_NAMES[dtype])

    def forward(self, input: Tensor) -> Tensor:
        """Find it."""
        shape, dim = input.shape, self.dim
        if dim is None:
            left: tuple[int, ...] = ()
            length = input.numel()
        else:
            if dim != len(shape) - 1:
                input = input.movedim(dim, -1).contiguous()
            left = input.shape[:-1]
            length = input.shape[-1]
        rows = prod(left)
        if not agree(input, self.dtype, rows * length):
            raise disagreement("Argmax", input=input)
        y = torch.empty(left, dtype=torch.int64, device=CPU)
        if length:
            self.run(input.data_ptr(), y.data_ptr(), length, rows, threads_for(rows * length))
        if self.keepdim:
            return y.view([1] * len(shape)) if dim is None else y.unsqueeze(dim)
        return y

    @classmethod
    def rows_and_columns(cls, call: ArgreduceCall) -> tuple[int, int]:
        """Rows along the axis; the whole tensor is one."""
        if call.dim is None:
            return 1, prod(call.shape)
        return _rows_and_columns(call.shape, call.dim)

    @classmethod
    def refusal(cls, call: ArgreduceCall) -> str | None:
        """One function so far."""
        if call.function != "argmax":
            return f"has a program for argmax, not {call.function}"
        return super().refusal(call)

    @classmethod
    def defers(cls, call: ArgreduceCall) -> str | None:
        """Short rows, small calls, and another axis than the last."""
        # Measured on a Zen 4: float32 from 256 columns and 4,096 elements on at 1.4 to 7 of torch,
        # 16 bits from 64 columns on at 1.1 to 30; 0.2 to 1.0 below.
        if call.dim is not None and call.dim < len(call.shape) - 1:
            return slower("another axis than the last, which is copied")
        rows, columns = cls.rows_and_columns(call)
        least = 256 if call.dtype is torch.float32 else 64
        if columns < least or rows * columns < 1 << 12:
            return slower(f"rows of less than {least} columns, or less than 4,096 elements")
        return None

    @classmethod
    def entry_for(cls, call: ArgreduceCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per dtype, axis and shape of the result."""
        # The tensor of rank 0 counts as flattened.
        facts = (call.dtype, call.dim if call.shape else None, call.keepdim)
        return facts, partial(cls, *facts)


def _rows_and_columns(shape: tuple[int, ...], dim: int) -> tuple[int, int]:
    if not shape:
        return 1, 1
    return prod(shape[:dim]) * prod(shape[dim + 1 :]), shape[dim]
