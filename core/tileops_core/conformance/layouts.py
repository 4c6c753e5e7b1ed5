"""Ways in which the values of a tensor may lie in memory."""

from __future__ import annotations

import torch
from torch import Tensor

_NO_SIGN_BIT = (torch.bool, torch.float8_e4m3fn, torch.float8_e5m2)


def laid_out(values: Tensor, layout: str) -> Tensor:
    """The values (of an expanded tensor: the first ones, again and again) in another layout.

    Where a layout makes no sense for a shape or a dtype, the values are returned as they are.

    Args:
        values: a dense tensor.
        layout: ``dense``; ``transposed``, the last axis first in memory; ``strided``, every second
            element; ``padded``, inside longer rows, at an odd offset; ``offset``, one element
            later; ``expanded``, one axis of stride 0; ``negative``, with torch's negative bit.
    """
    rank, shape = values.dim(), values.shape
    if layout == "transposed" and rank > 1:
        return values.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "strided" and rank > 0:
        wide = values.new_zeros((*shape[:-1], 2 * shape[-1]))
        wide[..., ::2] = values
        return wide[..., ::2]
    if layout == "padded" and rank > 0:
        wide = values.new_zeros((*shape[:-1], shape[-1] + 1))
        wide[..., 1:] = values
        return wide[..., 1:]
    if layout == "offset":
        flat = values.new_zeros(values.numel() + 1)
        flat[1:] = values.reshape(-1)
        return flat[1:].view(shape)
    if layout == "expanded":
        axis = next((i for i, length in enumerate(shape) if length > 1), None)
        return values if axis is None else values.narrow(axis, 0, 1).expand(shape)
    if layout == "negative" and values.dtype not in _NO_SIGN_BIT:
        return torch._neg_view(values.neg())
    return values


def poison(tensor: Tensor) -> Tensor:
    """Fill a tensor with what nobody computes: NaN, the greatest int, True. Returns it."""
    if tensor.dtype is torch.bool:
        return tensor.fill_(True)
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(float("nan"))
    return tensor.fill_(torch.iinfo(tensor.dtype).max)
