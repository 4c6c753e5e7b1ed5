"""Checks that cost too much for every call, switched on for a thread.

While any thread has them on, no call takes the hit path; only the thread that asked pays for
the checks themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

WATCHING: list[int] = []
"""Not empty while some thread is checking; the hit path asks whether it is empty."""


@attrs.frozen(slots=True)
class Checks:
    """What this thread checks on top. ``metadata``: read the values of tensors that describe
    others. ``purity``: inputs stay as they were, and no memory is handed out twice.
    """

    metadata: bool = False
    purity: bool = False


class _PerThread(threading.local):
    active: Checks = Checks()


_THREAD = _PerThread()


def active() -> Checks:
    """This thread's checks."""
    return _THREAD.active


@contextmanager
def checks(*, metadata: bool = False, purity: bool = False) -> Iterator[None]:
    """Check more than a normal call does, on this thread, inside the ``with``.

    Args:
        metadata: also read the values of metadata tensors and check what the entry requires.
        purity: also check that a kernel writes nothing that it does not declare, and that it
            hands out no memory that an earlier result still uses.
    """
    before = _THREAD.active
    _THREAD.active = Checks(before.metadata or metadata, before.purity or purity)
    ident = threading.get_ident()
    WATCHING.append(ident)
    try:
        yield
    finally:
        _THREAD.active = before
        WATCHING.remove(ident)
