"""Reductions over axes, and softmax."""

from __future__ import annotations

import torch
from torch import Tensor


def implicit_softmax_dim(rank: int) -> int:
    """The axis that torch takes when none is named: 0 at rank 0, 1 and 3, else 1."""
    return 0 if rank in (0, 1, 3) else 1


def softmax(x: Tensor, *, dim: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along an axis.

    Args:
        x: any shape, floating.
        dim: the axis; None takes :func:`implicit_softmax_dim`.
        dtype: cast ``x`` to this before anything else; the result has it.

    Returns:
        ``x``'s shape. A row that is all -inf, or holds NaN or inf, is NaN, as in torch.
    """
    if dim is None:
        dim = implicit_softmax_dim(x.ndim)
    if dtype is not None:
        x = x.to(dtype)
    if softmax_rounds_twice(x.dtype, x.ndim, dim, x.device):
        return torch.softmax(x, dim, torch.float32).to(x.dtype)
    return torch.softmax(x, dim)


def softmax_rounds_twice(dtype: torch.dtype, rank: int, dim: int, device: torch.device) -> bool:
    """Whether torch would round the exponentials before it divides.

    On CPU it does so for 16-bit tensors along an axis that is not the last.
    """
    return dtype.itemsize == 2 and dim not in (-1, rank - 1) and device.type == "cpu"


def reduce_sum(
    input: Tensor,
    *,
    dim: int | list[int] | tuple[int, ...] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The sum over axes, as ``torch.sum``; an empty sum is 0.

    Args:
        input: any shape, floating.
        dim: an axis or several; None and an empty sequence take all.
        keepdim: keep reduced axes with length 1.
        dtype: cast ``input`` to this before anything else; the result has it.
    """
    return torch.sum(input, () if dim is None else dim, keepdim, dtype=dtype)
