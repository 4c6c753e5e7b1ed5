"""Ops of one to three inputs whose kernels do nothing, with entries of their own.

That they are defined here is also how an op outside the library looks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from benchmarks.given import WIDTH, null_one, null_three, null_two
from tileops_core.kernels import CallSpec, Kernel, KernelInterface
from tileops_core.op import Op


def entry(inputs: int) -> dict[str, Any]:
    """A manifest entry: rows of N values, up to two vectors of N, rows of N values again."""
    vectors = {name: {"dtype": "T", "shape": "[N]"} for name in ("weight", "bias")[: inputs - 1]}
    return {
        "family": "benchmarks",
        "status": "implemented",
        "signature": {
            "forall": {"B": "Shape", "N": "Dim", "T": "DType[float16 | float32]"},
            "inputs": {"x": {"dtype": "T", "shape": "[*B, N]"}, **vectors},
            "outputs": {"y": {"dtype": "T", "shape": "[*B, N]"}},
        },
        "workloads": [
            {"B": [1], "N": WIDTH, "dtype_cases": [{"T": "float16"}], "label": "one-row"}
        ],
        "roofline": {"flops": "0"},
    }


class NullCall(CallSpec):
    """A null kernel depends on the dtype alone, and not even on that."""

    dtype: torch.dtype


class NullOneInterface(KernelInterface):
    """One input."""

    request = NullCall

    @abstractmethod
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return an empty tensor like x, a contiguous one of any shape."""


class NullTwoInterface(KernelInterface):
    """Two inputs."""

    request = NullCall

    @abstractmethod
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return an empty tensor like x, a contiguous one of any shape."""


class NullThreeInterface(KernelInterface):
    """Three inputs."""

    request = NullCall

    @abstractmethod
    def forward(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Return an empty tensor like x, a contiguous one of any shape."""


class NullOneKernel(Kernel, NullOneInterface):
    """Serves one input."""

    devices = frozenset({"cpu"})
    forward = staticmethod(null_one)


class NullTwoKernel(Kernel, NullTwoInterface):
    """Serves two inputs."""

    devices = frozenset({"cpu"})
    forward = staticmethod(null_two)


class NullThreeKernel(Kernel, NullThreeInterface):
    """Serves three inputs."""

    devices = frozenset({"cpu"})
    forward = staticmethod(null_three)


class NullOneFwdOp(Op):
    """One input, short form."""

    spec = entry(1)
    interfaces: ClassVar = {"null": NullOneInterface}
    kernel_types: ClassVar = {"null": NullOneKernel}

    def call_spec(self, x: torch.Tensor) -> NullCall:
        return NullCall(x.device, x.dtype)


class NullTwoFwdOp(Op):
    """Two inputs, short form."""

    spec = entry(2)
    interfaces: ClassVar = {"null": NullTwoInterface}
    kernel_types: ClassVar = {"null": NullTwoKernel}

    def call_spec(self, x: torch.Tensor, weight: torch.Tensor) -> NullCall:
        return NullCall(x.device, x.dtype)


class NullThreeFwdOp(Op):
    """Three inputs, short form."""

    spec = entry(3)
    interfaces: ClassVar = {"null": NullThreeInterface}
    kernel_types: ClassVar = {"null": NullThreeKernel}

    def call_spec(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> NullCall:
        return NullCall(x.device, x.dtype)


class NullByHandFwdOp(Op):
    """Two inputs, with a `forward` of its own."""

    spec = entry(2)
    interfaces: ClassVar = {"null": NullTwoInterface}
    kernel_types: ClassVar = {"null": NullTwoKernel}

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self.kernel_for("null", NullCall(x.device, x.dtype))(x, weight)


SHORT_FORM: dict[int, tuple[type[Op], Callable[..., object]]] = {
    1: (NullOneFwdOp, null_one),
    2: (NullTwoFwdOp, null_two),
    3: (NullThreeFwdOp, null_three),
}
