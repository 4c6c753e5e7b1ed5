"""Matrix products."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def gemm(a: Tensor, b: Tensor, *, trans_a: bool = False, trans_b: bool = True) -> Tensor:
    """``d = op(a) @ op(b)``, where a flag says that its operand is stored transposed.

    Args:
        a: ``[M, K]``, or ``[K, M]`` when ``trans_a``.
        b: ``[N, K]``, or ``[K, N]`` when not ``trans_b``.
        trans_a: ``a`` is stored transposed.
        trans_b: ``b`` is stored transposed.

    Returns:
        ``[M, N]`` in the operands' dtype, rounded once; zeros when K is 0.
    """
    if trans_b and not trans_a:
        return functional.linear(a, b)
    return torch.mm(a.t() if trans_a else a, b.t() if trans_b else b)


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """``d[i] = a[i] @ b[i]`` for ``a [B, M, K]`` and ``b [B, K, N]``, as ``torch.bmm``."""
    return torch.bmm(a, b)
