"""Python's collector of garbage in cycles, asked to look less often for a while.

Torch alone makes some hundred thousand objects. To look through all of them takes as long as to
import a family of ops, which makes little garbage and many objects that stay. They are filed as
old ones at the end, because the collector would look through them twice to find out that they are.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

_Threshold: TypeAlias = "tuple[int, int, int]"

_RARE = 100_000

# Each step below leaves what the others can go on from: a signal handler or a finalizer that runs
# between two of them may enter a context of its own, and a fork may take place there.
_lock = threading.RLock()
_inside: dict[object, int] = {}
"""Who is in a context, with its thread; an object each, to be taken out twice without harm."""
_changed: tuple[_Threshold, _Threshold] | None = None
"""The threshold that was, and the one that was set here; None while nothing is set."""
_filing = False


@contextmanager
def rare_collection() -> Iterator[None]:
    """A context in which the collector looks once per 100,000 new objects, in all threads.

    May be entered by several threads and again inside; the last that leaves puts back what was,
    unless the program has set another threshold meanwhile.

    All objects that are there by then are filed as old ones: they wait for a full collection. So
    the young ones are looked through on entering, and what the program has dropped goes. What still
    waits is garbage in cycles that is made inside the context, by whatever thread, and what was
    filed as old before.
    """
    if not _inside and _looks(gc.get_threshold()):
        gc.collect(1)  # without the lock: finalizers run, and may wait for other threads
    mine = object()
    try:
        with _lock:
            _inside[mine] = threading.get_ident()
            _look_rarely()
        yield
    finally:
        with _lock:
            _inside.pop(mine, None)
            if not _inside:
                _look_as_before(file=True)


def _look_rarely() -> None:
    global _changed
    if _changed is None:
        usual = gc.get_threshold()
        if _looks(usual):
            _changed = usual, (_RARE, *usual[1:])
            gc.set_threshold(*_changed[1])


def _look_as_before(*, file: bool) -> None:
    global _changed
    if _changed is None:
        return
    usual, ours = _changed
    # Where somebody has frozen objects, or has the collector rest, it is theirs alone.
    if file and gc.isenabled() and not gc.get_freeze_count():
        _file_as_old()
    if gc.get_threshold() == ours:
        gc.set_threshold(*usual)
    _changed = None


def _file_as_old() -> None:
    global _filing
    _filing = True
    try:
        gc.freeze()
    finally:
        gc.unfreeze()
        _filing = False


def _after_fork() -> None:
    """In the child, the other threads are gone, and with them whoever would have put back."""
    global _lock, _filing
    _lock = threading.RLock()
    if _filing:
        gc.unfreeze()
        _filing = False
    me = threading.get_ident()
    for one, thread in tuple(_inside.items()):
        if thread != me:
            del _inside[one]
    if not _inside:
        _look_as_before(file=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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


def _looks(threshold: _Threshold) -> bool:
    """Whether the collector looks by itself, and more often than here; at 0 it never does."""
    return gc.isenabled() and 0 < threshold[0] < _RARE
