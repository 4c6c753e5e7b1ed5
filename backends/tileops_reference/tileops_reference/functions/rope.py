"""Rotary position embedding."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tileops_core.interfaces.rope import greatest_position

Tables = tuple[Tensor, Tensor]
"""Cosines and sines, ``[positions, features / 2]`` each."""


def rope(
    x: Tensor, *, rope_layout: str = "neox", input_layout: str = "1d", base: float = 10000.0
) -> Tensor:
    """Turn pair i by ``position * base ** (-2i / D)``; the position is the index (Su et al., 2021).

    Args:
        x: ``[S, D]``, or ``[B, S, H, D]``, floating; D is even.
        rope_layout: ``"neox"`` pairs feature i with ``i + D/2``, ``"interleaved"`` 2i with 2i + 1.
        input_layout: ``"1d"`` or ``"2d"``, by the number of axes.
        base: what the wavelengths grow to, about.

    Returns:
        ``x``'s shape and dtype, rounded once.
    """
    length, features = x.shape[0 if input_layout == "1d" else 1], x.shape[-1]
    positions = torch.arange(length, device="cpu")
    cos, sin = rotary_tables(positions, features, base, wide(x.dtype))
    return turned_in_order(x, (cos.to(x.device), sin.to(x.device)), rope_layout == "interleaved")


def rope_neox_position_ids(
    x: Tensor,
    positions: Tensor,
    *,
    max_position: int,
    base: float = 10000.0,
    rotary_dim: int | None = None,
) -> Tensor:
    """Turn the pairs (i, ``i + R/2``) of packed tokens, each at its own position.

    Args:
        x: ``[N, H, D]``, floating.
        positions: ``[N]``, int32 or int64.
        max_position: what positions have to be below.
        base: as in :func:`rope`.
        rotary_dim: R, even and at most D; None is D. Features past it are copied.

    Returns:
        ``x``'s shape and dtype, rounded once.

    Raises:
        PositionError: on the CPU, for a position out of range; elsewhere its token is NaN.
    """
    features = x.shape[-1] if rotary_dim is None else rotary_dim

    def rows_of(at: Tensor, bound: int) -> Tables:
        return rotary_tables(at, features, base, wide(x.dtype))

    return turned_at(x, positions, max_position, features, rows_of)


def long_rope(
    x: Tensor,
    *,
    input_layout: str = "1d",
    base: float = 10000.0,
    rescale_factors: Tensor | None = None,
    max_position: int = 4096,
    original_max_position: int = 4096,
) -> Tensor:
    """Turn pair i by ``position * base ** (-2i / D) / factor_i`` and scale (Ding et al., 2024).

    Args:
        x: ``[S, D]``, or ``[B, S, H, D]``, floating; D is even. Pairs are ``(i, i + D/2)``.
        input_layout: ``"1d"`` or ``"2d"``, by the number of axes.
        base: as in :func:`rope`.
        rescale_factors: ``[D // 2]``, floating, neither 0 nor NaN; None is 1 for each pair.
        max_position: the length that the factors are for.
        original_max_position: L, the length that the model was trained for. Above it the result is
            scaled by ``sqrt(1 + ln(max_position / L) / ln(L))``.

    Returns:
        ``x``'s shape and dtype, rounded once.
    """
    length, features = x.shape[0 if input_layout == "1d" else 1], x.shape[-1]
    amplitude = 1.0
    if max_position > original_max_position:
        longer = math.log(max_position / original_max_position)
        amplitude = math.sqrt(1 + longer / math.log(original_max_position))
    factors = None if rescale_factors is None else rescale_factors.cpu()
    positions = torch.arange(length, device="cpu")
    cos, sin = rotary_tables(positions, features, base, wide(x.dtype), factors, amplitude)
    return turned_in_order(x, (cos.to(x.device), sin.to(x.device)), False)


def wide(dtype: torch.dtype) -> torch.dtype:
    """What to compute in: float32, or float64 for itself. fp8 has no rule of promotion."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def rotary_tables(
    positions: Tensor,
    features: int,
    base: float,
    dtype: torch.dtype,
    factors: Tensor | None = None,
    amplitude: float = 1.0,
) -> Tables:
    """Cosines and sines of the angles, rounded once.

    Args:
        positions: ``[N]``, integers.
        features: how many features turn; half as many angles.
        base: as in :func:`rope`.
        dtype: of the tables; the angles are float64.
        factors: ``[features / 2]``, what each pair's angles are divided by; None for ones.
        amplitude: what cosines and sines are multiplied by.

    Returns:
        Two of ``[N, features / 2]``, on the device of ``positions``.
    """
    exponents = torch.arange(0, features, 2, dtype=torch.float64, device=positions.device)
    angles = positions.double().unsqueeze(1) * torch.pow(base, exponents / -features)
    if factors is not None:
        angles = angles / factors.to(angles.device).double()
    cos, sin = angles.cos(), angles.sin()
    if amplitude != 1:
        cos, sin = cos.mul_(amplitude), sin.mul_(amplitude)
    return cos.to(dtype), sin.to(dtype)


