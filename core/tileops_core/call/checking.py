"""Checks that cost too much for every call, switched on for a thread.

While any thread has them on, no call takes the hit path; only the thread that asked pays for
the checks themselves.
"""

from __future__ import annotations

import os
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
    def __init__(self) -> None:
        self.asked: list[Checks] = []


_THREAD = _PerThread()
_NONE = Checks()


def active() -> Checks:
    """This thread's checks: what any of the blocks asks for that it is in."""
    asked = _THREAD.asked
    if not asked:
        return _NONE
    return Checks(any(one.metadata for one in asked), any(one.purity for one in asked))


@contextmanager
def checks(*, metadata: bool = False, purity: bool = False) -> Iterator[None]:
    """Check more than a normal call does, on this thread, inside the ``with``.

    Blocks may end in any order, as those of a thread's tasks and generators do.

    Args:
        metadata: also read the values of metadata tensors and check what the entry requires.
        purity: also check that a kernel writes nothing that it does not declare, and that it
            hands out no memory that an earlier result still uses.
    """
    asked, mine, ident = _THREAD.asked, Checks(metadata, purity), threading.get_ident()
    asked.append(mine)
    WATCHING.append(ident)
    try:
        yield
    finally:
        asked.remove(mine)
        WATCHING.remove(ident)


def _after_fork() -> None:
    """Forget the threads that stayed in the parent; 0 is the composites' to take away."""
    WATCHING[:] = [one for one in WATCHING if one in (0, threading.get_ident())]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
