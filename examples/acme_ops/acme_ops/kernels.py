"""A kernel for any device, and the function that the conformance suite compares with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import torch
from torch import Tensor

from acme_ops.interfaces import SoftcapCall, SoftcapFwdInterface
from tileops_core.kernels import Kernel


def softcap(x: Tensor, *, cap: float) -> Tensor:
    """``cap * tanh(x / cap)`` in float32, or wider where ``x`` is."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return torch.tanh(wide / cap).mul_(cap).to(x.dtype)


class Softcap(Kernel, SoftcapFwdInterface):
    """A soft cap in three passes of PyTorch's."""

    devices = None  # any
    general = True  # serves what nobody serves faster

    @classmethod
    def entry_for(cls, call: SoftcapCall) -> tuple[Hashable, Callable[[], object]]:
        """One kernel per cap, whatever the shape."""
        return call.cap, partial(cls, call.cap)

    def __init__(self, cap: float) -> None:
        self.cap = cap

    def forward(self, x: Tensor) -> Tensor:
        """Bound every element."""
        return softcap(x, cap=self.cap)
