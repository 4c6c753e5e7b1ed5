"""The functions of one family each, named with its prefix."""

from __future__ import annotations

import math
from typing import Any

from tileops_core.signature.kinds import DIM, INT, AdtKind, BoolKind, Kind, is_int
from tileops_core.signature.primitives.model import Argument, Primitive, PrimitiveError


def _int(name: str) -> Argument:
    return Argument(name, is_int, "an int")


def is_layout(kind: Kind) -> bool:
    """Whether values of this kind say how the rows of several experts lie in one buffer."""
    return isinstance(kind, AdtKind) and kind.name == "MGroupedLayout"


LAYOUT = Argument("layout", is_layout, "an MGroupedLayout")


def _windows(function: str, span: Any, stride: Any) -> Any:
    """How many windows start in ``span`` elements, a stride apart, the first at 0."""
    if stride <= 0:
        raise PrimitiveError(f"{function}: the stride is {stride}, it must be greater than 0")
    return span // stride + 1


def _conv_out(length: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """Length of a convolution's result along one axis, as torch computes it.

    The result is not positive where the kernel is longer than the padded input. The stride is
    greater than 0.

    >>> conv.out(224, 7, 2, 3, 1)
    112
    >>> conv.out(224, 7, 0, 3, 1)
    refused: conv.out: the stride is 0, it must be greater than 0
    """
    return _windows("conv.out", length + 2 * padding - dilation * (kernel - 1) - 1, stride)


def _pool_out(
    length: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    """Length of a pooling's result along one axis, as torch computes it.

    With ``ceil_mode`` a last window may reach past the end, but it has to start inside the input
    or its left padding. The stride is greater than 0.

    >>> pool.out(5, 2, 2, 0, 1, False)
    2
    >>> pool.out(5, 2, 2, 0, 1, True)
    3
    """
    span = length + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return _windows("pool.out", span, stride)
    count = _windows("pool.out", span + stride - 1, stride)
    return count - 1 if (count - 1) * stride >= length + padding else count


def _moe_capacity(layout: Any, rows: Any, experts: Any) -> Any:
    """Rows of a buffer that holds ``rows`` routed rows by expert, whatever their distribution.

    ``masked``: ``max_m`` for each expert. ``contiguous`` and tight: no row more than there are.
    Aligned, each expert begins at a multiple of ``alignment``; most rows are lost where every
    expert that has any has one more than a multiple. The result is a multiple of ``alignment``.

    >>> moe.capacity(masked, 10, 4)
    32
    >>> moe.capacity(aligned, 10, 4)
    20
    """
    if layout.kind == "masked":
        return experts * layout.max_m
    alignment = layout.alignment
    if alignment == 1:
        return rows
    used = rows if rows < experts else experts
    return (rows + used * (alignment - 1)) // alignment * alignment


def _mhc_expansion(width: Any) -> Any:
    """The n with ``n**2 + 2 n == width``: pre (n), post (n) and residual (n by n) mappings.

    >>> mhc.expansion(24)
    4
    >>> mhc.expansion(10)
    refused: mhc.expansion: 10 is not n**2 + 2 n of an n greater than 0, as 3, 8 and 15 are
    """
    n = math.isqrt(width + 1) - 1
    if n < 1 or n * (n + 2) != width:
        raise PrimitiveError(
            f"mhc.expansion: {width} is not n**2 + 2 n of an n greater than 0, as 3, 8 and 15 are"
        )
    return n


_WINDOW = (_int("length"), _int("kernel"), _int("stride"), _int("padding"), _int("dilation"))

FAMILY = (
    Primitive("conv.out", _WINDOW, lambda _: INT, _conv_out),
    Primitive(
        "pool.out",
        (*_WINDOW, Argument("ceil_mode", lambda k: isinstance(k, BoolKind), "a bool")),
        lambda _: INT,
        _pool_out,
    ),
    Primitive(
        "moe.capacity", (LAYOUT, _int("rows"), _int("experts")), lambda _: DIM, _moe_capacity
    ),
    Primitive("mhc.expansion", (_int("width"),), lambda _: DIM, _mhc_expansion),
)
