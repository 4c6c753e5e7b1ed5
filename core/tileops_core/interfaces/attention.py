"""Attention."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops_core.kernels import CallSpec, KernelInterface


class GQADenseCall(CallSpec):
    """Grouped-query attention on dense tensors.

    Query i stands at key position ``p = i + seq_kv - seq_q`` and sees the keys from
    ``p - window_left`` to ``p + window_right``; -1 is no limit, and a causal call has a
    ``window_right`` of 0. Rotary embedding and sinks leave the masks as they are.

    ``softcap`` 0 is none. ``rope`` is ``"none"``, ``"neox"`` or ``"interleaved"``; with it
    ``rotary_dim`` is even and in ``1..head_dim`` and the tables have ``rope_positions`` rows,
    without it both are 0. ``has_scales`` goes with an fp8 ``dtype``.
    """

    dtype: torch.dtype
    out_dtype: torch.dtype
    batch: int
    seq_q: int
    seq_kv: int
    heads: int
    heads_kv: int
    head_dim: int
    window_left: int
    window_right: int
    scale: float
    softcap: float
    rope: str
    rotary_dim: int
    rope_positions: int
    has_scales: bool
    has_sinks: bool


class GQADenseFwdInterface(KernelInterface):
    """``o[b,i,h] = sum_j w_ij v[b,j,r]`` with ``r = h // (heads / heads_kv)``.

    ``w_ij = exp(L_ij) / (exp(sinks[h]) + sum_j exp(L_ij))`` over visible keys j, with
    ``L_ij = softcap * tanh(s_ij / softcap)`` of ``s_ij = scale * <q[b,i,h], k[b,j,r]>``.
    Logits and sums in float32 or wider. A query that sees no key gives 0.
    """

    request = GQADenseCall

    @abstractmethod
    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Attend.

        Args:
            q: ``[batch, seq_q, heads, head_dim]``, ``call.dtype``.
            k: ``[batch, seq_kv, heads_kv, head_dim]``, ``call.dtype``; ``heads_kv`` divides
                ``heads``, and ``seq_kv`` is positive.
            v: the same as ``k``.
            q_scale: ``[batch, heads_kv]`` float32, what the stored ``q`` is to be multiplied by;
                None unless ``call.has_scales``.
            k_scale: the same for ``k``.
            v_scale: the same for ``v``.
            rope_cos: ``[rope_positions, rotary_dim / 2]``, ``call.out_dtype``: turns ``q`` by row
                p and ``k`` by row j, in their first ``rotary_dim`` features; None unless
                ``call.rope`` is on. Pairs are ``(i, i + rotary_dim / 2)`` for neox and
                ``(2i, 2i + 1)`` for interleaved.
            rope_sin: the same.
            sinks: ``[heads]`` float32, neither scaled nor capped; None unless ``call.has_sinks``.

        Returns:
            ``[batch, seq_q, heads, head_dim]``, ``call.out_dtype``.
        """
