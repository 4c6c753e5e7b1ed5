"""Python's collector of garbage in cycles, asked to look less often for a while.

Torch alone makes some hundred thousand objects. To look through all of them takes as long as to
import a family of ops, which makes little garbage and many objects that stay. They are filed as
old ones at the end, because the collector would look through them twice to find out that they are.
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
    All objects that are there by then wait for a full collection, as old ones do.
    """
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            if _looks(_usual):
                gc.set_threshold(_RARE, *_usual[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                # Where somebody has frozen objects, or has the collector rest, it is theirs alone.
                if _looks(_usual) and not gc.get_freeze_count():
                    gc.freeze()
                    gc.unfreeze()
                gc.set_threshold(*_usual)


@contextmanager
def nothing_older() -> Iterator[None]:
    """A context in which the collector passes over what is there before, most of what there is."""
    gc.collect()
    if gc.get_freeze_count():  # somebody else's, and they could not be told apart at the end
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _looks(threshold: tuple[int, int, int]) -> bool:
    """Whether the collector looks by itself, and more often than here; at 0 it never does."""
    return gc.isenabled() and 0 < threshold[0] < _RARE
