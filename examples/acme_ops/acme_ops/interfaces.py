"""What a kernel of these ops is asked for, and what it promises."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops_core.kernels import CallSpec, KernelInterface


class SoftcapCall(CallSpec):
    """A soft cap of ``shape`` elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    cap: float


class SoftcapFwdInterface(KernelInterface):
    """``cap * tanh(x / cap)``, computed in float32 or wider and rounded once."""

    request = SoftcapCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Bound every element.

        Args:
            x: ``call.shape``, ``call.dtype``.

        Returns:
            ``call.shape``, ``call.dtype``.
        """
