"""How far a result may be from the exact one, in one place, each number with its reason.

A result is compared with the same mathematics in float64. Nothing here is tuned to a test: the
bound follows from the dtype, from how many terms were added, and from how large the terms were.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDING = {
    # Half the distance between neighbors, relative: what the one rounding at the end costs.
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
}

SPACING_AT_ZERO = {
    # The smallest step: below the normal range the error stops shrinking with the value.
    torch.float16: 2.0**-24,
    torch.bfloat16: 2.0**-133,
    torch.float32: 2.0**-149,
    torch.float64: 2.0**-1074,
}

FUNCTION_ROUNDINGS = 8
"""Vectorized exp, erf, tanh and rsqrt are right to a few units, and a formula has a few steps."""


def accumulation(dtype: torch.dtype) -> float:
    """The rounding of sums: 16-bit results are summed in float32, as float32's own are."""
    return ROUNDING[torch.float64 if dtype is torch.float64 else torch.float32]


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
        terms: how many terms were added for one element; rounding errors grow like its root.
        magnitude: the sum of the terms' absolute values; None where the result has no
            cancellation, so that it is its own magnitude.
        inner: the dtype that factors of the terms were rounded to on the way, if that was done.
    """
    size = expected.abs() if magnitude is None else torch.as_tensor(magnitude).abs()
    summing = (FUNCTION_ROUNDINGS + 2 * terms**0.5) * accumulation(dtype) * size
    rounding = (1 + 1e-3) * ROUNDING[dtype] * (expected.abs() + summing)
    factors = ROUNDING[inner] * size if inner is not None else 0.0
    return rounding + summing + factors + SPACING_AT_ZERO[dtype]


def check_close(
    actual: Tensor,
    expected: Tensor,
    *,
    terms: int = 1,
    magnitude: Tensor | float | None = None,
    inner: torch.dtype | None = None,
) -> None:
    """Assert that a result is within the bound; NaN and inf must stand in the same places."""
    dtype = actual.dtype
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    if not dtype.is_floating_point:
        assert torch.equal(actual, expected.to(dtype))
        return
    assert expected.dtype is torch.float64
    # What overflows the dtype is infinite in the result, and rightly so.
    special = expected.to(dtype)
    special = special.isnan() | special.isinf()
    assert torch.equal(actual[special], expected.to(dtype)[special]) or torch.equal(
        actual[special].isnan(), expected[special].isnan()
    )
    allowed = bound(expected, dtype, terms=terms, magnitude=magnitude, inner=inner)
    excess = (actual.double() - expected).abs() / allowed.expand_as(expected)
    excess = excess[~special]
    worst = excess.max().item() if excess.numel() else 0.0
    assert worst <= 1, f"{dtype}: {worst:.2f} times the allowed difference"
