"""Rotary position embedding."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops_core.errors import SignatureError
from tileops_core.kernels import CallSpec, KernelInterface


class RoPECall(CallSpec):
    """Rotary embedding of a sequence whose positions are its indices.

    ``shape`` is ``(seq, rotary_dim)``, or ``(batch, seq, heads, rotary_dim)``: all features turn.
    Pair i turns by ``position * base ** (-2i / rotary_dim)``; it is features i and
    ``i + rotary_dim / 2`` where ``layout`` is ``"neox"``, 2i and 2i + 1 where it is
    ``"interleaved"``. ``rotary_dim`` is even and positive.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    layout: str
    rotary_dim: int
    base: float


class RoPEFwdInterface(KernelInterface):
    """``(one, two)`` becomes ``(one cos - two sin, two cos + one sin)`` for every pair.

    The sines and cosines are those of the exact angle, as near as float32 has them: the angle
    itself needs float64, because one of many radians has few fractional bits in float32. Products
    and sums are in float32 or wider, and rounded once, to ``call.dtype``.
    """

    request = RoPECall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Turn every pair.

        Args:
            x: ``call.shape``, ``call.dtype``; the position is the index on the axis before the
                last, or on axis 1 of four.

        Returns:
            ``call.shape``, ``call.dtype``.
        """


class RoPENeoxPositionIdsCall(CallSpec):
    """Rotary embedding of packed tokens, each at a position of its own.

    ``shape`` is ``(tokens, heads, width)``. Pair i is features i and ``i + rotary_dim / 2``, and
    turns by ``position * base ** (-2i / rotary_dim)``. ``rotary_dim`` is even, positive and at most
    the width.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    positions_dtype: torch.dtype
    rotary_dim: int
    max_position: int
    base: float


class RoPENeoxPositionIdsFwdInterface(KernelInterface):
    """The same mathematics and precision as :class:`RoPEFwdInterface`, position by position."""

    request = RoPENeoxPositionIdsCall

    @abstractmethod
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn the leading ``call.rotary_dim`` features and copy the others.

        Args:
            x: ``call.shape``, ``call.dtype``.
            positions: ``call.shape[:1]``, ``call.positions_dtype``, which is int32 or int64. One
                outside of ``[0, call.max_position)`` never leads to a read outside of a table. On
                the CPU it is refused as :func:`greatest_position` does; elsewhere, where looking
                at it would wait for the device, the turned features of its token are NaN.

        Returns:
            ``call.shape``, ``call.dtype``.

        Raises:
            PositionError: on the CPU, for a position out of range.
        """


class LongRoPECall(CallSpec):
    """Rotary embedding of a sequence whose pairs turn more slowly, each by a factor of its own.

    ``shape`` is ``(seq, rotary_dim)``, or ``(batch, seq, heads, rotary_dim)``. Pair i is features
    i and ``i + rotary_dim / 2``; it turns by ``position * base ** (-2i / rotary_dim) / factor_i``
    and is multiplied by ``amplitude``. ``factors`` is the dtype of the factors, None where there
    are none, so that each is 1. ``rotary_dim`` is even and positive.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    rotary_dim: int
    base: float
    amplitude: float
    factors: torch.dtype | None


class LongRoPEFwdInterface(KernelInterface):
    """The mathematics and precision of :class:`RoPEFwdInterface`, of rescaled angles.

    The amplitude is multiplied in before the only rounding.
    """

    request = LongRoPECall

    @abstractmethod
    def forward(self, x: Tensor, *, rescale_factors: Tensor | None) -> Tensor:
        """Turn every pair and scale it.

        Args:
            x: ``call.shape``, ``call.dtype``; the position is the index on the axis before the
                last, or on axis 1 of four.
            rescale_factors: ``[call.rotary_dim / 2]``, ``call.factors``, none of them 0 or NaN; or
                None. They are the op's own and hold the same at every call, so what follows from
                them may be kept.

        Returns:
            ``call.shape``, ``call.dtype``.
        """


class PositionError(SignatureError, IndexError):
    """A position without an angle; an IndexError too, as torch's own look-ups raise."""


def greatest_position(positions: Tensor, max_position: int) -> int:
    """The greatest of the positions, on the CPU, or -1 if there is none.

    Args:
        positions: any shape, int32 or int64.
        max_position: what they have to be below.

    Raises:
        PositionError: The first that is negative, or not below ``max_position``.
    """
    if not positions.numel():
        return -1
    least, greatest = (int(bound) for bound in torch.aminmax(positions))
    if least >= 0 and greatest < max_position:
        return greatest
    # As int64: max_position may be one more than int32 can hold.
    flat = positions.reshape(-1).long()
    at = int(((flat < 0) | (flat >= max_position)).nonzero()[0])
    expected, actual = f"0 <= position < max_position = {max_position}", int(flat[at])
    remedy = "count positions from 0"
    if actual >= max_position:
        remedy = "construct the op with a max_position above every position"
    raise PositionError(
        f"RoPENeoxPositionIdsFwdOp: positions holds {actual} at index {at}, the op takes "
        f"{expected}; {remedy}",
        op="RoPENeoxPositionIdsFwdOp",
        tensor="positions",
        expected=expected,
        actual=actual,
    )
