# Generated from the manifest by tileops_core.ops._generate; do not edit.

from typing import Literal

from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.op import Op

__all__ = [
    "AddFwdOp",
    "GELUAndMulFwdOp",
    "GELUFwdOp",
    "MulFwdOp",
    "ReLUFwdOp",
    "SiLUAndMulFwdOp",
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
