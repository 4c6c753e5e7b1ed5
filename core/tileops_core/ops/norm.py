"""Normalizations over trailing axes."""

from __future__ import annotations

from tileops_core.interfaces.norm import (
    FusedAddLayerNormCall,
    FusedAddRMSNormCall,
    LayerNormCall,
    RMSNormCall,
)
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

__all__ = ["FusedAddLayerNormFwdOp", "FusedAddRMSNormFwdOp", "LayerNormFwdOp", "RMSNormFwdOp"]

_FLOAT32_EPS = 2.0**-23
"""What no eps means for RMSNorm, whatever the input's dtype."""


class RMSNormFwdOp(Op):
    """``x * rsqrt(mean(x**2) + eps) * weight`` over the trailing ``normalized_shape`` axes.

    Computed in float32, weight included, and rounded once. ``eps=None`` is float32's machine
    epsilon for every dtype. ``x`` is ``[*B, *normalized_shape]``, ``weight`` optional. Zhang and
    Sennrich, "Root Mean Square Layer Normalization", 2019; follows
    ``torch.nn.functional.rms_norm``.
    """

    def call_spec(self, x: TensorSpec, weight: TensorSpec | None) -> RMSNormCall:
        """Shapes, eps as a number, and whether there is a weight."""
        eps = _FLOAT32_EPS if self.eps is None else self.eps
        return RMSNormCall(
            x.device, x.dtype, x.shape, self.normalized_shape, eps, weight is not None
        )


class LayerNormFwdOp(Op):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the ``normalized_shape`` axes.

    The variance is the biased one. Computed in float32 and rounded once. ``input`` is
    ``[*B, *normalized_shape]``; ``weight`` and ``bias`` are optional, each by itself. Ba, Kiros
    and Hinton, "Layer Normalization", 2016; follows ``torch.nn.functional.layer_norm``.
    """

    def call_spec(
        self, input: TensorSpec, weight: TensorSpec | None, bias: TensorSpec | None
    ) -> LayerNormCall:
        """Shapes, eps, and which of weight and bias there are."""
        return LayerNormCall(
            input.device,
            input.dtype,
            input.shape,
            self.normalized_shape,
            self.eps,
            weight is not None,
            bias is not None,
        )


class FusedAddLayerNormFwdOp(Op):
    """``r = x + residual`` and ``(r - mean) / sqrt(var + eps) * weight + bias`` over the last axis.

    Returns the norm and r. Computed in float32: the norm reads r before it is rounded. ``x`` and
    ``residual`` are ``[*B, N]``, ``weight`` and ``bias`` ``[N]``. Follows
    ``flash_attn.ops.triton.layer_norm.layer_norm_fn``, but is functional.
    """

    def call_spec(
        self, x: TensorSpec, residual: TensorSpec, weight: TensorSpec, bias: TensorSpec
    ) -> FusedAddLayerNormCall:
        """Shape and eps."""
        return FusedAddLayerNormCall(x.device, x.dtype, x.shape, self.eps)


class FusedAddRMSNormFwdOp(Op):
    """``r = input + residual`` and ``r * rsqrt(mean(r**2) + eps) * weight`` over the last axis.

    Returns the norm and r. Computed in float32: the norm reads r before it is rounded. ``input``
    and ``residual`` are ``[*B, N]``, ``weight`` ``[N]``. Follows
    ``flashinfer.norm.fused_add_rmsnorm``, but is functional.
    """

    def call_spec(
        self, input: TensorSpec, residual: TensorSpec, weight: TensorSpec
    ) -> FusedAddRMSNormCall:
        """Shape and eps."""
        return FusedAddRMSNormCall(input.device, input.dtype, input.shape, self.eps)
