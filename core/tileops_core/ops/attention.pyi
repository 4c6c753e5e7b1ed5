# Generated from the manifest by tileops_core.ops._generate; do not edit.

from typing import Literal

import torch
from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.op import Op

__all__ = ["GQADenseFwdOp"]

class GQADenseFwdOp(Op):
    """Grouped-query attention on dense tensors: ``o[b,i,h] = sum_j w_ij v[b,j,r]``.

    ``w_ij = exp(L_ij) / (exp(sinks[h]) + sum_j exp(L_ij))`` over the visible keys j of key-value
    head ``r = h // (H / H_kv)``, with ``L_ij = softcap * tanh(s_ij / softcap)`` of
    ``s_ij = sm_scale <q[b,i,h], k[b,j,r]>``. ``q`` is ``[B, S_q, H, D]``, ``k`` and ``v`` are
    ``[B, S_kv, H_kv, D]``.

    Query i stands at key position ``p = i + S_kv - S_q``, so one op serves prefill, chunks of it
    and decoding. ``is_causal`` hides keys after p; the windows keep
    ``p - window_size_left <= j <= p + window_size_right``, -1 for no limit. A query that sees no
    key gives 0. ``sm_scale`` is ``D ** -0.5`` by default; ``softcap`` None or 0 is off; a sink is
    a logit per query head, neither scaled nor capped.

    fp8 tensors bring ``q_scale``, ``k_scale`` and ``v_scale``, multipliers per batch and key-value
    head, and need an ``out_dtype``. With ``pos_encoding_mode="rope"`` the first ``rotary_dim``
    features of ``q`` and ``k`` are turned by rows p and j of the tables ``rope_cos`` and
    ``rope_sin``, in pairs by ``rope_layout``. Follows ``flash_attn_interface.flash_attn_func``.
    """

    @property
    def is_causal(self) -> bool: ...
    @property
    def window_size_left(self) -> int: ...
    @property
    def window_size_right(self) -> int: ...
    @property
    def sm_scale(self) -> float | None: ...
    @property
    def softcap(self) -> float | None: ...
    @property
    def pos_encoding_mode(self) -> Literal["none", "rope"]: ...
    @property
    def rotary_dim(self) -> int | None: ...
    @property
    def rope_layout(self) -> Literal["neox", "interleaved"]: ...
    @property
    def out_dtype(self) -> torch.dtype | None: ...
    def __init__(
        self,
        is_causal: bool = False,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        out_dtype: torch.dtype | str | None = None,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            is_causal: bool.
            window_size_left: int.
            window_size_right: int.
            sm_scale: float | None.
            softcap: float | None.
            pos_encoding_mode: 'none' | 'rope'.
            rotary_dim: int | None.
            rope_layout: 'neox' | 'interleaved'.
            out_dtype: float16 | bfloat16 | float32 | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None = None,
        k_scale: Tensor | None = None,
        v_scale: Tensor | None = None,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32 | float8_e4m3fn.

        Args:
            q: T [B, S_q, H, D].
            k: T [B, S_kv, H_kv, D].
            v: T [B, S_kv, H_kv, D].
            q_scale: float32 [B, H_kv], optional.
            k_scale: float32 [B, H_kv], optional.
            v_scale: float32 [B, H_kv], optional.
            rope_cos: coalesce_dtype(out_dtype, T) [S_kv + P_pad, R // 2], optional.
            rope_sin: coalesce_dtype(out_dtype, T) [S_kv + P_pad, R // 2], optional.
            sinks: float32 [H], optional.

        Returns:
            o: coalesce_dtype(out_dtype, T) [B, S_q, H, D].
        """
