"""Whether two configurations of one kernel compute the same."""

from __future__ import annotations

from typing import Any

import torch

_LOW_BITS = {torch.float16: 2**-9, torch.bfloat16: 2**-6}
"""Two units in the last place: a sum in another order may round to a neighbor and its neighbor."""

_FLOAT8 = 2**-2
"""One unit in the last place of a number with two bits of mantissa."""

_WIDE = {torch.float32: 1e-4, torch.complex64: 1e-4}
"""A sum of thousands in another order; what is wrong is off by far more."""

_WIDEST = 1e-10


def tolerance(dtype: torch.dtype) -> float:
    """How far two right results may differ, relative to the greatest one; 0 for whole numbers."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    if dtype.itemsize == 1:
        return _FLOAT8
    return _LOW_BITS.get(dtype) or _WIDE.get(dtype) or _WIDEST


def disagreement(first: Any, other: Any) -> str | None:
    """In what two results, or the tensors that two calls left, differ; None if they agree.

    Args:
        first: A tensor, None, a number, or a sequence of these.
        other: The same of another configuration.
    """
    if isinstance(first, (tuple, list)):
        if not isinstance(other, (tuple, list)) or len(first) != len(other):
            return "returns another number of results"
        found = (disagreement(a, b) for a, b in zip(first, other, strict=True))
        return next((text for text in found if text is not None), None)
    if not isinstance(first, torch.Tensor):
        same = first is other or (not isinstance(other, torch.Tensor) and first == other)
        return None if same else f"returns {_told(other)} in place of {first!r}"
    if not isinstance(other, torch.Tensor):
        return f"returns {_told(other)} in place of a tensor"
    if first.shape != other.shape or first.dtype != other.dtype:
        return f"returns {other.dtype}{list(other.shape)}, not {first.dtype}{list(first.shape)}"
    return _differ(first, other)


def _told(value: object) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)


def _differ(first: torch.Tensor, other: torch.Tensor) -> str | None:
    allowed = tolerance(first.dtype)
    if first.numel() == 0:
        return None
    if allowed == 0.0:
        return None if torch.equal(first, other) else "gives other numbers"
    wide = torch.complex128 if first.dtype.is_complex else torch.float64
    a, b = first.to(wide), other.to(wide)
    finite = torch.isfinite(a) & torch.isfinite(b)
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    if not bool((finite | same).all()):
        return "gives infinities or NaNs at other places"
    zero = torch.zeros((), dtype=wide, device=a.device)
    off = torch.where(finite, a - b, zero).abs().max().item()
    greatest = torch.where(finite, a, zero).abs().max().item()
    if off <= allowed * greatest:
        return None
    return f"is off by {off:.3g} where the greatest result is {greatest:.3g}"
