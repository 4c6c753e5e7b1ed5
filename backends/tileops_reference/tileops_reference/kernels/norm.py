"""Normalizations over trailing axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import torch
from torch import Tensor

from tileops_core.interfaces.norm import (
    FusedAddLayerNormCall,
    FusedAddLayerNormFwdInterface,
    FusedAddRMSNormCall,
    FusedAddRMSNormFwdInterface,
    LayerNormCall,
    LayerNormFwdInterface,
    RMSNormCall,
    RMSNormFwdInterface,
)
from tileops_reference.functions import norm
from tileops_reference.kernels.general import GeneralKernel


class RMSNormReference(GeneralKernel, RMSNormFwdInterface):
    """RMSNorm as torch composes it."""

    def __init__(self, normalized_shape: tuple[int, ...], eps: float) -> None:
        self.normalized_shape, self.eps = normalized_shape, eps

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalize."""
        return torch.rms_norm(x, self.normalized_shape, weight, self.eps)

    @classmethod
    def entry_for(cls, call: RMSNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per normalized shape, eps and road."""
        count = 1
        for length in call.shape:
            count *= length
        direct = norm.torch_rms_norm_is_best(count, call.device)
        kernel = cls if direct else ManyRowsRMSNorm
        identity = (call.normalized_shape, call.eps, direct)
        return identity, partial(kernel, call.normalized_shape, call.eps)


class ManyRowsRMSNorm(RMSNormReference):
    """RMSNorm in as few passes over memory as it takes."""

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalize."""
        return norm.rms_norm(x, weight, normalized_shape=self.normalized_shape, eps=self.eps)


class LayerNormReference(GeneralKernel, LayerNormFwdInterface):
    """LayerNorm."""

    def __init__(self, normalized_shape: tuple[int, ...], eps: float) -> None:
        self.normalized_shape, self.eps = normalized_shape, eps

    def forward(self, input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalize."""
        return torch.layer_norm(input, self.normalized_shape, weight, bias, self.eps, False)

    @classmethod
    def entry_for(cls, call: LayerNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per normalized shape and eps."""
        facts = (call.normalized_shape, call.eps)
        return facts, partial(cls, *facts)


class FusedAddLayerNormReference(GeneralKernel, FusedAddLayerNormFwdInterface):
    """A sum and its LayerNorm."""

    def __init__(self, eps: float) -> None:
        self.eps = eps

    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add and normalize."""
        return norm.fused_add_layer_norm(x, residual, weight, bias, eps=self.eps)

    @classmethod
    def entry_for(cls, call: FusedAddLayerNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per eps."""
        return call.eps, partial(cls, call.eps)


class FusedAddRMSNormReference(GeneralKernel, FusedAddRMSNormFwdInterface):
    """A sum and its RMSNorm."""

    def __init__(self, eps: float) -> None:
        self.eps = eps

    def forward(self, input: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalize."""
        return norm.fused_add_rms_norm(input, residual, weight, eps=self.eps)

    @classmethod
    def entry_for(cls, call: FusedAddRMSNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per eps."""
        return call.eps, partial(cls, call.eps)
