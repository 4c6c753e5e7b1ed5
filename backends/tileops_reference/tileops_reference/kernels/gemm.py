"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from tileops_core.interfaces.gemm import BMMFwdInterface, GEMMCall, GEMMFwdInterface
from tileops_reference.functions import gemm
from tileops_reference.kernels.general import GeneralKernel, torch_function


class GEMMReference(GeneralKernel, GEMMFwdInterface):
    """A matrix product whose operands may be stored transposed."""

    def __init__(self, *, trans_a: bool, trans_b: bool) -> None:
        self.trans_a, self.trans_b = trans_a, trans_b

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply two matrices."""
        return gemm.gemm(a, b, trans_a=self.trans_a, trans_b=self.trans_b)

    @classmethod
    def entry_for(cls, call: GEMMCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per pair of flags."""
        flags = (call.trans_a, call.trans_b)
        if flags == (False, True):
            return flags, LinearReference
        return flags, partial(cls, trans_a=call.trans_a, trans_b=call.trans_b)


class LinearReference(GEMMReference):
    """The default flags: torch transposes ``b`` itself, faster than a call to ``t`` does."""

    def __init__(self) -> None:
        super().__init__(trans_a=False, trans_b=True)

    forward = torch_function(functional.linear)


class BMMReference(GeneralKernel, BMMFwdInterface):
    """A batch of matrix products."""

    forward = torch_function(torch.bmm)
