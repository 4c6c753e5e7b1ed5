"""What an op's inputs hold, where numbers drawn from a normal distribution are outside its domain.

A fill belongs to an input of an op. The table says why each is there; an input that it does not
name holds normal numbers, ints from -9 to 9 (0 to 9 without a sign), or coin flips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

import attrs
import torch
from torch import Tensor

Draw: TypeAlias = "Callable[[tuple[int, ...], torch.Generator], Tensor]"
"""Shape and generator -> values in float64 (ints in int64), to be cast."""


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Normal numbers."""
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")


def positive(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Numbers from 0.5 to 1.5."""
    return torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") + 0.5


def unit(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Numbers inside of 0 and 1, at neither end."""
    return torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") * 0.9 + 0.05


def decays(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Numbers from -1 to 0."""
    return -torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")


def running_decays(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Sums of decays along the last axis: from 0 down."""
    return decays(shape, generator).cumsum(-1) if shape else decays(shape, generator)


def probabilities(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Rows that sum to 1."""
    return torch.softmax(normal(shape, generator), -1) if shape else normal(shape, generator).abs()


def unit_rows(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Rows of length 1."""
    rows = normal(shape, generator)
    return torch.nn.functional.normalize(rows, dim=-1) if shape else rows


def nonzero(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Numbers from 1 to 3 of either sign."""
    sign = torch.randint(0, 2, shape, generator=generator, device="cpu") * 2 - 1
    return (positive(shape, generator) * 2).clamp(1, 3) * sign


def codes(low: int, high: int) -> Draw:
    """Ints from ``low`` to ``high``."""

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=generator, device="cpu")

    return draw


@attrs.frozen
class Fill:
    """What some inputs hold.

    Attributes:
        ops: a pattern of ops' names.
        inputs: names of their inputs.
        draw: makes the values.
        why: the reason.
    """

    ops: str
    inputs: tuple[str, ...]
    draw: Draw
    why: str


_SCALE = "a scale is positive"
_CODE = "every code of the type"

FILLS: tuple[Fill, ...] = (
    Fill(
        "*", ("q_scale", "k_scale", "v_scale", "kv_scale", "a_scale", "b_scale"), positive, _SCALE
    ),
    Fill("*", ("activation_scale", "index_k_scale", "weight_scale"), positive, _SCALE),
    Fill("*", ("weight_channel_scale", "weight_group_scale", "smooth"), positive, _SCALE),
    Fill("INT8Dequant*", ("scale",), positive, _SCALE),
    Fill("INT8Dequant*", ("q",), codes(-127, 127), _CODE),
    Fill("GEMMINT8*", ("a", "b"), codes(-127, 127), _CODE),
    Fill("GEMMW4*", ("packed_weight",), codes(0, 255), "two codes of four bits in each byte"),
    Fill("GEMMW4A16FwdOp", ("weight_zero",), codes(0, 15), "a code of four bits"),
    Fill("*NormFwdOp", ("running_var",), positive, "a variance is positive"),
    Fill("BatchNormBwdOp", ("save_invstd",), positive, "an inverse deviation is positive"),
    Fill(
        "EngramGateConv*", ("rrms_h", "rrms_k", "rrms_v"), positive, "an inverse root is positive"
    ),
    Fill("EngramGateConv*", ("alpha",), unit, "a gate is a sigmoid's value"),
    Fill("GLA*", ("g",), decays, "a log-decay is at most 0, else the state grows without bound"),
    Fill("GDNFwdOp", ("g",), decays, "as above"),
    Fill("KDAFwdOp", ("g",), decays, "as above"),
    Fill("Mamba2FwdOp", ("A",), decays, "a rate of decay is at most 0, else the state grows"),
    Fill("SSD*", ("A",), decays, "as above"),
    Fill("SelectiveScanFwdOp", ("A",), decays, "as above"),
    Fill("SSD*", ("dA_cumsum", "dA_chunk_cumsum"), running_decays, "sums of what is at most 0"),
    Fill("Mamba2FwdOp", ("dt",), unit, "a step of time is positive"),
    Fill("SSD*", ("dt",), unit, "as above"),
    Fill("SelectiveScanFwdOp", ("delta",), unit, "as above"),
    Fill("DeltaNet*", ("beta",), unit, "a rate from 0 to 1, else the rule diverges"),
    Fill("GDNFwdOp", ("beta",), unit, "as above"),
    Fill("KDAFwdOp", ("beta",), unit, "as above"),
    Fill("DeltaNet*", ("k",), unit_rows, "the delta rule is stable for keys of length 1"),
    Fill("GDNFwdOp", ("k",), unit_rows, "as above"),
    Fill("KDAFwdOp", ("k",), unit_rows, "as above"),
    Fill("*Sampling*", ("probs", "draft_probs", "target_probs"), probabilities, "rows sum to 1"),
    Fill("*", ("top_p", "min_p"), unit, "a share of 1"),
    Fill("*", ("topk_weights",), positive, "a route's weight is positive"),
    Fill("*Sampling*", ("seed", "offset"), codes(0, 2**31), "a place in a stream of draws"),
    Fill("LongRoPEFwdOp", ("rescale_factors",), nonzero, "nothing divides by 0"),
    Fill("LogFwdOp", ("input",), positive, "logarithms are of positive numbers"),
    Fill("Log1pFwdOp", ("input",), unit, "above -1"),
    Fill("SqrtFwdOp", ("input",), positive, "roots are of positive numbers"),
    Fill("RsqrtFwdOp", ("input",), positive, "as above"),
    Fill("ReciprocalFwdOp", ("input",), nonzero, "nothing divides by 0"),
    Fill("DivFwdOp", ("other",), nonzero, "as above"),
    Fill("FloorDivideFwdOp", ("other",), nonzero, "as above, and ints raise"),
    Fill("RemainderFwdOp", ("other",), nonzero, "as above"),
    Fill("PowFwdOp", ("input",), positive, "powers of negative numbers are NaN mostly"),
    Fill("ProdFwdOp", ("input",), positive, "so that long products stay in range"),
    Fill("CumprodFwdOp", ("input",), positive, "as above"),
)
"""The first that fits counts."""


def fill_of(op: str, name: str) -> Draw | None:
    """How to draw an input's values; None where nothing is special about them."""
    for fill in FILLS:
        if name in fill.inputs and fnmatchcase(op, fill.ops):
            return fill.draw
    return None


def draw(
    op: str, name: str, dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator
) -> Tensor:
    """An input's values, on the CPU.

    Args:
        op: the op.
        name: the input.
        dtype: its dtype.
        shape: its shape.
        generator: where chance comes from.
    """
    special = fill_of(op, name)
    if special is not None:
        return special(shape, generator).to(dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator, device="cpu").bool()
    if dtype.is_complex:
        pair = (normal(shape, generator), normal(shape, generator))
        return torch.complex(*pair).to(dtype)
    if not dtype.is_floating_point:
        low = 0 if dtype is torch.uint8 else -9
        return torch.randint(low, 10, shape, generator=generator, device="cpu").to(dtype)
    return normal(shape, generator).to(dtype)


RANGE: Mapping[torch.dtype, float] = {
    torch.float16: 2e4,  # times two of a normal number it is near the end, and rarely beyond
    torch.float8_e4m3fn: 1e2,
    torch.float8_e5m2: 1e4,
}
LARGE = 1e4
"""What ordinary values are multiplied by to be large; ``RANGE`` is for dtypes that end soon."""


def large(values: Tensor) -> Tensor:
    """Ordinary values of a floating type, made large, none of them infinite."""
    end = torch.finfo(values.dtype).max
    return (values.double() * RANGE.get(values.dtype, LARGE)).clamp(-end, end).to(values.dtype)
