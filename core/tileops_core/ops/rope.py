"""Rotary position embedding."""

from __future__ import annotations

from tileops_core.interfaces.rope import RoPECall, RoPENeoxPositionIdsCall
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

__all__ = ["RoPEFwdOp", "RoPENeoxPositionIdsFwdOp"]


class RoPEFwdOp(Op):
    """Turns pairs of features by ``position * base ** (-2i / D)``; the position is the index.

    ``rope_layout="neox"`` pairs feature i with ``i + D/2``, ``"interleaved"`` 2i with 2i + 1.
    ``input_layout`` is ``"1d"`` for ``[S, D]`` and ``"2d"`` for ``[B, S, H, D]``; D is even.
    Computed in float32, sines and cosines included, and rounded once. Su et al., "RoFormer:
    Enhanced Transformer with Rotary Position Embedding", 2021; follows
    ``vllm.model_executor.layers.rotary_embedding.base.RotaryEmbedding``.
    """

    def call_spec(self, x: TensorSpec) -> RoPECall:
        """Shape, pairs and base."""
        return RoPECall(x.device, x.dtype, x.shape, self.rope_layout, x.shape[-1], self.base)


class RoPENeoxPositionIdsFwdOp(Op):
    """Turns the pairs (i, ``i + rotary_dim/2``) of packed tokens, each at its own position.

    ``x`` is ``[N, H, D]``, ``positions`` ``[N]``, int32 or int64. ``rotary_dim=None`` is D;
    features past it are copied. A position outside of ``[0, max_position)`` is an IndexError on the
    CPU; elsewhere its token's turned features are NaN. Computed in float32, sines and cosines
    included, and rounded once. Su et al., 2021; follows ``vllm._custom_ops.rotary_embedding``,
    but is functional.
    """

    def call_spec(self, x: TensorSpec, positions: TensorSpec) -> RoPENeoxPositionIdsCall:
        """Shape, dtype of the positions, and what fixes the angles."""
        return RoPENeoxPositionIdsCall(
            x.device,
            x.dtype,
            x.shape,
            positions.dtype,
            x.shape[-1] if self.rotary_dim is None else self.rotary_dim,
            self.max_position,
            self.base,
        )
