"""Rotary position embedding."""

from __future__ import annotations

import math

import torch

from tileops_core.backend.targets import Builtin
from tileops_core.errors import SignatureError
from tileops_core.interfaces.rope import LongRoPECall, RoPECall, RoPENeoxPositionIdsCall
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

__all__ = ["LongRoPEFwdOp", "RoPEFwdOp", "RoPENeoxPositionIdsFwdOp"]


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


class LongRoPEFwdOp(Op):
    """Turns the pairs (i, ``i + D/2``) by ``position * base ** (-2i / D) / rescale_factors[i]``.

    Everything is scaled by ``sqrt(1 + ln(max_position / L) / ln(L))`` where ``max_position`` is
    above L, which is ``original_max_position``. The position is the index; ``input_layout`` is
    ``"1d"`` for ``[S, D]`` and ``"2d"`` for ``[B, S, H, D]``; D is even. ``rescale_factors``,
    ``[D // 2]``, float16, bfloat16 or float32, is copied at construction; the copy takes no part in
    autograd, so no gradient reaches the tensor that was given. None stands for ones, and
    a factor that is 0 or NaN is a :class:`~tileops_core.errors.SignatureError`. Computed in
    float32, sines and cosines included, and rounded once. Ding et al., "LongRoPE: Extending LLM
    Context Window Beyond 2 Million Tokens", 2024; follows
    ``vllm.model_executor.layers.rotary_embedding.phi3_long_rope_scaled_rope``.
    """

    def __init__(
        self,
        input_layout: str = "1d",
        base: float = 10000.0,
        rescale_factors: torch.Tensor | None = None,
        max_position: int = 4096,
        original_max_position: int = 4096,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        self.input_layout = input_layout
        self.base = base
        self.rescale_factors = rescale_factors
        self.max_position = max_position
        self.original_max_position = original_max_position
        super().__init__(target=target)
        _check_factors(type(self).__name__, self.rescale_factors)

    def call_spec(self, x: TensorSpec) -> LongRoPECall:
        """Shape, base, the amplitude as a number, and what the factors are."""
        longer = self.max_position / self.original_max_position
        amplitude = 1.0
        if longer > 1:
            amplitude = math.sqrt(1 + math.log(longer) / math.log(self.original_max_position))
        factors = None if self.rescale_factors is None else self.rescale_factors.dtype
        width = x.shape[-1]
        return LongRoPECall(x.device, x.dtype, x.shape, width, self.base, amplitude, factors)


def _check_factors(op: str, factors: torch.Tensor | None) -> None:
    """Refuse factors that give no angle. Once: nobody can write the op's own copy later.

    Raises:
        SignatureError: The first that is 0 or NaN.
    """
    if factors is None or factors.device.type == "meta":
        return
    wrong = (factors == 0) | factors.isnan()
    if not wrong.any():
        return
    at = int(wrong.nonzero()[0])
    actual = factors[at].item()
    raise SignatureError(
        f"{op}: rescale_factors holds {actual} at index {at}, and an angle is divided by each; "
        "pass factors that are neither 0 nor NaN, 1 for a pair that is not rescaled",
        op=op,
        tensor="rescale_factors",
        expected="neither 0 nor NaN",
        actual=actual,
    )
