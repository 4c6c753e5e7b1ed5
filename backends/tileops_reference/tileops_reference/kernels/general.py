"""What all kernel types of this distribution share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileops_core.kernels import Kernel


class GeneralKernel(Kernel):
    """Runs on any device and serves what no faster kernel type does."""

    devices = None
    general = True


def torch_function(function: Callable[..., Any]) -> Any:
    """Torch's own function as a class's ``forward``: no Python frame stands before it."""
    return staticmethod(function)
