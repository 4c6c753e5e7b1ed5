"""Where the library keeps what lasts longer than a process."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path | None:
    """``TILEOPS_CACHE_DIR``, else ``tileops`` in the user's cache directory.

    None for a user without a home, which is what many containers run as.
    """
    given = os.environ.get("TILEOPS_CACHE_DIR")
    try:
        if given:
            return Path(given).expanduser().absolute()
        # The convention has it that a relative path counts as none.
        caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return (caches if caches.is_absolute() else Path.home() / ".cache") / "tileops"
    except RuntimeError:
        return None
