"""Locks in processes that fork: a child would wait for ever for a thread that it does not have."""

from __future__ import annotations

import os
import threading
from typing import Any


def renewed_lock(module: dict[str, Any], name: str) -> Any:
    """A re-entrant lock that a module keeps; a child process finds another one, held by nobody.

    Args:
        module: the module's ``globals()``, where the lock is looked up at each use.
        name: what it is called there.
    """

    def renew() -> None:
        module[name] = threading.RLock()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return threading.RLock()