def turned_in_order(x: Tensor, tables: Tables, interleaved: bool) -> Tensor:
    """``[S, D]`` or ``[B, S, H, D]`` turned by the first rows of tables, in order."""
    if x.ndim == 2:
        cos, sin = (table[: x.shape[0]] for table in tables)
    else:
        cos, sin = (table[: x.shape[1]].unsqueeze(1) for table in tables)
    return turned(x, cos, sin, x.shape[-1], interleaved, x.dtype)


def turned_at(
    x: Tensor,
    positions: Tensor,
    max_position: int,
    features: int,
    rows_of: Callable[[Tensor, int], Tables],
) -> Tensor:
    """``[N, H, D]`` turned by the rows that belong to its positions.

    Args:
        x: ``[N, H, D]``.
        positions: ``[N]``, of any values.
        max_position: what they have to be below.
        features: how many features turn.
        rows_of: the tables' rows for positions that are all in ``[0, bound)``, called with the
            positions and the bound.

    Raises:
        PositionError: on the CPU, for a position out of range.
    """
    if positions.device.type == "cpu":
        cos, sin = rows_of(positions, greatest_position(positions, max_position) + 1)
    else:
        cos, sin = rows_or_nan(positions, max_position, rows_of)
    return turned(x, cos.unsqueeze(1), sin.unsqueeze(1), features, False, x.dtype)


def rows_or_nan(
    positions: Tensor, max_position: int, rows_of: Callable[[Tensor, int], Tables]
) -> Tables:
    """The rows for positions of any values, NaN for those out of range, without looking at them.

    Looking would wait for the device.
    """
    given = positions.long()  # the bound may be one more than int32 can hold
    inside = given.clamp(0, max_position - 1)
    cos, sin = rows_of(inside, max_position)
    outside = (given != inside).unsqueeze(1)
    return cos.masked_fill(outside, math.nan), sin.masked_fill(outside, math.nan)


def turned(
    x: Tensor, cos: Tensor, sin: Tensor, features: int, interleaved: bool, dtype: torch.dtype
) -> Tensor:
    """The leading features turned pair by pair, the others copied.

    Args:
        x: ``[..., D]``.
        cos: broadcast against ``[..., features / 2]``; its dtype is what is computed in.
        sin: as ``cos``.
        features: how many features turn.
        interleaved: pair neighbors rather than halves.
        dtype: the result's.

    Returns:
        ``x``'s shape, contiguous, rounded once, to ``dtype``.
    """
    turning, rest = x[..., :features].to(cos.dtype), x[..., features:]
    if interleaved:
        turning = _times_complex(turning, torch.complex(cos, sin)).to(dtype)
        return torch.cat((turning, rest.to(dtype)), -1) if rest.shape[-1] else turning
    result = torch.empty(x.shape, dtype=dtype, device=x.device)
    result[..., features:] = rest
    one, two = turning.chunk(2, -1)
    first, second = result[..., :features].chunk(2, -1)
    first.copy_((one * cos).addcmul_(two, sin, value=-1))
    second.copy_((two * cos).addcmul_(one, sin))
    return result


def _times_complex(x: Tensor, factors: Tensor) -> Tensor:
    """Neighbors, taken as complex numbers, times others: several times as fast as in strides."""
    x = x.contiguous()
    if x.storage_offset() % 2:
        x = x.clone()  # torch views pairs as complex where they are aligned as such
    numbers = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(numbers * factors).flatten(-2)
