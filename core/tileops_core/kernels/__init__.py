"""What a kernel author imports: call specs, kernel interfaces, kernels, device facts, builds,
and where to keep what lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.lazily import lazily

if TYPE_CHECKING:
    from tileops_core.disk import cache_directory
    from tileops_core.kernels.builds import BuildOnce
    from tileops_core.kernels.call_spec import CallSpec
    from tileops_core.kernels.device_facts import DeviceFacts
    from tileops_core.kernels.kernel import Kernel, KernelInterface

__all__ = ["BuildOnce", "CallSpec", "DeviceFacts", "Kernel", "KernelInterface", "cache_directory"]

_HOMES = {
    "BuildOnce": "kernels.builds",
    "CallSpec": "kernels.call_spec",
    "DeviceFacts": "kernels.device_facts",
    "Kernel": "kernels.kernel",
    "KernelInterface": "kernels.kernel",
    "cache_directory": "disk",
}

if not TYPE_CHECKING:  # or a checker would take every name for one that is there
    __getattr__, __dir__ = lazily(__name__, _HOMES)
