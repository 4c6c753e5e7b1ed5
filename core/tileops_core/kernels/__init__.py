"""What a kernel author imports: call specs, kernel interfaces, kernels, device facts, builds,
and where to keep what lasts.
"""

from __future__ import annotations

from tileops_core.collector import rare_collection
from tileops_core.disk import cache_directory

with rare_collection():  # here too, for those who import a family's module by its name
    from tileops_core.kernels.builds import BuildOnce
    from tileops_core.kernels.call_spec import CallSpec
    from tileops_core.kernels.device_facts import DeviceFacts
    from tileops_core.kernels.kernel import Kernel, KernelInterface

__all__ = ["BuildOnce", "CallSpec", "DeviceFacts", "Kernel", "KernelInterface", "cache_directory"]
