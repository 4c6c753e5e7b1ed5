"""How far a result may be from the exact one, in one place, each number with its reason.

A result is compared with the same mathematics in float64. Nothing here is tuned to a test: the
bound follows from the dtype, from how many terms were added, and from how large the terms were.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import torch
from torch import Tensor


@attrs.frozen
class Precision:
    """What a floating dtype costs.

    Attributes:
        rounding: half the distance between neighbors, relative: what one rounding costs.
        step: the smallest difference that counts near zero.
        sums: the rounding of the sums that end in this dtype.
        why: the reasons of ``step`` and ``sums``.
    """

    rounding: float
    step: float
    sums: float
    why: str


_IN_FLOAT32 = "results of 16 bits and fewer are summed in float32, and rounded once at the end"
_FLUSHED = "below the normal range some processors give 0"

TABLE: Mapping[torch.dtype, Precision] = {
    torch.float8_e5m2: Precision(2.0**-3, 2.0**-16, 2.0**-24, _IN_FLOAT32),
    torch.float8_e4m3fn: Precision(2.0**-4, 2.0**-9, 2.0**-24, _IN_FLOAT32),
    torch.float16: Precision(
        2.0**-11, 2.0**-24, 2.0**-24, f"{_IN_FLOAT32}; its subnormal numbers are ordinary in models"
    ),
    torch.bfloat16: Precision(2.0**-8, 2.0**-126, 2.0**-24, f"{_IN_FLOAT32}; {_FLUSHED}"),
    torch.float32: Precision(2.0**-24, 2.0**-126, 2.0**-24, f"sums are in float32; {_FLUSHED}"),
    torch.float64: Precision(2.0**-53, 2.0**-1022, 2.0**-53, f"sums are in float64; {_FLUSHED}"),
}
"""By the result's dtype."""

FUNCTION_ROUNDINGS = 8
"""Vectorized exp, erf, tanh and rsqrt are right to a few units, and a formula has a few steps."""

UNLUCKY = 4
"""Roundings are as good as independent, so many of them are a normal number; one result in many
thousands is four deviations away."""

PER_ROOT_OF_TERMS = UNLUCKY
"""The rounding errors of a sum grow like the root of its length."""

TIE = 1e-3
"""Part of a rounding by which a result near the middle of two neighbors may pass it."""


def accumulation(dtype: torch.dtype) -> float:
    """The rounding of the sums that end in a dtype."""
    return TABLE[dtype].sums


def growth(terms: int) -> float:
    """How many roundings of its magnitude a sum of so many terms may be off."""
    return float(FUNCTION_ROUNDINGS + PER_ROOT_OF_TERMS * terms**0.5)


def bound(
    expected: Tensor,
    dtype: torch.dtype,
    *,
    terms: int = 1,
    magnitude: Tensor | float | None = None,
    inner: torch.dtype | None = None,
) -> Tensor:
    """The allowed difference, element by element.

    Args:
        expected: the exact result, float64.
        dtype: the result's dtype.
        terms: how many terms were added for one element.
        magnitude: the sum of the terms' absolute values; None where the result has no
            cancellation, so that it is its own magnitude.
        inner: the dtype that factors of the terms were rounded to on the way, if that was done.
    """
    row = TABLE[dtype]
    size = expected.abs() if magnitude is None else torch.as_tensor(magnitude).abs()
    summing = growth(terms) * row.sums * size
    rounding = (1 + TIE) * row.rounding * (expected.abs() + summing)
    factors = TABLE[inner].rounding * size if inner is not None else 0.0
    return rounding + summing + factors + row.step
