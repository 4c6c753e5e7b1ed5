"""Attention on dense tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tileops_reference.functions.rope import turned, wide

_ROWS_ON_CPU = 128
"""Queries at a time under a mask: few enough that a causal block skips most of what it masks."""

_ROWS_ELSEWHERE = 1024
"""The same where a launch costs more than the work it saves."""

_CAUSAL_KERNELS = frozenset({"cuda"})
"""Where torch's own causal attention, which needs no mask, is faster than blocks with one."""

_SCORES = 1 << 24
"""Logits held at once where they are held at all (64 MiB in float32)."""


def gqa_dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_scale: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    sinks: Tensor | None = None,
    *,
    is_causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    sm_scale: float | None = None,
    softcap: float | None = None,
    pos_encoding_mode: str = "none",
    rotary_dim: int | None = None,
    rope_layout: str = "neox",
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Grouped-query attention, ``o[b,i,h] = sum_j w_ij v[b,j,r]`` with ``r = h // (H / H_kv)``.

    ``w_ij = exp(L_ij) / (exp(sinks[h]) + sum_j exp(L_ij))``, where ``L_ij`` is
    ``softcap * tanh(s_ij / softcap)`` of ``s_ij = sm_scale <q[b,i,h], k[b,j,r]>`` for visible keys
    and -inf for others. Query i stands at key position ``p = i + S_kv - S_q``; it sees keys up to
    p when causal, and from ``p - window_size_left`` to ``p + window_size_right`` (-1: no limit).
    A query that sees no key gives 0.

    Args:
        q: ``[B, S_q, H, D]``, floating; fp8 with the scales below.
        k: ``[B, S_kv, H_kv, D]``, of ``q``'s dtype; ``H_kv`` divides ``H``.
        v: as ``k``.
        q_scale: ``[B, H_kv]`` float32: what the stored ``q`` is multiplied by, per batch and
            key-value head.
        k_scale: the same for ``k``.
        v_scale: the same for ``v``.
        rope_cos: ``[>= S_kv, R / 2]``: the rotary table, read at p for ``q`` and at j for ``k``.
        rope_sin: as ``rope_cos``.
        sinks: ``[H]`` float32: a logit per query head that is neither scaled nor capped and adds
            to the denominator only.
        is_causal: hide keys after p.
        window_size_left: keys before p that are visible; -1 is all.
        window_size_right: keys after p that are visible; -1 is all.
        sm_scale: None is ``D ** -0.5``.
        softcap: None and 0 are off.
        pos_encoding_mode: ``"rope"`` rotates the first R features of ``q`` and ``k``.
        rotary_dim: R; None is D.
        rope_layout: ``"neox"`` pairs feature i with ``i + R/2``, ``"interleaved"`` 2i with 2i + 1.
        out_dtype: the result's dtype; None is ``q``'s.

    Returns:
        ``[B, S_q, H, D]``, contiguous.
    """
    out = q.new_empty(q.shape, dtype=out_dtype or q.dtype)
    if not out.numel():
        return out
    seq_q, heads, dim = q.shape[1:]
    seq_kv, heads_kv = k.shape[1:3]
    group = heads // heads_kv
    if q_scale is not None and k_scale is not None and v_scale is not None:
        q = _dequantized(q, q_scale.repeat_interleave(group, 1))
        k, v = _dequantized(k, k_scale), _dequantized(v, v_scale)
    if pos_encoding_mode == "rope" and rope_cos is not None and rope_sin is not None:
        features = dim if rotary_dim is None else rotary_dim
        interleaved = rope_layout == "interleaved"
        q = rotated(q, rope_cos, rope_sin, seq_kv - seq_q, features, interleaved)
        k = rotated(k, rope_cos, rope_sin, 0, features, interleaved)
    explicit = bool(softcap) or sinks is not None
    narrow_is_slow = q.dtype is torch.float16 and q.device.type == "cpu"
    if explicit or narrow_is_slow or q.dtype is not v.dtype:
        dtype = wide(q.dtype)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)

    scale = dim**-0.5 if sm_scale is None else sm_scale
    right = 0 if is_causal else window_size_right
    keys, values = k.transpose(1, 2), v.transpose(1, 2)
    causal = right == 0 and window_size_left < 0 and seq_q == seq_kv
    if causal and not explicit and q.device.type in _CAUSAL_KERNELS:
        # With as many queries as keys it does not matter at which end torch aligns them.
        attended = functional.scaled_dot_product_attention(
            q.transpose(1, 2), keys, values, is_causal=True, scale=scale, enable_gqa=group > 1
        )
        return out.copy_(attended.transpose(1, 2))
    # Query heads of one key-value head become rows of one matrix: k and v are never expanded.
    grouped = q.unflatten(2, (heads_kv, group)).permute(0, 2, 3, 1, 4)
    result = out.unflatten(2, (heads_kv, group)).permute(0, 2, 3, 1, 4)
    offset = seq_kv - seq_q
    first = _first_that_sees(seq_q, seq_kv, right)
    result[:, :, :, :first] = 0
    rows = _rows_per_block(q, seq_kv, masked=window_size_left >= 0 or right >= 0, explicit=explicit)
    for start in range(first, seq_q, rows):
        stop = min(start + rows, seq_q)
        low = max(0, start + offset - window_size_left) if window_size_left >= 0 else 0
        high = min(seq_kv, stop + offset + right) if right >= 0 else seq_kv
        mask = _visible(q, start + offset, stop + offset, low, high, window_size_left, right)
        block = grouped[:, :, :, start:stop].flatten(2, 3)
        if mask is not None and group > 1:
            mask = mask.repeat(group, 1)
        k_seen, v_seen = keys[:, :, low:high], values[:, :, low:high]
        if explicit:
            per_row = None
            if sinks is not None:
                per_row = sinks.reshape(heads_kv, group).repeat_interleave(stop - start, 1)
            attended = _attend(block, k_seen, v_seen, mask, scale, softcap or 0.0, per_row)
        else:
            attended = functional.scaled_dot_product_attention(
                block, k_seen, v_seen, attn_mask=mask, scale=scale
            )
        result[:, :, :, start:stop] = attended.unflatten(2, (group, stop - start))
    return out


def rotated(
    x: Tensor, cos: Tensor, sin: Tensor, first: int, features: int, interleaved: bool
) -> Tensor:
    """Rotary position embedding of the leading ``features`` (Su et al., 2021), not rounded.

    Args:
        x: ``[B, S, H, D]``.
        cos: ``[positions, features / 2]``.
        sin: as ``cos``.
        first: the position of ``x``'s first token.
        features: how many features turn; the others pass through.
        interleaved: pair neighbors rather than halves.

    Returns:
        ``[B, S, H, D]`` in float32, or in ``x``'s dtype if that is wider.
    """
    dtype = wide(x.dtype)
    cos, sin = (t[first : first + x.shape[1]].to(dtype).unsqueeze(1) for t in (cos, sin))
    return turned(x, cos, sin, features, interleaved, dtype)


def _dequantized(x: Tensor, scale: Tensor) -> Tensor:
    """``[B, S, heads, D]`` times ``[B, heads]``, in float32 or wider."""
    return x.to(wide(x.dtype)) * scale[:, None, :, None]


def _first_that_sees(seq_q: int, seq_kv: int, right: int) -> int:
    """The first query that sees a key: those before it stand too far left of all keys."""
    if not seq_kv:
        return seq_q
    if right < 0:
        return 0
    return min(seq_q, max(0, seq_q - seq_kv - right))


def _rows_per_block(q: Tensor, seq_kv: int, *, masked: bool, explicit: bool) -> int:
    """How many queries to handle at once."""
    batch, seq_q, heads = q.shape[:3]
    rows = max(seq_q, 1)
    if masked:
        rows = min(rows, _ROWS_ON_CPU if q.device.type == "cpu" else _ROWS_ELSEWHERE)
    if explicit:
        rows = min(rows, max(1, _SCORES // max(1, batch * heads * seq_kv)))
    return rows


def _visible(
    like: Tensor, start: int, stop: int, low: int, high: int, left: int, right: int
) -> Tensor | None:
    """Which of the keys ``low..high`` the positions ``start..stop`` see; None if each sees all."""
    all_left = left < 0 or stop - 1 - left <= low
    all_right = right < 0 or start + right >= high - 1
    if all_left and all_right:
        return None
    positions = torch.arange(start, stop, device=like.device)[:, None]
    keys = torch.arange(low, high, device=like.device)
    if all_left:
        return keys <= positions + right
    if all_right:
        return keys >= positions - left
    return (keys <= positions + right) & (keys >= positions - left)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    softcap: float,
    sinks: Tensor | None,
) -> Tensor:
    """Attention with the logits written out, for what torch's own does not have.

    Args:
        q: ``[B, H_kv, rows, D]``.
        k: ``[B, H_kv, keys, D]``.
        v: as ``k``.
        mask: ``[rows, keys]``, True where visible; every row sees a key.
        scale: what the products are multiplied by.
        softcap: 0 is off.
        sinks: ``[H_kv, rows]``.
    """
    logits = torch.matmul(q * scale, k.transpose(-1, -2))
    if softcap:
        # Before the mask: the cap of -inf would be -softcap, a weight for a hidden key.
        logits.div_(softcap).tanh_().mul_(softcap)
    if mask is not None:
        logits.masked_fill_(~mask, -torch.inf)
    top = logits.amax(-1, keepdim=True)
    if sinks is not None:
        sinks = sinks.to(logits.dtype).unsqueeze(-1)
        top = torch.maximum(top, sinks)
    weights = logits.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    if sinks is not None:
        total += torch.exp(sinks - top)
    return torch.matmul(weights, v) / total
