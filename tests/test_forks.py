"""A child process finds locks that nobody holds."""

from __future__ import annotations

import os
import threading

import pytest

from tileops_core.forks import renewed_lock

_LOCK = renewed_lock(globals(), "_LOCK")


def test_the_holder_may_take_the_lock_again():
    with _LOCK, _LOCK:
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_a_thread_of_its_parent():
    held, done = threading.Event(), threading.Event()

    def hold():
        with _LOCK:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        assert not _LOCK.acquire(blocking=False)
        child = os.fork()
        if child == 0:
            os._exit(0 if _LOCK.acquire(timeout=30) else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        thread.join()
