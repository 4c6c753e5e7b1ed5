"""Functions applied element by element."""

from __future__ import annotations

from tileops_core.interfaces.elementwise import ElementwiseCall
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

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

    def call_spec(self, input: TensorSpec, other: TensorSpec) -> ElementwiseCall:
        """A sum and its alpha."""
        shapes = (input.shape, other.shape)
        return ElementwiseCall(input.device, "add", input.dtype, shapes, (self.alpha,))


class MulFwdOp(Op):
    """``input * other`` of operands broadcast against each other.

    Bool, integer and floating dtypes; the product of bools is their logical and. Follows
    ``torch.mul``.
    """

    def call_spec(self, input: TensorSpec, other: TensorSpec) -> ElementwiseCall:
        """A product."""
        return ElementwiseCall(input.device, "mul", input.dtype, (input.shape, other.shape))


class GELUFwdOp(Op):
    """``x * Phi(x)``, where Phi is the normal distribution function.

    ``approximate="tanh"`` takes ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))`` instead.
    Any shape, floating. Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; follows
    ``torch.nn.functional.gelu``.
    """

    def call_spec(self, input: TensorSpec) -> ElementwiseCall:
        """A GELU and its approximation."""
        return ElementwiseCall(
            input.device, "gelu", input.dtype, (input.shape,), (self.approximate,)
        )


class ReLUFwdOp(Op):
    """``max(x, 0)``; NaN stays NaN.

    With ``inplace`` the result is written into ``input``, which is returned. Any shape, floating.
    Follows ``torch.nn.functional.relu``.
    """

    def call_spec(self, input: TensorSpec) -> ElementwiseCall:
        """A ReLU, in place or not."""
        return ElementwiseCall(
            input.device, "relu", input.dtype, (input.shape,), inplace=self.inplace
        )


class TanhFwdOp(Op):
    """``tanh(x)``; NaN stays NaN, and zeros keep their sign.

    Any shape, floating. Follows ``torch.tanh``.
    """

    def call_spec(self, input: TensorSpec) -> ElementwiseCall:
        """A hyperbolic tangent."""
        return ElementwiseCall(input.device, "tanh", input.dtype, (input.shape,))


class SiLUAndMulFwdOp(Op):
    """``silu(gate) * value`` of a matrix ``[gate | value]``, with ``silu(x) = x / (1 + exp(-x))``.

    ``input`` is ``[M, 2 * N]``, floating. Computed in float32 and rounded once. Shazeer, "GLU
    Variants Improve Transformer", 2020; follows ``flashinfer.activation.silu_and_mul``.
    """

    def call_spec(self, input: TensorSpec) -> ElementwiseCall:
        """A gated SiLU."""
        return ElementwiseCall(input.device, "silu_and_mul", input.dtype, (input.shape,))


class GELUAndMulFwdOp(Op):
    """``gelu(gate) * value`` of a matrix ``[gate | value]``.

    ``approximate="tanh"`` takes GELU's tanh approximation. ``input`` is ``[M, 2 * N]``, floating.
    Computed in float32 and rounded once. Shazeer, "GLU Variants Improve Transformer", 2020;
    follows ``vllm.model_executor.layers.activation.GeluAndMul``.
    """

    def call_spec(self, input: TensorSpec) -> ElementwiseCall:
        """A gated GELU and its approximation."""
        return ElementwiseCall(
            input.device, "gelu_and_mul", input.dtype, (input.shape,), (self.approximate,)
        )
