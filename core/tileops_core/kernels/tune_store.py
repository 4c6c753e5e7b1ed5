"""What tuning has chosen, on disk: shared by processes, and safe against what happens to files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tileops_core.disk import cache_directory

_log = logging.getLogger("tileops.tune")

_known: dict[str, int] = {}
"""What this process has chosen or read, for where nothing can be written."""


def chosen(key: Mapping[str, Any], count: int) -> int | None:
    """The number of the configuration that was chosen for a key, or None where none was.

    Args:
        key: What the choice depends on.
        count: How many configurations there are.
    """
    digest = _digest(key)
    number = _known.get(digest)
    if number is None:
        number = _read(digest, key)
    # Whatever stands there: a choice is one of those that there are.
    return number if type(number) is int and 0 <= number < count else None


def keep(key: Mapping[str, Any], number: int, seconds: Mapping[str, float]) -> None:
    """Keep a choice.

    Args:
        key: What it depends on.
        number: The chosen configuration's.
        seconds: What each configuration took, for whoever reads the file.
    """
    digest = _digest(key)
    _known[digest] = number
    directory = _directory()
    if directory is None:
        return
    text = json.dumps({"key": key, "chosen": number, "seconds": seconds}, indent=1, default=str)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Written aside and moved in one step: others see the whole file or none.
        handle, name = tempfile.mkstemp(dir=directory, prefix=f".{digest[:8]}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, directory / f"{digest}.json")
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        _log.info("what was tuned lasts for this process: %s", error)


def forget() -> None:
    """Forget what this process knows, so that the disk is asked."""
    _known.clear()


def _read(digest: str, key: Mapping[str, Any]) -> Any:
    directory = _directory()
    if directory is None:
        return None
    path = directory / f"{digest}.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if _digest(found["key"]) != digest:
            raise ValueError("it belongs to another key")
        number = found["chosen"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.info("%s is tuned again, because the file cannot be used: %s", path, error)
        return None
    _known[digest] = number
    return number


def _directory() -> Path | None:
    directory = cache_directory()
    return None if directory is None else directory / "tuning"


def _digest(key: Mapping[str, Any]) -> str:
    text = json.dumps(key, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
