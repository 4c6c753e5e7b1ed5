"""Attention."""

from __future__ import annotations

from tileops_core.interfaces.attention import GQADenseCall
from tileops_core.op import Op
from tileops_core.record.profiles import matrix_key
from tileops_core.tensor_spec import TensorSpec

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

    def call_spec(
        self,
        q: TensorSpec,
        k: TensorSpec,
        v: TensorSpec,
        q_scale: TensorSpec | None,
        k_scale: TensorSpec | None,
        v_scale: TensorSpec | None,
        rope_cos: TensorSpec | None,
        rope_sin: TensorSpec | None,
        sinks: TensorSpec | None,
    ) -> GQADenseCall:
        """Sizes, the mask as two limits, and every parameter as the number it stands for."""
        batch, seq_q, heads, head_dim = q.shape
        seq_kv, heads_kv = k.shape[1:3]
        turns = self.pos_encoding_mode == "rope"
        rotary_dim = head_dim if self.rotary_dim is None else self.rotary_dim
        return GQADenseCall(
            q.device,
            q.dtype,
            q.dtype if self.out_dtype is None else self.out_dtype,
            batch,
            seq_q,
            seq_kv,
            heads,
            heads_kv,
            head_dim,
            self.window_size_left,
            0 if self.is_causal else self.window_size_right,
            max(head_dim, 1) ** -0.5 if self.sm_scale is None else self.sm_scale,
            self.softcap or 0.0,
            self.rope_layout if turns else "none",
            rotary_dim if turns else 0,
            0 if rope_cos is None else rope_cos.shape[0],
            q_scale is not None,
            sinks is not None,
        )

    def roof_key(self) -> str:
        """Tensor cores, for the dtype of q, k and v."""
        return matrix_key(self.last_call.tensors["q"][1])
