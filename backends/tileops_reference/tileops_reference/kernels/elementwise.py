"""Functions applied element by element."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tileops_core.interfaces.elementwise import (
    BinaryFwdInterface,
    ElementwiseCall,
    GatedFwdInterface,
    GenerativeCall,
    GenerativeFwdInterface,
    UnaryFwdInterface,
)
from tileops_reference.functions import elementwise
from tileops_reference.kernels.general import GeneralKernel, torch_function

_MOST_BYTES = 1 << 27
"""Of a larger table no copy is kept; it is made anew at each call."""


class AddReference(GeneralKernel, BinaryFwdInterface):
    """A sum; this entry's ``alpha`` is 1."""

    forward = torch_function(torch.add)

    @classmethod
    def entry_for(cls, call: ElementwiseCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per alpha."""
        (alpha,) = call.parameters
        return alpha, cls if alpha == 1 else partial(ScaledAddReference, alpha)


class ScaledAddReference(AddReference):
    """A sum whose second operand is scaled."""

    def __init__(self, alpha: Any) -> None:
        self.alpha = alpha

    def forward(self, input: Tensor, other: Tensor) -> Tensor:
        """Add."""
        return elementwise.add(input, other, alpha=self.alpha)


class MulReference(GeneralKernel, BinaryFwdInterface):
    """A product."""

    forward = torch_function(torch.mul)


class GELUReference(GeneralKernel, UnaryFwdInterface):
    """GELU with the error function."""

    forward = torch_function(functional.gelu)

    @classmethod
    def entry_for(cls, call: ElementwiseCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per approximation."""
        (approximate,) = call.parameters
        return approximate, cls if approximate == "none" else TanhGELUReference


class TanhGELUReference(GELUReference):
    """GELU in its tanh approximation."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return elementwise.gelu(input, approximate="tanh")


class ReLUReference(GeneralKernel, UnaryFwdInterface):
    """ReLU into a new tensor."""

    forward = torch_function(torch.relu)

    @classmethod
    def entry_for(cls, call: ElementwiseCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry for new tensors, one for in place."""
        return call.inplace, InPlaceReLUReference if call.inplace else cls


class InPlaceReLUReference(ReLUReference):
    """ReLU into its input."""

    forward = torch_function(torch.relu_)


class TanhReference(GeneralKernel, UnaryFwdInterface):
    """A hyperbolic tangent."""

    forward = torch_function(torch.tanh)


class SiLUAndMulReference(GeneralKernel, GatedFwdInterface):
    """A gated SiLU."""

    forward = torch_function(elementwise.silu_and_mul)


class GELUAndMulReference(GeneralKernel, GatedFwdInterface):
    """A gated GELU with the error function."""

    forward = torch_function(elementwise.gelu_and_mul)

    @classmethod
    def entry_for(cls, call: ElementwiseCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per approximation."""
        (approximate,) = call.parameters
        return approximate, cls if approximate == "none" else TanhGELUAndMulReference


class TanhGELUAndMulReference(GELUAndMulReference):
    """A gated GELU in its tanh approximation."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return elementwise.gelu_and_mul(input, approximate="tanh")


class AlibiReference(GeneralKernel, GenerativeFwdInterface):
    """Linear biases; kept is what they are of each distance, on the call's device."""

    def __init__(self, call: GenerativeCall) -> None:
        heads, length, _ = call.shape
        biases = elementwise.biases_of_distances(length, heads, call.dtype)
        self.biases = biases.to(call.device)

    def forward(self) -> Tensor:
        """Spread them over rows and columns."""
        return elementwise.by_distance(self.biases)

    @classmethod
    def entry_for(cls, call: GenerativeCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per table and device: nothing is passed that could say where."""
        return call, partial(cls, call)


class SinusoidalReference(GeneralKernel, GenerativeFwdInterface):
    """A position encoding; kept, unless it is large, because a captured graph can only copy."""

    def __init__(self, call: GenerativeCall) -> None:
        length, width = call.shape
        self.make = partial(
            elementwise.sinusoidal,
            seq_len=length,
            d_model=width,
            out_dtype=call.dtype,
            device=call.device,
        )
        small = length * width * call.dtype.itemsize <= _MOST_BYTES
        self.table = self.make() if small else None

    def forward(self) -> Tensor:
        """Copy it, or make it."""
        return self.make() if self.table is None else self.table.clone()

    @classmethod
    def entry_for(cls, call: GenerativeCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per table and device: nothing is passed that could say where."""
        return call, partial(cls, call)
