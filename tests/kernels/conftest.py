"""Small call specs, interfaces and kernel types to check and dispatch over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tileops_core.kernels import CallSpec, Kernel, KernelInterface
from tileops_core.kernels.contracts import Installed, install


class NormCall(CallSpec):
    rows: int = 1
    eps: float = 1e-5


class NormKernel(KernelInterface):
    request = NormCall

    @abstractmethod
    def forward(self, x: Any, weight: Any) -> Any:
        """Normalize x."""


class StatsCall(CallSpec):
    rows: int = 1


class StatsKernel(KernelInterface):
    request = StatsCall

    @abstractmethod
    def forward(self, x: Any, *, moment: int = 1, out: Any = None) -> Any:
        """Reduce x."""


@attrs.frozen
class Registration:
    """What install needs of a kernel type in the registry."""

    key: str
    kernel_type: Any
    backend: str
    version: str | None = "1.2"

    def resolve(self) -> Any:
        if isinstance(self.kernel_type, Exception):
            raise self.kernel_type
        return self.kernel_type


class Bench:
    """Makes kernel types and puts them into an op called ``ProbeFwdOp``."""

    op = "ProbeFwdOp"
    NormCall = NormCall
    NormKernel = NormKernel
    StatsCall = StatsCall
    StatsKernel = StatsKernel
    interfaces: dict[str, type[KernelInterface]] = {"norm": NormKernel, "stats": StatsKernel}  # noqa: RUF012

    def kernel(
        self,
        name: str = "Probe",
        interface: type = NormKernel,
        *,
        refusing: str | Callable[[Any], Any] | None = None,
        deferring: str | Callable[[Any], Any] | None = None,
        **declared: Any,
    ) -> type[Kernel]:
        """A kernel type with class attributes as declared; it runs on any device unless told."""
        body: dict[str, Any] = {"devices": None, "forward": lambda self, x, weight: (x, weight)}
        if interface is StatsKernel:
            body["forward"] = lambda self, x, *, moment=1, out=None: (x, moment)
        for method, answer in (("refusal", refusing), ("defers", deferring)):
            if answer is not None:
                give = answer if callable(answer) else lambda call, answer=answer: answer
                body[method] = classmethod(lambda cls, call, give=give: give(call))
        return type(name, (Kernel, interface), {**body, **declared})

    def registered(self, backend: str, **kernel_types: Any) -> list[Registration]:
        return [Registration(key, kind, backend) for key, kind in kernel_types.items()]

    def install(self, *registered: Any, own: dict[str, Any] | None = None) -> Installed:
        items = [
            item for part in registered for item in (part if isinstance(part, list) else [part])
        ]
        return install(self.op, self.interfaces, own or {}, items)


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()
