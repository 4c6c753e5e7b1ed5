"""Functions of one or two tensors, element by element."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def add(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """``input + alpha * other`` of broadcast operands, as ``torch.add``.

    Args:
        input: any shape; bool (where the sum is a logical or), integer or floating.
        other: of ``input``'s dtype, broadcast against it.
        alpha: an int, or a float for floating operands.
    """
    if input.is_floating_point():
        alpha = float(alpha)  # torch takes an int of 64 bits at most
    return torch.add(input, other, alpha=alpha)


def mul(input: Tensor, other: Tensor) -> Tensor:
    """``input * other`` of broadcast operands of one dtype, as ``torch.mul``."""
    return torch.mul(input, other)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """``x * Phi(x)`` with the normal distribution function Phi (Hendrycks and Gimpel, 2016).

    Args:
        input: any shape, floating.
        approximate: ``"none"`` for the error function, ``"tanh"`` for
            ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))``.
    """
    return functional.gelu(input, approximate=approximate)


def relu(input: Tensor, *, inplace: bool = False) -> Tensor:
    """``max(x, 0)``; NaN stays NaN.

    Args:
        input: any shape, floating.
        inplace: write the result into ``input`` and return ``input``.
    """
    return torch.relu_(input) if inplace else torch.relu(input)
