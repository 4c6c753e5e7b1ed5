"""Python's collector of garbage in cycles, asked to look less often for a while.

Torch alone makes some hundred thousand objects. To look through all of them takes as long as to
import a family of ops, which makes no garbage and many objects that stay.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RARE = 100_000
_lock = threading.Lock()
_inside = 0
_usual = (0, 0, 0)


@contextmanager
def rare_collection() -> Iterator[None]:
    """A context in which the collector looks once per 100,000 new objects, in all threads.

    May be entered by several threads and again inside; the last that leaves puts back what was.
    """
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            if 0 < _usual[0] < _RARE:  # at 0 it never looks
                gc.set_threshold(_RARE, *_usual[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_usual)
