"""What this machine's CPU has been measured to do, kept for other processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

from tileops_core.disk import cache_directory
from tileops_core.record.profiles import DeviceProfile


def read(name: str, threads: int) -> DeviceProfile | None:
    """The measured profile of a processor, None where it was not measured.

    Args:
        name: The processor's model.
        threads: How many threads compute.
    """
    path = _path(name, threads)
    try:
        kept = json.loads(path.read_text(encoding="utf-8")) if path is not None else None
        if kept is None or (kept["device"], kept["threads"]) != (name, threads):
            return None
        peaks = {str(key): float(rate) for key, rate in kept["peaks"].items()}
        rates = [float(kept["bandwidth"]), *peaks.values()]
        if not all(0 < rate < float("inf") for rate in rates):
            return None
        return profile(name, threads, rates[0], peaks)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # damaged, or of another version: as good as not measured


def profile(name: str, threads: int, bandwidth: float, peaks: dict[str, float]) -> DeviceProfile:
    """A measured profile."""
    count = f"{threads} thread{'s' if threads > 1 else ''}"
    return DeviceProfile(
        "cpu", bandwidth, peaks, f"measured on this machine by torch, {name}, {count}"
    )


def keep(name: str, threads: int, found: DeviceProfile) -> Path | None:
    """Keep a profile; where nothing can be written it is not kept.

    Returns:
        The file.
    """
    path = _path(name, threads)
    if path is None:
        return None
    kept = {
        "device": name,
        "threads": threads,
        "bandwidth": found.bandwidth,
        "peaks": dict(found.peaks),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".cpu-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
    except OSError:
        return None
    return path


def _path(name: str, threads: int) -> Path | None:
    directory = cache_directory()
    digest = hashlib.sha256(f"{name}\n{threads}".encode()).hexdigest()[:16]
    return None if directory is None else directory / "profiles" / f"cpu-{digest}.json"
