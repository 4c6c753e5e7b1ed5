"""Register from a notebook or a test what a distribution would register through its hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tileops_core.backend.contract import (
    BuilderRegistration,
    KernelTypeRegistration,
    Registration,
    TargetRegistration,
)
from tileops_core.backend.loader import RUNTIME
from tileops_core.backend.registry import REGISTRY

if TYPE_CHECKING:
    import torch


def register_target(name: str, detect: Callable[[torch.device], bool] | str) -> None:
    """Add a target to this process.

    Registering the same function again, or the same after a reload of its module, is no conflict.

    Args:
        name: what ``target=`` shall take.
        detect: whether a device is what the target's kernels are for.

    Raises:
        BackendError: the name is another backend's.
    """
    REGISTRY.add([TargetRegistration(name, detect)])


def register_kernel_builder(op: str, target: str, build_kernel: Callable[..., Any] | str) -> None:
    """Let a target of this process, or an installed one, serve one more op.

    Args:
        op: the op's class name.
        target: a registered target.
        build_kernel: see ``BuilderRegistration``.

    Raises:
        BackendError: there is no such target, or it serves the op already.
    """
    REGISTRY.add([BuilderRegistration(op, target, build_kernel)])


def register_kernel_type(
    op: str, key: str, kernel_type: type | str, *, backend: str = RUNTIME
) -> None:
    """Add an implementation to an op's kernel interface in this process.

    Args:
        op: the op's class name.
        key: the implementation's name.
        kernel_type: a ``Kernel`` class that implements one of the op's interfaces.
        backend: whose it shall be, so that ``target=backend`` asks for it.

    Raises:
        BackendError: the op has an implementation of that name.
    """
    REGISTRY.add([KernelTypeRegistration(op, key, kernel_type)], backend=backend)


def unregister_backend(name: str) -> None:
    """Take out all that one backend registered. Live ops keep what they resolved.

    Args:
        name: a backend's name; ``"runtime"`` for what was registered in this process.

    Raises:
        UnknownTargetError: there is no such backend.
    """
    REGISTRY.remove(name)


@contextmanager
def registered(*registrations: Registration, backend: str = RUNTIME) -> Iterator[None]:
    """Register for the length of a ``with`` block, then take back what this block added.

    Args:
        registrations: any of the registration classes, checked together, all or none.
        backend: the name of the backend that they belong to.

    Raises:
        BackendError: one of them conflicts with what is there.
    """
    done = REGISTRY.add(registrations, backend=backend)
    try:
        yield
    finally:
        REGISTRY.take_back(done)
