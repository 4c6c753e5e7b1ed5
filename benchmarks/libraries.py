"""The two libraries under one small vocabulary, so that a row is written once."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch

FAMILY_OF = {
    "ReLUFwdOp": "elementwise",
    "SoftmaxFwdOp": "reduction",
    "SumFwdOp": "reduction",
    "GEMMFwdOp": "gemm",
    "RMSNormFwdOp": "norm",
    "LayerNormFwdOp": "norm",
}


class Library:
    """One library as the rows see it.

    Args:
        name: `ours` or `peer`.
        package: The package whose families hold the op classes.
    """

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self.package = package

    def op_class(self, op: str) -> type[Any]:
        """The op's class, from the library's public path."""
        return getattr(importlib.import_module(f"{self.package}.{FAMILY_OF[op]}"), op)

    def make(self, op: str, *arguments: object, **parameters: object) -> Any:
        """A new instance of the op."""
        return self.op_class(op)(*arguments, **parameters)

    def add_target(self, target: str) -> None:
        """Register a target that claims no device."""
        raise NotImplementedError

    def serve(self, op: str, target: str, kernel: Callable[..., object]) -> None:
        """Let the target serve the op with one kernel, whatever the call."""
        raise NotImplementedError


class Ours(Library):
    """tileops-core."""

    def __init__(self) -> None:
        super().__init__("ours", "tileops_core.ops")

    def add_target(self, target: str) -> None:
        from tileops_core.backend import register_target

        register_target(target, claims_nothing)

    def serve(self, op: str, target: str, kernel: Callable[..., object]) -> None:
        from tileops_core.backend import register_kernel_builder

        register_kernel_builder(op, target, always(kernel))


class Peer(Library):
    """tileops 0.1.0, of the same interface: a builder that gets specs and returns a kernel."""

    def __init__(self) -> None:
        super().__init__("peer", "tileops")

    def add_target(self, target: str) -> None:
        from tileops.backend import register_detector  # type: ignore[import-not-found]

        register_detector(target=target, detect=claims_nothing)

    def serve(self, op: str, target: str, kernel: Callable[..., object]) -> None:
        from tileops.backend import register_kernel_builder

        register_kernel_builder(op=op, target=target, build_kernel=always(kernel))


LIBRARIES: dict[str, type[Ours] | type[Peer]] = {"ours": Ours, "peer": Peer}


def claims_nothing(device: torch.device) -> bool:
    """A detector: the target is only ever named."""
    return False


def always(kernel: Callable[..., object]) -> Callable[..., Callable[..., object]]:
    """A builder that returns the same kernel for every call."""

    def build(*specs: object, **parameters: object) -> Callable[..., object]:
        return kernel

    return build
