"""Functions applied element by element; ops that differ by the function share all of this."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from tileops_core.kernels import CallSpec, KernelInterface


class ElementwiseCall(CallSpec):
    """A function by name, over tensors of one dtype.

    ``shapes`` has one shape per input. ``parameters`` holds the op's parameters that the function
    reads, in the entry's order: ``("tanh",)`` for a GELU, ``(alpha,)`` for a sum. ``inplace``
    says that the first input is written.
    """

    function: str
    dtype: torch.dtype
    shapes: tuple[tuple[int, ...], ...]
    parameters: tuple[object, ...] = ()
    inplace: bool = False


class GenerativeCall(CallSpec):
    """A tensor that follows from numbers alone, by the name of what it holds.

    ``function`` is ``"alibi"`` or ``"sinusoidal"``; ``dtype`` and ``shape`` are the result's.
    """

    function: str
    dtype: torch.dtype
    shape: tuple[int, ...]


class UnaryFwdInterface(KernelInterface):
    """``output = function(input)``."""

    request = ElementwiseCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor | None:
        """Apply the function.

        Args:
            input: ``call.shapes[0]``, ``call.dtype``. With ``call.inplace`` the result is written
                here.

        Returns:
            A tensor of the same shape and dtype. With ``call.inplace`` ``input`` itself, or None.
        """


class BinaryFwdInterface(KernelInterface):
    """``output = function(input, other)`` of operands broadcast against each other."""

    request = ElementwiseCall

    @abstractmethod
    def forward(self, input: Tensor, other: Tensor) -> Tensor:
        """Apply the function.

        Args:
            input: ``call.shapes[0]``, ``call.dtype``.
            other: ``call.shapes[1]``, ``call.dtype``; the two shapes broadcast as in torch.

        Returns:
            The broadcast shape, ``call.dtype``.
        """


class GatedFwdInterface(KernelInterface):
    """``output = function(gate) * value`` of a matrix that holds gate and value side by side.

    Computed in float32 or wider and rounded once. ``call.function`` is ``"silu_and_mul"``, or
    ``"gelu_and_mul"`` with the approximation, ``"none"`` or ``"tanh"``, in ``call.parameters``.
    """

    request = ElementwiseCall

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Apply the function to the gate and multiply.

        Args:
            input: ``call.shapes[0]``, that is ``[M, 2 * N]``, in ``call.dtype``: the gate in the
                first N columns, the value in the others.

        Returns:
            ``[M, N]`` in ``call.dtype``.
        """


class GenerativeFwdInterface(KernelInterface):
    """A tensor without any input, right to the last place of ``call.dtype``.

    ``"alibi"``: ``[heads, length, length]``, of head h, row i and column j
    ``-2 ** (-8 (h + 1) / heads) * |i - j|``. ``"sinusoidal"``: ``[length, width]``, in row p
    ``sin(p / 10000 ** (2i / width))`` in column 2i and the cosine of the same in column 2i + 1; a
    width may be odd, and its last sine has no cosine then. An angle of many turns needs float64.
    """

    request = GenerativeCall

    @abstractmethod
    def forward(self) -> Tensor:
        """Make the tensor.

        Returns:
            ``call.shape`` in ``call.dtype`` on ``call.device``; new memory at every call.
        """
