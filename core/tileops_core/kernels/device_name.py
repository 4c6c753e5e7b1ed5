"""What a device is called, by its maker."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

import torch

_INFO = Path("/proc/cpuinfo")
_MODEL = ("model name", "cpu model", "cpu part")


def device_name(device: torch.device) -> str:
    """The model of a device, for example ``"NVIDIA H100 80GB HBM3"``.

    Args:
        device: A device with its index; of a type that cannot be asked, the type is all there is.
    """
    if device.type == "cpu":
        return _processor()
    module = getattr(torch, device.type, None)
    asked = getattr(module, "get_device_name", None)
    if asked is None or not module.is_available():  # type: ignore[union-attr]
        return device.type
    return str(asked(device))


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    facts: dict[str, str] = {}
    for line in _INFO.read_text().splitlines() if _INFO.exists() else ():
        name, colon, value = line.partition(":")
        if colon:
            facts.setdefault(name.strip().lower(), value.strip())
    named = next((facts[name] for name in _MODEL if name in facts), "")
    return named or platform.processor() or platform.machine()
