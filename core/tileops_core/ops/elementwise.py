"""Functions applied element by element."""

from __future__ import annotations

from tileops_core.interfaces.elementwise import ElementwiseCall, GenerativeCall
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

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


class AlibiFwdOp(Op):
    """Linear biases of attention scores, ``-2 ** (-8 (h + 1) / num_heads) * |i - j|``.

    Takes no tensor and returns ``[num_heads, seq_len, seq_len]`` of heads h, queries i and keys j
    in ``out_dtype``, on ``device`` (None: the current CUDA device, or the CPU where there is none).
    Biases lie on both sides of the diagonal, and the formula holds for every number of heads.
    Computed in float64 and rounded once. Press, Smith and Lewis, "Train Short, Test Long:
    Attention with Linear Biases Enables Input Length Extrapolation", 2022; follows the formula
    there, without its other slopes for numbers of heads that are no power of two.
    """

    def call_spec(self) -> GenerativeCall:
        """What the biases are called, and their type."""
        shape = (self.num_heads, self.seq_len, self.seq_len)
        return GenerativeCall(self.device, "alibi", self.out_dtype, shape)


class SinusoidalFwdOp(Op):
    """The Transformer's position encoding: sine and cosine of ``p / 10000 ** (2i / d_model)``.

    Takes no tensor and returns ``[seq_len, d_model]`` in ``out_dtype``, on ``device`` (None: the
    current CUDA device, or the CPU where there is none). Row p has the sine in column 2i and the
    cosine in column 2i + 1; the last sine of an odd ``d_model`` has no cosine. Computed in float64
    and rounded once. Follows Vaswani et al., "Attention Is All You Need", 2017.
    """

    def call_spec(self) -> GenerativeCall:
        """What the encoding is called, and its type."""
        shape = (self.seq_len, self.d_model)
        return GenerativeCall(self.device, "sinusoidal", self.out_dtype, shape)
