"""Functions of one or two tensors, element by element, and gated activations."""

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


def tanh(input: Tensor) -> Tensor:
    """``tanh(x)``, as ``torch.tanh``; any shape, floating."""
    return torch.tanh(input)


def silu_and_mul(input: Tensor) -> Tensor:
    """``silu(gate) * value`` with ``silu(x) = x / (1 + exp(-x))`` (Shazeer, 2020).

    Args:
        input: ``[M, 2 * N]``, floating: the gate in the first N columns, the value in the others.

    Returns:
        ``[M, N]``, rounded once.
    """
    gate, value = _gate_and_value(input)
    return functional.silu(gate).mul_(value).to(input.dtype)


def gelu_and_mul(input: Tensor, *, approximate: str = "none") -> Tensor:
    """``gelu(gate) * value`` (Shazeer, 2020).

    Args:
        input: ``[M, 2 * N]``, floating: the gate in the first N columns, the value in the others.
        approximate: ``"none"`` or ``"tanh"``, as in :func:`gelu`.

    Returns:
        ``[M, N]``, rounded once.
    """
    gate, value = _gate_and_value(input)
    return functional.gelu(gate, approximate=approximate).mul_(value).to(input.dtype)


def _gate_and_value(input: Tensor) -> tuple[Tensor, ...]:
    """The halves of every row in float32, or wider: the activation is not rounded by itself."""
    return input.to(torch.promote_types(input.dtype, torch.float32)).chunk(2, -1)
