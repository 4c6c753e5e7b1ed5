"""Normalizations over trailing axes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

FLOAT32_EPS = torch.finfo(torch.float32).eps
"""What ``eps=None`` means for RMSNorm, whatever the input's dtype."""

_FEW = 1 << 14
"""Below this many elements torch's own composition wins: it has fewer calls, but more passes."""

_TORCH_ROUNDS_ONCE = TorchVersion(torch.__version__) >= "2.11"
"""Older ones round before the weight as well; 2.11 and 2.13 were looked at."""


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float | None = None,
) -> Tensor:
    """``x * rsqrt(mean(x**2) + eps) * weight`` over the trailing axes (Zhang and Sennrich, 2019).

    The weight is applied before the one rounding to ``x``'s dtype.

    Args:
        x: ``[*B, *normalized_shape]``, floating.
        weight: ``normalized_shape``, of ``x``'s dtype.
        normalized_shape: the trailing axes to normalize over, at least one.
        eps: added to the mean of squares; None is float32's machine epsilon.
    """
    if eps is None:
        eps = FLOAT32_EPS
    if torch_rms_norm_is_best(x.numel(), x.device):
        return torch.rms_norm(x, normalized_shape, weight, eps)
    return _rms_norm_in_few_passes(x, weight, len(normalized_shape), eps)


def torch_rms_norm_is_best(count: int, device: torch.device) -> bool:
    """Whether torch's own serves a tensor of so many elements: exact, and the fastest."""
    return _TORCH_ROUNDS_ONCE and (count < _FEW or device.type != "cpu")


def _rms_norm_in_few_passes(x: Tensor, weight: Tensor | None, axes: int, eps: float) -> Tensor:
    """The same with one temporary at most: large tensors cost memory traffic, not calls."""
    wide = x.contiguous().to(torch.promote_types(x.dtype, torch.float32))
    rows = wide.flatten(-axes)
    # The norm reads x once and keeps no squares; its square is the sum of squares again.
    scale = torch.linalg.vector_norm(rows, 2, -1, True)
    scale = scale.square_().div_(max(rows.shape[-1], 1)).add_(eps).rsqrt_()
    scaled = (rows * scale if wide is x else rows.mul_(scale)).view(x.shape)
    if weight is not None:
        scaled.mul_(weight)
    return scaled.to(x.dtype)


def layer_norm(
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the trailing axes (Ba et al., 2016).

    The variance is the biased one.

    Args:
        input: ``[*B, *normalized_shape]``, floating.
        weight: ``normalized_shape``, of ``input``'s dtype.
        bias: the same, present or absent by itself.
        normalized_shape: the trailing axes to normalize over, at least one.
        eps: added to the variance.
    """
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, False)


def fused_add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, *, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """``r = x + residual`` and its layer norm over the last axis.

    The norm reads the sum before that is rounded to ``x``'s dtype, as flash-attn's
    ``layer_norm_fn`` does.

    Args:
        x: ``[*B, N]``, floating.
        residual: as ``x``.
        weight: ``[N]``, of ``x``'s dtype.
        bias: as ``weight``.
        eps: added to the variance.

    Returns:
        ``(output, residual_out)``, the norm and the rounded sum, both of ``x``'s shape and dtype.
    """
    if x.dtype.itemsize >= 4:
        total = torch.add(x, residual)
        return torch.layer_norm(total, weight.shape, weight, bias, eps, False), total
    total = x.float().add_(residual)
    output = torch.layer_norm(total, weight.shape, weight.float(), bias.float(), eps, False)
    return output.to(x.dtype), total.to(x.dtype)


def fused_add_rms_norm(
    input: Tensor, residual: Tensor, weight: Tensor, *, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """``r = input + residual`` and its RMS norm over the last axis.

    The norm reads the sum before that is rounded to ``input``'s dtype, and applies the weight
    before its own rounding, as FlashInfer's ``fused_add_rmsnorm`` does.

    Args:
        input: ``[*B, N]``, floating.
        residual: as ``input``.
        weight: ``[N]``, of ``input``'s dtype.
        eps: added to the mean of squares.

    Returns:
        ``(output, residual_out)``, the norm and the rounded sum, both of ``input``'s shape and
        dtype.
    """
    if input.dtype.itemsize >= 4:
        total = torch.add(input, residual)
        return rms_norm(total, weight, normalized_shape=weight.shape, eps=eps), total
    total = input.float().add_(residual)
    output = rms_norm(total, weight.float(), normalized_shape=weight.shape, eps=eps)
    return output.to(input.dtype), total.to(input.dtype)
