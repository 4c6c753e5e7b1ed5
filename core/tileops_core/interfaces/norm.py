"""Normalizations over trailing axes."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops_core.kernels import CallSpec, KernelInterface


class RMSNormCall(CallSpec):
    """RMSNorm of ``shape`` over its trailing ``normalized_shape``, at least one axis."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    normalized_shape: tuple[int, ...]
    eps: float
    has_weight: bool


class RMSNormFwdInterface(KernelInterface):
    """``x * rsqrt(mean(x**2) + eps) * weight`` in float32 or wider, rounded once, at the end."""

    request = RMSNormCall

    @abstractmethod
    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalize.

        Args:
            x: ``call.shape``, ``call.dtype``.
            weight: ``call.normalized_shape``, ``call.dtype``; None unless ``call.has_weight``.

        Returns:
            ``call.shape``, ``call.dtype``.
        """


class LayerNormCall(CallSpec):
    """LayerNorm of ``shape`` over its trailing ``normalized_shape``, at least one axis."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    normalized_shape: tuple[int, ...]
    eps: float
    has_weight: bool
    has_bias: bool


class LayerNormFwdInterface(KernelInterface):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the biased variance.

    Computed in float32 or wider, rounded once, at the end.
    """

    request = LayerNormCall

    @abstractmethod
    def forward(self, input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalize.

        Args:
            input: ``call.shape``, ``call.dtype``.
            weight: ``call.normalized_shape``, ``call.dtype``; None unless ``call.has_weight``.
            bias: the same, by ``call.has_bias``.

        Returns:
            ``call.shape``, ``call.dtype``.
        """


class FusedAddLayerNormCall(CallSpec):
    """``x + residual`` of ``shape`` and its LayerNorm over the last axis."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    eps: float


class FusedAddLayerNormFwdInterface(KernelInterface):
    """``r = x + residual`` and ``(r - mean) / sqrt(var + eps) * weight + bias``.

    The norm reads the sum before that is rounded. Computed in float32 or wider.
    """

    request = FusedAddLayerNormCall

    @abstractmethod
    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add and normalize.

        Args:
            x: ``call.shape``, ``call.dtype``.
            residual: the same; may be ``x`` itself.
            weight: ``call.shape[-1:]``, ``call.dtype``.
            bias: the same.

        Returns:
            ``(output, residual_out)``: the norm and r, both ``call.shape``, ``call.dtype``.
        """


class FusedAddRMSNormCall(CallSpec):
    """``input + residual`` of ``shape`` and its RMSNorm over the last axis."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    eps: float


class FusedAddRMSNormFwdInterface(KernelInterface):
    """``r = input + residual`` and ``r * rsqrt(mean(r**2) + eps) * weight``.

    The norm reads the sum before that is rounded. Computed in float32 or wider, weight included;
    each result is rounded once.
    """

    request = FusedAddRMSNormCall

    @abstractmethod
    def forward(self, input: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalize.

        Args:
            input: ``call.shape``, ``call.dtype``.
            residual: the same; may be ``input`` itself.
            weight: ``call.shape[-1:]``, ``call.dtype``.

        Returns:
            ``(output, residual_out)``: the norm and r, both ``call.shape``, ``call.dtype``.
        """
