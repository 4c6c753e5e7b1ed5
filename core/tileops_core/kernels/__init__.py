"""What a kernel author imports: call specs, kernel interfaces, kernels and device facts."""

from __future__ import annotations

from tileops_core.kernels.call_spec import CallSpec
from tileops_core.kernels.device_facts import DeviceFacts
from tileops_core.kernels.kernel import Kernel, KernelInterface

__all__ = ["CallSpec", "DeviceFacts", "Kernel", "KernelInterface"]
