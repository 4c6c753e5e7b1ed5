"""Which processor libraries are compiled for."""

from __future__ import annotations

import functools
import hashlib
import platform
import re
from pathlib import Path

_INFO = Path("/proc/cpuinfo")
_MODEL = ("model name", "cpu model", "cpu part")
_FEATURES = ("flags", "features")


@functools.lru_cache(maxsize=1)
def processor() -> str:
    """A name for the processor's model and everything it can do, fit for a directory.

    Libraries are compiled for the very processor: on one with fewer instructions they would be
    ended by a signal, so such a one must have another name.
    """
    model, features = _read(_INFO.read_text() if _INFO.exists() else "")
    model = model or platform.processor() or platform.machine()
    digest = hashlib.sha256(f"{platform.machine()}\n{model}\n{features}".encode()).hexdigest()[:12]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', model).strip('-').lower()}-{digest}"


def _read(info: str) -> tuple[str, str]:
    """The model and the features of the first processor listed."""
    facts: dict[str, str] = {}
    for line in info.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            facts.setdefault(name.strip().lower(), value.strip())
    model = next((facts[name] for name in _MODEL if name in facts), "")
    features = next((facts[name] for name in _FEATURES if name in facts), "")
    return model, " ".join(sorted(features.split()))
