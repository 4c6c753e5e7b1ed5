"""Reductions over axes, scans along them, and softmax."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops_core.kernels import CallSpec, KernelInterface


class SoftmaxCall(CallSpec):
    """Softmax of a tensor, or its logarithm, along ``dim``, which is counted from the front.

    ``dtype`` is the input's; the input is cast to ``out_dtype`` before anything else.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    dim: int
    out_dtype: torch.dtype


class SoftmaxFwdInterface(KernelInterface):
    """``exp(x - max) / sum(exp(x - max))`` along an axis, computed in float32 or wider."""

    request = SoftmaxCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Compute softmax.

        Args:
            x: ``call.shape``, ``call.dtype``; rank 0 counts as one row of one element.

        Returns:
            ``call.shape`` in ``call.out_dtype``. A row that is all -inf, or holds NaN or inf, is
            NaN.
        """


class LogSoftmaxFwdInterface(KernelInterface):
    """``x - max - log(sum(exp(x - max)))`` along an axis, computed in float32 or wider."""

    request = SoftmaxCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Compute the logarithm of softmax.

        Args:
            input: ``call.shape``, ``call.dtype``; rank 0 counts as one row of one element.

        Returns:
            ``call.shape`` in ``call.out_dtype``, rounded once. A row that is all -inf, or holds
            NaN or inf, is NaN.
        """


class ReduceCall(CallSpec):
    """A reduction by name (``"sum"``) over axes.

    ``dims`` are the reduced axes, counted from the front and in rising order: all of them where
    the op reduces everything, none for rank 0. ``dtype`` is the input's; the input is cast to
    ``out_dtype`` before anything else.
    """

    function: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    keepdim: bool
    out_dtype: torch.dtype


class ReduceFwdInterface(KernelInterface):
    """One value per combination of the axes that stay, accumulated in float32 or wider."""

    request = ReduceCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Reduce.

        Args:
            input: ``call.shape``, ``call.dtype``.

        Returns:
            ``call.shape`` with ``call.dims`` removed, or of length 1 with ``call.keepdim``, in
            ``call.out_dtype``. The reduction of no elements is the function's identity.
        """


class ArgreduceCall(CallSpec):
    """Where a row has the element that a function by name (``"argmax"``) chooses.

    ``dim`` is counted from the front; None takes the flattened tensor, and so does rank 0. No row
    is empty.
    """

    function: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    dim: int | None
    keepdim: bool


class ArgreduceFwdInterface(KernelInterface):
    """The index of one element per row.

    For ``"argmax"`` the first of the greatest; NaN counts as greater than everything, so the
    first NaN where there is one.
    """

    request = ArgreduceCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Find the indices.

        Args:
            input: ``call.shape``, ``call.dtype``.

        Returns:
            int64 of ``call.shape`` with ``call.dim``, or every axis where that is None, removed,
            or of length 1 with ``call.keepdim``. Indices count along the axis, or through the
            flattened tensor.
        """


class ScanCall(CallSpec):
    """A scan by name (``"cumsum"``) along ``dim``, which is counted from the front.

    ``dtype`` is the input's; the input is cast to ``out_dtype`` before anything else. ``shape``
    has at least one axis.
    """

    function: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    dim: int
    out_dtype: torch.dtype


class ScanFwdInterface(KernelInterface):
    """Each element joined with all before it on its row.

    Accumulated in float32 or wider; each element is rounded once and the running value never.
    """

    request = ScanCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Scan.

        Args:
            input: ``call.shape``, ``call.dtype``.

        Returns:
            ``call.shape`` in ``call.out_dtype``.
        """
