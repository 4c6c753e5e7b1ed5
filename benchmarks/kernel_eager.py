"""What somebody who has only torch writes for the same computation, in the tensors' own dtype.

A function here gets a case's parameters and input shapes, prepares what a model prepares once
(tables of cosines and sines), and returns what is called with the op's tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Shapes = Mapping[str, tuple[int, ...]]
Eager = Callable[..., Any]


def rms_norm(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    shape, eps = tuple(params["normalized_shape"]), params["eps"]
    return lambda x, weight: functional.rms_norm(x, shape, weight, eps)


def layer_norm(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    shape, eps = tuple(params["normalized_shape"]), params["eps"]
    return lambda x, weight, bias: functional.layer_norm(x, shape, weight, bias, eps)


def fused_add_rms_norm(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    shape, eps = shapes["weight"], params["eps"]

    def add_and_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        total = x + residual
        return functional.rms_norm(total, shape, weight, eps), total

    return add_and_norm


def fused_add_layer_norm(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    shape, eps = shapes["weight"], params["eps"]

    def add_and_norm(
        x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        total = x + residual
        return functional.layer_norm(total, shape, weight, bias, eps), total

    return add_and_norm


def silu_and_mul(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    def gated(x: Tensor) -> Tensor:
        gate, value = x.chunk(2, -1)
        return functional.silu(gate) * value

    return gated


def gelu_and_mul(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    approximate = params["approximate"]

    def gated(x: Tensor) -> Tensor:
        gate, value = x.chunk(2, -1)
        return functional.gelu(gate, approximate=approximate) * value

    return gated


def angles(positions: int, features: int, base: float) -> Tensor:
    """The angle of each position and pair, `[positions, features / 2]`."""
    frequencies = base ** (torch.arange(0, features, 2, dtype=torch.float64) / -features)
    return torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)


def rotate_half(x: Tensor) -> Tensor:
    """As transformers writes it for Llama."""
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rotate_every_two(x: Tensor) -> Tensor:
    """As transformers writes it for GPT-J."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def rope(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    shape = shapes["x"]
    found = angles(shape[0] if len(shape) == 2 else shape[1], shape[-1], params["base"])
    if params["rope_layout"] == "interleaved":
        found, rotate = found.repeat_interleave(2, -1), rotate_every_two
    else:
        found, rotate = torch.cat((found, found), -1), rotate_half
    if len(shape) == 4:
        found = found.unsqueeze(1)
    cos, sin = found.cos().to(dtype), found.sin().to(dtype)
    return lambda x: (x * cos) + (rotate(x) * sin)


def rope_position_ids(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    features = shapes["x"][-1] if params["rotary_dim"] is None else params["rotary_dim"]
    found = angles(params["max_position"], features, params["base"])
    found = torch.cat((found, found), -1).unsqueeze(1)
    all_cos, all_sin = found.cos().to(dtype), found.sin().to(dtype)

    def turn(x: Tensor, positions: Tensor) -> Tensor:
        cos, sin = all_cos[positions], all_sin[positions]
        if features == x.shape[-1]:
            return (x * cos) + (rotate_half(x) * sin)
        turning, rest = x[..., :features], x[..., features:]
        return torch.cat(((turning * cos) + (rotate_half(turning) * sin), rest), -1)

    return turn


def argmax(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    dim, keepdim = params["dim"], params["keepdim"]
    return lambda x: x.argmax(dim, keepdim)


def softmax(params: Mapping[str, Any], shapes: Shapes, dtype: torch.dtype) -> Eager:
    dim = params["dim"]
    if dim is None:
        dim = 0 if len(shapes["x"]) in (0, 1, 3) else 1
    out = params["dtype"] and getattr(torch, params["dtype"])
    return lambda x: functional.softmax(x, dim, dtype=out)
