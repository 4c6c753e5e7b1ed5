"""Reductions over axes, scans along them, and softmax."""

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


def log_softmax(
    input: Tensor, *, dim: int | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along an axis.

    Args:
        input: any shape, floating.
        dim: the axis; None takes :func:`implicit_softmax_dim`.
        dtype: cast ``input`` to this before anything else; the result has it.

    Returns:
        ``input``'s shape. A row that is all -inf, or holds NaN or inf, is NaN, as in torch.
    """
    if dim is None:
        dim = implicit_softmax_dim(input.ndim)
    if dtype is not None:
        input = input.to(dtype)
    if log_softmax_rounds_twice(input.dtype, input.device):
        return torch.log_softmax(input, dim, torch.float32).to(input.dtype)
    return torch.log_softmax(input, dim)


def log_softmax_rounds_twice(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether torch would round the differences from the maximum before it subtracts again.

    On CPU it does so for 16-bit tensors along the last axis; along others it is no faster.
    """
    return dtype.itemsize == 2 and device.type == "cpu"


def argmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the first maximum, as ``torch.argmax``; NaN counts as the maximum.

    Args:
        input: any shape, floating.
        dim: the axis, not of length 0; None takes the flattened tensor.
        keepdim: keep reduced axes with length 1.

    Returns:
        int64.
    """
    return torch.argmax(input, dim, keepdim)


def cumsum(input: Tensor, *, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """The inclusive cumulative sum along an axis, as ``torch.cumsum``.

    Args:
        input: at least one axis, floating.
        dim: the axis.
        dtype: cast ``input`` to this before anything else; the result has it.

    Returns:
        ``input``'s shape; each element is rounded once.
    """
    if dtype is not None:
        input = input.to(dtype)
    if cumsum_accumulates_narrow(input.dtype, input.device):
        return torch.cumsum(input, dim, dtype=torch.float32).to(input.dtype)
    return torch.cumsum(input, dim)


def cumsum_accumulates_narrow(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether torch would keep a running sum of 16 bits: everywhere but on the CPU."""
    return dtype.itemsize == 2 and device.type != "cpu"
