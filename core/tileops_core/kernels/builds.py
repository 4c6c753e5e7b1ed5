"""Build at most once per key, however many threads ask together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

_Value = TypeVar("_Value")

_MISSING: Any = object()

_guard = threading.RLock()
"""Held for a few instructions to claim, publish or wait; never while something is built.

Re-entrant, because a finalizer that runs meanwhile may call an op.
"""

_waiting: dict[int, _Build] = {}
"""Thread id -> the build it waits for. Of all tables: builders may cross from one to another."""


def _after_fork() -> None:
    global _guard
    _guard = threading.RLock()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Signal:
    """An event that an interrupt cannot break, as it can those of ``threading``.

    Those hold a lock of their own for some instructions of Python. Who is interrupted there leaves
    it locked, and the next who sets them waits for it.
    """

    __slots__ = ("_is_set", "_locks")

    def __init__(self) -> None:
        self._locks: list[threading.Lock] = []
        self._is_set = False

    def wait(self) -> None:
        """Wait until it is set."""
        lock = threading.Lock()
        lock.acquire()
        self._locks.append(lock)
        if not self._is_set:  # asked behind the append: who sets it does the two in the other order
            lock.acquire()

    def set(self) -> None:
        """Wake everybody up; may be done again where it was interrupted."""
        self._is_set = True
        for lock in self._locks:
            if lock.locked():
                lock.release()


class _Build:
    """One build in progress: whose it is, its value, and a signal for those who wait for it.

    The signal is made by the first who waits: nearly always nobody does.
    """

    __slots__ = ("done", "ended", "key", "owner", "process", "value")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.owner = threading.get_ident()
        self.process = os.getpid()
        self.ended = False
        self.done: _Signal | None = None
        self.value = _MISSING

    @property
    def running(self) -> bool:
        """False when it has ended, or when its thread stayed behind in the parent process."""
        return not self.ended and self.process == os.getpid()


class BuildOnce(Generic[_Value]):
    """A table that makes the value of a key at most once at a time and keeps it.

    Threads that miss the same key together wait for the one that builds; different keys are built
    in parallel. A build that raises anything leaves no trace, and the next that wants the key
    builds it itself. A builder may get other keys, of this table or another.

    Args:
        weak: Keep a value only as long as somebody else holds it; then values must allow weak
            references.
    """

    __slots__ = ("_built", "_running")

    def __init__(self, *, weak: bool = False) -> None:
        self._built: dict[Hashable, _Value] | WeakValueDictionary[Hashable, _Value] = (
            WeakValueDictionary() if weak else {}
        )
        self._running: dict[Hashable, _Build] = {}

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """The value of a key, made by ``make()`` if nobody has made it yet.

        Args:
            key: What was compiled in, and for what device.
            make: Called without any lock held, at most once at a time per key.

        Returns:
            The value; the same object for everybody.

        Raises:
            RuntimeError: The build needs itself: in this thread, or through builds of other
                threads that wait for one another.
        """
        value: _Value = self._built.get(key, _MISSING)
        return self._miss(key, make) if value is _MISSING else value

    def items(self) -> tuple[tuple[Any, _Value], ...]:
        """The finished values with their keys, oldest first; a snapshot."""
        # Both ways copy in one step, so that other threads may build meanwhile.
        if isinstance(self._built, dict):
            return tuple(self._built.copy().items())
        held = [(ref.key, ref()) for ref in self._built.valuerefs()]
        return tuple((key, value) for key, value in held if value is not None)

    def __len__(self) -> int:
        return len(self._built)

    def _miss(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        while True:
            mine = _Build(key)
            gone = False
            try:
                try:
                    with _guard:
                        # In this order: a build publishes before it ends, so one that has ended by
                        # the first question is found by the second.
                        other = self._running.get(key)
                        running = other is not None and other.running
                        # One look-up: a weakly held value may be gone by a second one.
                        found: _Value = self._built.get(key, _MISSING)
                        if found is not _MISSING:
                            return found
                        if other is None or not running:
                            self._running[key] = mine
                            other = None
                        else:
                            _refuse_cycle(other)
                            _waiting[mine.owner] = other
                            done = other.done = other.done or _Signal()
                    if other is None:
                        value = make()
                        mine.value = self._built[key] = value
                        return value
                    done.wait()
                    if other.value is not _MISSING:
                        return cast(_Value, other.value)
                finally:
                    # One place undoes all of it, so that an interrupt anywhere leaves nothing.
                    self._end(mine)
                    gone = True
            finally:
                if not gone:  # it came right here, and a second time would be another interrupt
                    self._end(mine)

    def _end(self, mine: _Build) -> None:
        """Leave nothing of a build or of a wait; may be done again if it was interrupted."""
        mine.ended = True
        with _guard:
            if mine.done is not None:
                mine.done.set()
            _waiting.pop(mine.owner, None)
            if self._running.get(mine.key) is mine:
                del self._running[mine.key]
                if not self._running:
                    self._running.clear()  # gives the memory of a once full table back


def _refuse_cycle(wanted: _Build) -> None:
    """Raise if waiting for a build would wait for this thread itself; the guard is held."""
    me = threading.get_ident()
    chain = [wanted]
    while chain[-1].owner != me:
        next_one = _waiting.get(chain[-1].owner)
        if next_one is None or not next_one.running:
            return
        chain.append(next_one)
    if len(chain) == 1:
        raise RuntimeError(
            f"the build of {wanted.key!r} asked for itself: a build cannot need its own result"
        )
    keys = " needs ".join(repr(build.key) for build in (*chain, wanted))
    raise RuntimeError(f"builds in {len(chain)} threads wait for one another: {keys}")
