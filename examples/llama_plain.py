"""The same block of Llama in PyTorch's own functions: what :mod:`llama` is judged by.

No op, no cache, no fused or concatenated step: the way that a paper would write it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import linear, silu, softmax

if TYPE_CHECKING:
    from llama import Config, Weights


def block(x: Tensor, weights: Weights, config: Config) -> tuple[Tensor, Tensor]:
    """Run a sequence from its first token on.

    Args:
        x: [tokens, hidden], of the weights' dtype.
        weights: The block's tensors.
        config: Its dimensions.

    Returns:
        What the block leaves, normalized, and itself: [tokens, hidden] each.
    """
    dim, eps = config.head_dim, config.rms_norm_eps
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    normalized = rms_norm(x, weights.norm, eps)
    w_q, w_k, w_v = weights.qkv.split([heads * dim, kv_heads * dim, kv_heads * dim])
    q = rotated(linear(normalized, w_q).unflatten(1, (heads, dim)), config.rope_theta)
    k = rotated(linear(normalized, w_k).unflatten(1, (kv_heads, dim)), config.rope_theta)
    v = linear(normalized, w_v).unflatten(1, (kv_heads, dim))
    x = x + linear(attention(q, k, v).flatten(1), weights.out)

    normalized = rms_norm(x, weights.mlp_norm, eps)
    w_gate, w_up = weights.gate_up.chunk(2)
    x = x + linear(silu(linear(normalized, w_gate)) * linear(normalized, w_up), weights.down)
    return rms_norm(x, weights.next_norm, eps), x


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row over the root of its mean square (Zhang and Sennrich, 2019)."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def rotated(x: Tensor, base: float) -> Tensor:
    """[tokens, heads, dim], each pair (i, i + dim/2) turned by its token's angle (Su et al., 2021).

    The pair i of the token p turns by p · base^(-2i/dim).
    """
    tokens, _, dim = x.shape
    wavelengths = base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = (torch.arange(tokens).unsqueeze(1) / wavelengths).unsqueeze(1)  # [tokens, 1, dim/2]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, two = x.chunk(2, -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each token sees itself and those before it; [tokens, heads, dim], fewer heads of k and v."""
    tokens, heads, dim = q.shape
    k, v = (t.repeat_interleave(heads // t.shape[1], 1) for t in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * dim**-0.5
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    shares = softmax(scores.masked_fill(later, -torch.inf), -1)
    return torch.einsum("hij,jhd->ihd", shares, v)
