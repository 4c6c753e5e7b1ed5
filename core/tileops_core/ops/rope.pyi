# Generated from the manifest by tileops_core.ops._generate; do not edit.

from typing import Literal

from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.op import Op

__all__ = ["LongRoPEFwdOp", "RoPEFwdOp", "RoPENeoxPositionIdsFwdOp"]

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

    @property
    def input_layout(self) -> Literal["1d", "2d"]: ...
    @property
    def base(self) -> float: ...
    @property
    def rescale_factors(self) -> Tensor | None: ...
    @property
    def max_position(self) -> int: ...
    @property
    def original_max_position(self) -> int: ...
    def __init__(
        self,
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        rescale_factors: Tensor | None = None,
        max_position: int = 4096,
        original_max_position: int = 4096,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            input_layout: '1d' | '2d'.
            base: float.
            rescale_factors: Tensor | None, R [D // 2].
            max_position: int.
            original_max_position: int.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        x: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        R is float16 | bfloat16 | float32.

        Args:
            x: T Tokens[input_layout, B, S, H, D].

        Returns:
            output: T Tokens[input_layout, B, S, H, D].
        """

class RoPEFwdOp(Op):
    """Turns pairs of features by ``position * base ** (-2i / D)``; the position is the index.

    ``rope_layout="neox"`` pairs feature i with ``i + D/2``, ``"interleaved"`` 2i with 2i + 1.
    ``input_layout`` is ``"1d"`` for ``[S, D]`` and ``"2d"`` for ``[B, S, H, D]``; D is even.
    Computed in float32, sines and cosines included, and rounded once. Su et al., "RoFormer:
    Enhanced Transformer with Rotary Position Embedding", 2021; follows
    ``vllm.model_executor.layers.rotary_embedding.base.RotaryEmbedding``.
    """

    @property
    def rope_layout(self) -> Literal["neox", "interleaved"]: ...
    @property
    def input_layout(self) -> Literal["1d", "2d"]: ...
    @property
    def base(self) -> float: ...
    def __init__(
        self,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            rope_layout: 'neox' | 'interleaved'.
            input_layout: '1d' | '2d'.
            base: float.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        x: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            x: T Tokens[input_layout, B, S, H, D].

        Returns:
            output: T Tokens[input_layout, B, S, H, D].
        """

class RoPENeoxPositionIdsFwdOp(Op):
    """Turns the pairs (i, ``i + rotary_dim/2``) of packed tokens, each at its own position.

    ``x`` is ``[N, H, D]``, ``positions`` ``[N]``, int32 or int64. ``rotary_dim=None`` is D;
    features past it are copied. A position outside of ``[0, max_position)`` is an IndexError on the
    CPU; elsewhere its token's turned features are NaN. Computed in float32, sines and cosines
    included, and rounded once. Su et al., 2021; follows ``vllm._custom_ops.rotary_embedding``,
    but is functional.
    """

    @property
    def max_position(self) -> int: ...
    @property
    def base(self) -> float: ...
    @property
    def rotary_dim(self) -> int | None: ...
    def __init__(
        self,
        max_position: int,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            max_position: int.
            base: float.
            rotary_dim: int | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        x: Tensor,
        positions: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        P is int32 | int64.

        Args:
            x: T [N, H, D].
            positions: P [N].

        Returns:
            output: T [N, H, D].
        """
