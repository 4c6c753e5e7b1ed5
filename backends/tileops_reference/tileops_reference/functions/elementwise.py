"""Functions element by element, gated activations, and tensors that follow from numbers alone."""

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


def alibi(
    *,
    seq_len: int,
    num_heads: int,
    out_dtype: torch.dtype,
    device: torch.device | str | None = None,
) -> Tensor:
    """``-2 ** (-8 (h + 1) / num_heads) * |i - j|`` (Press et al., 2022).

    Args:
        seq_len: how many queries i, and keys j, there are.
        num_heads: how many heads h there are, any number.
        out_dtype: the result's dtype, floating.
        device: where; None is the current CUDA device, or the CPU where there is none.

    Returns:
        ``[num_heads, seq_len, seq_len]``, rounded once from float64.
    """
    return by_distance(biases_of_distances(seq_len, num_heads, out_dtype).to(_place(device)))


def biases_of_distances(seq_len: int, num_heads: int, dtype: torch.dtype) -> Tensor:
    """All that a table of biases holds: of each head those of ``j - i`` from ``1 - seq_len`` on.

    Returns:
        ``[num_heads, 2 * seq_len - 1]`` on the CPU, because not every device has float64.
    """
    heads = torch.arange(1, num_heads + 1, dtype=torch.float64, device="cpu")
    distances = torch.arange(1 - seq_len, seq_len, dtype=torch.float64, device="cpu").abs()
    # From 0, so that the diagonal is no negative zero.
    return (0.0 - torch.exp2(heads * -8 / num_heads).unsqueeze(1) * distances).to(dtype)


def by_distance(biases: Tensor) -> Tensor:
    """Rows i and columns j of what depends on ``j - i``, in new memory.

    Args:
        biases: ``[heads, 2 * length - 1]``, from ``j - i = 1 - length`` on.

    Returns:
        ``[heads, length, length]``.
    """
    length = (biases.shape[-1] + 1) // 2
    # The window that begins at place t is the row t places above the last one.
    return biases.unfold(-1, length, 1).flip(-2).contiguous()


def sinusoidal(
    *, seq_len: int, d_model: int, out_dtype: torch.dtype, device: torch.device | str | None = None
) -> Tensor:
    """``sin(p / 10000 ** (2i / d_model))`` in column 2i, its cosine beside (Vaswani et al., 2017).

    Args:
        seq_len: how many positions p there are.
        d_model: how many columns there are; the last sine of an odd number has no cosine.
        out_dtype: the result's dtype, floating.
        device: where; None is the current CUDA device, or the CPU where there is none.

    Returns:
        ``[seq_len, d_model]``, rounded once from float64.
    """
    # On the CPU, because not every device has float64.
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / -d_model
    positions = torch.arange(seq_len, dtype=torch.float64, device="cpu")
    angles = positions.unsqueeze(1) * torch.pow(10000.0, exponents)
    table = torch.empty(seq_len, d_model, dtype=out_dtype, device="cpu")
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles[:, : d_model // 2].cos()
    return table.to(_place(device))


def _place(device: torch.device | str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def _gate_and_value(input: Tensor) -> tuple[Tensor, ...]:
    """The halves of every row in float32, or wider: the activation is not rounded by itself."""
    return input.to(torch.promote_types(input.dtype, torch.float32)).chunk(2, -1)
