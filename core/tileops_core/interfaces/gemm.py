"""Matrix products."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops_core.kernels import CallSpec, KernelInterface


class GEMMCall(CallSpec):
    """A product ``[m, k] x [k, n]``; the flags say which operands are stored transposed."""

    dtype: torch.dtype
    m: int
    n: int
    k: int
    trans_a: bool = False
    trans_b: bool = True


class GEMMFwdInterface(KernelInterface):
    """``d = op(a) op(b)``, accumulated in float32 or wider and rounded once."""

    request = GEMMCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply two matrices.

        Args:
            a: ``[m, k]``, or ``[k, m]`` with ``trans_a``; ``call.dtype``.
            b: ``[k, n]``, or ``[n, k]`` with ``trans_b``; ``call.dtype``.

        Returns:
            ``[m, n]`` in ``call.dtype``; zeros where k is 0.
        """


class BMMCall(CallSpec):
    """``batch`` products ``[m, k] x [k, n]``."""

    dtype: torch.dtype
    batch: int
    m: int
    n: int
    k: int


class BMMFwdInterface(KernelInterface):
    """``d[i] = a[i] b[i]``, accumulated in float32 or wider and rounded once."""

    request = BMMCall

    @abstractmethod
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply matrices pairwise.

        Args:
            a: ``[batch, m, k]``, ``call.dtype``.
            b: ``[batch, k, n]``, ``call.dtype``.

        Returns:
            ``[batch, m, n]`` in ``call.dtype``; zeros where k is 0.
        """
