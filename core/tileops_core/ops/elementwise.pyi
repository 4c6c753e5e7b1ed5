# Generated from the manifest by tileops_core.ops._generate; do not edit.

from typing import Literal

import torch
from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.op import Op

__all__ = [
    "AddFwdOp",
    "AlibiFwdOp",
    "GELUAndMulFwdOp",
    "GELUFwdOp",
    "MulFwdOp",
    "ReLUFwdOp",
    "SiLUAndMulFwdOp",
    "SinusoidalFwdOp",
    "TanhFwdOp",
]

class AddFwdOp(Op):
    """``input + alpha * other`` of operands broadcast against each other.

    Bool, integer and floating dtypes; the sum of bools is their logical or. ``alpha`` is an int,
    or a float for floating dtypes. Follows ``torch.add``.
    """

    @property
    def alpha(self) -> int | float: ...
    def __init__(
        self,
        *,
        alpha: int | float = 1,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            alpha: int | float.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
        other: Tensor,
    ) -> Tensor:
        """Run the op.

        T is bool | uint8 | int8 | int16 | int32 | int64 | float16 | bfloat16 | float32.

        Args:
            input: T [*A].
            other: T [*B].

        Returns:
            output: T [*broadcast(A, B)].
        """

class AlibiFwdOp(Op):
    """Linear biases of attention scores, ``-2 ** (-8 (h + 1) / num_heads) * |i - j|``.

    Takes no tensor and returns ``[num_heads, seq_len, seq_len]`` of heads h, queries i and keys j
    in ``out_dtype``, on ``device`` (None: the current CUDA device, or the CPU where there is none).
    Biases lie on both sides of the diagonal, and the formula holds for every number of heads.
    Computed in float64 and rounded once. Press, Smith and Lewis, "Train Short, Test Long:
    Attention with Linear Biases Enables Input Length Extrapolation", 2022; follows the formula
    there, without its other slopes for numbers of heads that are no power of two.
    """

    @property
    def seq_len(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def out_dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device | None: ...
    def __init__(
        self,
        *,
        seq_len: int,
        num_heads: int,
        out_dtype: torch.dtype | str = "float32",
        device: torch.device | str | None = None,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            seq_len: int.
            num_heads: int.
            out_dtype: float16 | bfloat16 | float32.
            device: torch.device | str | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
    ) -> Tensor:
        """Run the op.

        Returns:
            output: out_dtype [num_heads, seq_len, seq_len].
        """

class GELUAndMulFwdOp(Op):
    """``gelu(gate) * value`` of a matrix ``[gate | value]``.

    ``approximate="tanh"`` takes GELU's tanh approximation. ``input`` is ``[M, 2 * N]``, floating.
    Computed in float32 and rounded once. Shazeer, "GLU Variants Improve Transformer", 2020;
    follows ``vllm.model_executor.layers.activation.GeluAndMul``.
    """

    @property
    def approximate(self) -> Literal["none", "tanh"]: ...
    def __init__(
        self,
        *,
        approximate: Literal["none", "tanh"] = "none",
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            approximate: 'none' | 'tanh'.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [M, 2 * N].

        Returns:
            output: T [M, N].
        """

class GELUFwdOp(Op):
    """``x * Phi(x)``, where Phi is the normal distribution function.

    ``approximate="tanh"`` takes ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))`` instead.
    Any shape, floating. Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; follows
    ``torch.nn.functional.gelu``.
    """

    @property
    def approximate(self) -> Literal["none", "tanh"]: ...
    def __init__(
        self,
        *,
        approximate: Literal["none", "tanh"] = "none",
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            approximate: 'none' | 'tanh'.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*S].

        Returns:
            output: T [*S].
        """

class MulFwdOp(Op):
    """``input * other`` of operands broadcast against each other.

    Bool, integer and floating dtypes; the product of bools is their logical and. Follows
    ``torch.mul``.
    """

    def __init__(
        self,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
        other: Tensor,
    ) -> Tensor:
        """Run the op.

        T is bool | uint8 | int8 | int16 | int32 | int64 | float16 | bfloat16 | float32.

        Args:
            input: T [*A].
            other: T [*B].

        Returns:
            output: T [*broadcast(A, B)].
        """

class ReLUFwdOp(Op):
    """``max(x, 0)``; NaN stays NaN.

    With ``inplace`` the result is written into ``input``, which is returned. Any shape, floating.
    Follows ``torch.nn.functional.relu``.
    """

    @property
    def inplace(self) -> bool: ...
    def __init__(
        self,
        *,
        inplace: bool = False,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            inplace: bool.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*S], may be written.

        Returns:
            output: T [*S].
        """

class SiLUAndMulFwdOp(Op):
    """``silu(gate) * value`` of a matrix ``[gate | value]``, with ``silu(x) = x / (1 + exp(-x))``.

    ``input`` is ``[M, 2 * N]``, floating. Computed in float32 and rounded once. Shazeer, "GLU
    Variants Improve Transformer", 2020; follows ``flashinfer.activation.silu_and_mul``.
    """

    def __init__(
        self,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [M, 2 * N].

        Returns:
            output: T [M, N].
        """

class SinusoidalFwdOp(Op):
    """The Transformer's position encoding: sine and cosine of ``p / 10000 ** (2i / d_model)``.

    Takes no tensor and returns ``[seq_len, d_model]`` in ``out_dtype``, on ``device`` (None: the
    current CUDA device, or the CPU where there is none). Row p has the sine in column 2i and the
    cosine in column 2i + 1; the last sine of an odd ``d_model`` has no cosine. Computed in float64
    and rounded once. Follows Vaswani et al., "Attention Is All You Need", 2017.
    """

    @property
    def seq_len(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def out_dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device | None: ...
    def __init__(
        self,
        *,
        seq_len: int,
        d_model: int,
        out_dtype: torch.dtype | str = "float32",
        device: torch.device | str | None = None,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            seq_len: int.
            d_model: int.
            out_dtype: float16 | bfloat16 | float32.
            device: torch.device | str | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
    ) -> Tensor:
        """Run the op.

        Returns:
            output: out_dtype [seq_len, d_model].
        """

class TanhFwdOp(Op):
    """``tanh(x)``; NaN stays NaN, and zeros keep their sign.

    Any shape, floating. Follows ``torch.tanh``.
    """

    def __init__(
        self,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*S].

        Returns:
            output: T [*S].
        """
