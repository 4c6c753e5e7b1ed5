"""Reductions over axes, scans along them, and softmax."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import torch
from torch import Tensor

from tileops_core.interfaces.reduction import (
    ArgreduceCall,
    ArgreduceFwdInterface,
    LogSoftmaxFwdInterface,
    ReduceCall,
    ReduceFwdInterface,
    ScanCall,
    ScanFwdInterface,
    SoftmaxCall,
    SoftmaxFwdInterface,
)
from tileops_reference.functions import reduction
from tileops_reference.kernels.general import GeneralKernel, torch_function


class SoftmaxReference(GeneralKernel, SoftmaxFwdInterface):
    """Softmax along an axis."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Compute it."""
        return torch.softmax(x, self.dim)

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per axis and cast."""
        rank = len(call.shape)
        careful = reduction.softmax_rounds_twice(call.out_dtype, rank, call.dim, call.device)
        if call.out_dtype is call.dtype and not careful:
            return call.dim, partial(cls, call.dim)
        return (call.dim, call.out_dtype), partial(CarefulSoftmax, call.dim, call.out_dtype)


class CarefulSoftmax(SoftmaxReference):
    """Softmax after a cast, or where torch itself would round on the way."""

    def __init__(self, dim: int, dtype: torch.dtype) -> None:
        super().__init__(dim)
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        """Compute it."""
        return reduction.softmax(x, dim=self.dim, dtype=self.dtype)


class SumReference(GeneralKernel, ReduceFwdInterface):
    """A sum over axes."""

    def __init__(self, dim: int | tuple[int, ...], keepdim: bool) -> None:
        self.dim, self.keepdim = dim, keepdim

    def forward(self, input: Tensor) -> Tensor:
        """Add up."""
        return torch.sum(input, self.dim, self.keepdim)

    @classmethod
    def entry_for(cls, call: ReduceCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per set of axes, shape of the result and cast."""
        # One axis as an int is what torch takes fastest.
        dim = call.dims[0] if len(call.dims) == 1 else call.dims
        if call.out_dtype is not call.dtype:
            identity = (call.dims, call.keepdim, call.out_dtype)
            return identity, partial(CastSum, dim, call.keepdim, call.out_dtype)
        if len(call.dims) == len(call.shape) and not call.keepdim:
            return "all", FullSum
        return (call.dims, call.keepdim), partial(cls, dim, call.keepdim)


class FullSum(SumReference):
    """The sum of all elements."""

    def __init__(self) -> None:
        super().__init__((), False)

    forward = torch_function(torch.sum)


class CastSum(SumReference):
    """A sum of elements that are cast first."""

    def __init__(self, dim: int | tuple[int, ...], keepdim: bool, dtype: torch.dtype) -> None:
        super().__init__(dim, keepdim)
        self.dtype = dtype

    def forward(self, input: Tensor) -> Tensor:
        """Add up."""
        return torch.sum(input, self.dim, self.keepdim, dtype=self.dtype)


class LogSoftmaxReference(GeneralKernel, LogSoftmaxFwdInterface):
    """The logarithm of softmax along an axis."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Compute it."""
        return torch.log_softmax(input, self.dim)

    @classmethod
    def entry_for(cls, call: SoftmaxCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per axis and cast."""
        careful = reduction.log_softmax_rounds_twice(call.out_dtype, call.device)
        if call.out_dtype is call.dtype and not careful:
            return call.dim, partial(cls, call.dim)
        return (call.dim, call.out_dtype), partial(CarefulLogSoftmax, call.dim, call.out_dtype)


class CarefulLogSoftmax(LogSoftmaxReference):
    """The same after a cast, or where torch itself would round on the way."""

    def __init__(self, dim: int, dtype: torch.dtype) -> None:
        super().__init__(dim)
        self.dtype = dtype

    def forward(self, input: Tensor) -> Tensor:
        """Compute it."""
        return reduction.log_softmax(input, dim=self.dim, dtype=self.dtype)


class ArgmaxReference(GeneralKernel, ArgreduceFwdInterface):
    """The index of the first maximum."""

    def __init__(self, dim: int | None, keepdim: bool) -> None:
        self.dim, self.keepdim = dim, keepdim

    def forward(self, input: Tensor) -> Tensor:
        """Find it."""
        return torch.argmax(input, self.dim, self.keepdim)

    @classmethod
    def entry_for(cls, call: ArgreduceCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per axis and shape of the result."""
        facts = (call.dim, call.keepdim)
        return facts, partial(cls, *facts)


class CumsumReference(GeneralKernel, ScanFwdInterface):
    """A cumulative sum along an axis."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Add up."""
        return torch.cumsum(input, self.dim)

    @classmethod
    def entry_for(cls, call: ScanCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per axis and cast."""
        careful = reduction.cumsum_accumulates_narrow(call.out_dtype, call.device)
        if call.out_dtype is call.dtype and not careful:
            return call.dim, partial(cls, call.dim)
        return (call.dim, call.out_dtype), partial(CarefulCumsum, call.dim, call.out_dtype)


class CarefulCumsum(CumsumReference):
    """The same after a cast, or where torch itself would round on the way."""

    def __init__(self, dim: int, dtype: torch.dtype) -> None:
        super().__init__(dim)
        self.dtype = dtype

    def forward(self, input: Tensor) -> Tensor:
        """Add up."""
        return reduction.cumsum(input, dim=self.dim, dtype=self.dtype)
