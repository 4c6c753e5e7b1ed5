"""The ops that TileLang serves on the CPU, in every form that has a program of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor

from tileops_core import Op, ops

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

WIDTHS = (1, 31, 33, 511, 513, 4095, 4097)
"""Around the lanes of a reduction, the blocks that are converted at once, and several of them."""


@attrs.frozen
class Exact:
    """What a result is compared with, and what the tolerances ask about it."""

    value: Tensor
    magnitude: Tensor | None = None
    terms: int = 1


@attrs.frozen
class Case:
    """An op in one form.

    Attributes:
        name: for the test's name.
        op: makes it, for rows of so many elements, with the keywords of ``Op``.
        inputs: makes its inputs: rows, elements of a row, dtype.
        exact: its results in float64, from the inputs in float64.
    """

    name: str
    op: Callable[..., Op]
    inputs: Callable[[int, int, torch.dtype], list[Any]]
    exact: Callable[..., Sequence[Exact]]

    def run(self, width: int, *inputs: Any) -> tuple[Tensor, ...]:
        """The results of a new instance under ``target="tilelang"``."""
        result = self.op(width, target="tilelang")(*inputs)
        return result if isinstance(result, tuple) else (result,)

    def expected(self, *inputs: Any) -> Sequence[Exact]:
        """The exact results of inputs of any dtype."""
        return self.exact(*(wide(x) for x in inputs))


def wide(x: Any) -> Any:
    """A float tensor in float64, anything else as it is."""
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x


def _matrix_and_rows(rows: int) -> Callable[[int, int, torch.dtype], list[Any]]:
    def make(count: int, width: int, dtype: torch.dtype) -> list[Any]:
        return [
            torch.randn(count, width).to(dtype),
            *(torch.randn(width).to(dtype) for _ in range(rows)),
        ]

    return make


def _two_matrices_and_rows(rows: int) -> Callable[[int, int, torch.dtype], list[Any]]:
    def make(count: int, width: int, dtype: torch.dtype) -> list[Any]:
        return [torch.randn(count, width).to(dtype), *_matrix_and_rows(rows)(count, width, dtype)]

    return make


EPS = 1e-3


def _rms(x: Tensor, size: Tensor, w: Tensor) -> Exact:
    scale = (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt()
    return Exact(x * scale * w, size * scale * w.abs(), x.shape[-1])


def _layer(x: Tensor, size: Tensor, w: Tensor, b: Tensor) -> Exact:
    centered = x - x.mean(-1, keepdim=True)
    deviation = (centered.pow(2).mean(-1, keepdim=True) + EPS).sqrt()
    magnitude = size.amax(-1, keepdim=True) / deviation * w.abs() + b.abs()
    return Exact(centered / deviation * w + b, magnitude, x.shape[-1])


def rms_norm(x: Tensor, weight: Tensor | None = None) -> list[Exact]:
    w = torch.ones(x.shape[-1]).double() if weight is None else weight
    return [_rms(x, x.abs(), w)]


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> list[Exact]:
    w = torch.ones(x.shape[-1]).double() if weight is None else weight
    b = torch.zeros(x.shape[-1]).double() if bias is None else bias
    return [_layer(x, x.abs(), w, b)]


def fused_add_rms_norm(x: Tensor, residual: Tensor, w: Tensor) -> list[Exact]:
    total, size = x + residual, x.abs() + residual.abs()
    return [_rms(total, size, w), Exact(total, size)]


def fused_add_layer_norm(x: Tensor, residual: Tensor, w: Tensor, b: Tensor) -> list[Exact]:
    total, size = x + residual, x.abs() + residual.abs()
    return [_layer(total, size, w, b), Exact(total, size)]


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": lambda x: x * torch.sigmoid(x),
    "gelu": lambda x: x * 0.5 * torch.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
}


def _gated(name: str) -> Callable[[Tensor], list[Exact]]:
    def exact(x: Tensor) -> list[Exact]:
        gate, value = x.chunk(2, -1)
        return [Exact(ACTIVATIONS[name](gate) * value, gate.abs() * value.abs())]

    return exact


def _gate_and_value(count: int, width: int, dtype: torch.dtype) -> list[Any]:
    return [(3 * torch.randn(count, 2 * width)).to(dtype)]


def softmax(x: Tensor, dim: int = -1) -> list[Exact]:
    value = (x - x.amax(dim, keepdim=True)).exp()
    value = value / value.sum(dim, keepdim=True)
    # A rounding of x - max is an error of that size of the exponential, relative.
    greatest = x.abs().amax() if x.numel() else 0.0
    return [Exact(value, (1 + 2 * greatest) * value, x.shape[dim])]


def argmax(x: Tensor) -> list[Exact]:
    return [Exact(x.argmax(-1))]


def turned(x: Tensor, positions: Tensor, layout: str = "neox", base: float = 10000.0) -> Exact:
    """The last axis turned; positions broadcast against the axes before it."""
    half = x.shape[-1] // 2
    exponents = torch.arange(half, dtype=torch.float64) / -half
    angle = positions.double().unsqueeze(-1) * torch.pow(base, exponents)
    one, two = x.unflatten(-1, (-1, 2)).unbind(-1) if layout == "interleaved" else x.chunk(2, -1)
    first, second = one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()
    sizes = (
        (one * angle.cos()).abs() + (two * angle.sin()).abs(),
        (two * angle.cos()).abs() + (one * angle.sin()).abs(),
    )
    if layout == "interleaved":
        return Exact(
            torch.stack((first, second), -1).flatten(-2), torch.stack(sizes, -1).flatten(-2)
        )
    return Exact(torch.cat((first, second), -1), torch.cat(sizes, -1))


def _rope(layout: str) -> Callable[[Tensor], list[Exact]]:
    return lambda x: [turned(x, torch.arange(x.shape[0]), layout)]


def _by_position(x: Tensor, positions: Tensor) -> list[Exact]:
    return [turned(x, positions.unsqueeze(1))]


def _tokens_at(index: torch.dtype) -> Callable[[int, int, torch.dtype], list[Any]]:
    def make(count: int, width: int, dtype: torch.dtype) -> list[Any]:
        return [
            torch.randn(count, 2, 2 * width).to(dtype),
            torch.randint(0, MAX_POSITION, (count,)).to(index),
        ]

    return make


MAX_POSITION = 5000


def _even_rows(count: int, width: int, dtype: torch.dtype) -> list[Any]:
    return [torch.randn(count, 2 * width).to(dtype)]


def _logits(count: int, width: int, dtype: torch.dtype) -> list[Any]:
    return [(4 * torch.randn(count, width)).to(dtype)]


def _ties(count: int, width: int, dtype: torch.dtype) -> list[Any]:
    return [torch.randint(-4, 5, (count, width)).to(dtype)]


CASES = (
    Case("rms_norm", lambda n, **kw: ops.RMSNormFwdOp(n, EPS, **kw), _matrix_and_rows(0), rms_norm),
    Case(
        "rms_norm-weight",
        lambda n, **kw: ops.RMSNormFwdOp(n, EPS, **kw),
        _matrix_and_rows(1),
        rms_norm,
    ),
    Case(
        "layer_norm",
        lambda n, **kw: ops.LayerNormFwdOp(n, EPS, **kw),
        _matrix_and_rows(0),
        layer_norm,
    ),
    Case(
        "layer_norm-weight",
        lambda n, **kw: ops.LayerNormFwdOp(n, EPS, **kw),
        _matrix_and_rows(1),
        layer_norm,
    ),
    Case(
        "layer_norm-bias",
        lambda n, **kw: ops.LayerNormFwdOp(n, EPS, **kw),
        lambda *facts: [*_matrix_and_rows(0)(*facts), None, _matrix_and_rows(1)(*facts)[1]],
        layer_norm,
    ),
    Case(
        "layer_norm-weight-bias",
        lambda n, **kw: ops.LayerNormFwdOp(n, EPS, **kw),
        _matrix_and_rows(2),
        layer_norm,
    ),
    Case(
        "fused_add_rms_norm",
        lambda n, **kw: ops.FusedAddRMSNormFwdOp(EPS, **kw),
        _two_matrices_and_rows(1),
        fused_add_rms_norm,
    ),
    Case(
        "fused_add_layer_norm",
        lambda n, **kw: ops.FusedAddLayerNormFwdOp(EPS, **kw),
        _two_matrices_and_rows(2),
        fused_add_layer_norm,
    ),
    Case(
        "silu_and_mul", lambda n, **kw: ops.SiLUAndMulFwdOp(**kw), _gate_and_value, _gated("silu")
    ),
    Case(
        "gelu_and_mul", lambda n, **kw: ops.GELUAndMulFwdOp(**kw), _gate_and_value, _gated("gelu")
    ),
    Case(
        "gelu_and_mul-tanh",
        lambda n, **kw: ops.GELUAndMulFwdOp(approximate="tanh", **kw),
        _gate_and_value,
        _gated("gelu_tanh"),
    ),
    Case("softmax", lambda n, **kw: ops.SoftmaxFwdOp(-1, **kw), _logits, softmax),
    Case("argmax", lambda n, **kw: ops.ArgmaxFwdOp(-1, **kw), _ties, argmax),
    Case("rope-neox", lambda n, **kw: ops.RoPEFwdOp("neox", **kw), _even_rows, _rope("neox")),
    Case(
        "rope-interleaved",
        lambda n, **kw: ops.RoPEFwdOp("interleaved", **kw),
        _even_rows,
        _rope("interleaved"),
    ),
    Case(
        "rope-int32",
        lambda n, **kw: ops.RoPENeoxPositionIdsFwdOp(MAX_POSITION, **kw),
        _tokens_at(torch.int32),
        _by_position,
    ),
    Case(
        "rope-int64",
        lambda n, **kw: ops.RoPENeoxPositionIdsFwdOp(MAX_POSITION, **kw),
        _tokens_at(torch.int64),
        _by_position,
    ),
)
