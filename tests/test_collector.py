"""The collector looks less often for a while, and as often as before afterwards."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref

import pytest
from call_support import python

from tileops_core import collector
from tileops_core.collector import nothing_older, rare_collection


@pytest.fixture(autouse=True)
def _usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def test_it_looks_rarely_inside():
    with rare_collection():
        assert gc.get_threshold() == (100_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_failure_puts_back_what_was():
    with pytest.raises(KeyError), rare_collection():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, 200_000])
def test_who_looks_still_less_often_goes_on_so(first):
    gc.set_threshold(first, 10, 10)
    with rare_collection():
        assert gc.get_threshold()[0] == first
    assert gc.get_threshold()[0] == first


def test_contexts_may_lie_in_one_another():
    with rare_collection():
        with rare_collection():
            pass
        assert gc.get_threshold()[0] == 100_000
    assert gc.get_threshold()[0] == 700


def test_the_last_thread_that_leaves_puts_back_what_was():
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with rare_collection():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    with rare_collection():
        thread.start()
        entered.wait()
    assert gc.get_threshold()[0] == 100_000
    leave.set()
    thread.join()
    assert gc.get_threshold()[0] == 700


class Thing:
    """An object that the collector knows, and weak references too."""


def _filed(thing):
    return [n for n in range(3) if any(o is thing for o in gc.get_objects(n))]


def test_what_is_there_at_the_end_is_old():
    thing = Thing()
    with rare_collection():
        inside = Thing()
    assert _filed(thing) == _filed(inside) == [2]
    assert gc.get_freeze_count() == 0


def test_garbage_of_the_context_goes_with_the_next_full_collection():
    with rare_collection():
        cycle = Thing()
        cycle.itself = cycle
        seen = weakref.ref(cycle)
        del cycle
    gc.collect()
    assert seen() is None


def test_what_somebody_has_frozen_stays_frozen():
    gc.collect()
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with rare_collection():
            inside = Thing()
        assert gc.get_freeze_count() >= frozen - 100  # some were released meanwhile
        assert frozen > 1000
        assert _filed(inside) != [2]
    finally:
        gc.unfreeze()


def test_a_collector_that_rests_is_left_alone():
    gc.disable()
    try:
        with rare_collection():
            assert gc.get_threshold() == (700, 10, 10)
            inside = Thing()
        assert _filed(inside) == [0]
    finally:
        gc.enable()


@pytest.mark.parametrize("module", ["tileops_core.ops", "tileops_core.ops.norm"])
def test_importing_an_op_looks_through_torchs_objects_not_once(module):
    done = python(
        f"""
        import gc
        import torch

        gc.collect()
        usual = gc.get_threshold()
        seen = []
        gc.callbacks.append(lambda phase, info: seen.append((phase, info["generation"])))
        from {module} import RMSNormFwdOp

        assert gc.get_threshold() == usual, gc.get_threshold()
        assert ("start", 2) not in seen, seen
        """
    )
    assert done.returncode == 0, done.stderr


def test_what_was_there_is_passed_over_for_a_while():
    thing = Thing()
    with nothing_older():
        assert _filed(thing) == []
        assert gc.get_freeze_count() > 1000
    assert _filed(thing) == [2]
    assert gc.get_freeze_count() == 0


def test_what_somebody_has_frozen_is_not_released_either():
    gc.freeze()
    try:
        with nothing_older():
            pass
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_what_the_program_dropped_before_goes_on_entering():
    cycle = Thing()
    cycle.itself = cycle
    seen = weakref.ref(cycle)
    del cycle
    with rare_collection():
        assert seen() is None


def test_a_threshold_that_is_set_inside_stays():
    with rare_collection():
        gc.set_threshold(50_000, 20, 20)
    assert gc.get_threshold() == (50_000, 20, 20)


def test_a_finalizer_may_enter_while_the_lock_is_held():
    """Or a signal handler: both run in whatever thread, between two instructions."""
    done = threading.Event()

    def interrupted():
        with collector._lock, rare_collection():
            done.set()

    threading.Thread(target=interrupted, daemon=True).start()
    assert done.wait(20)


def test_an_interrupt_on_entering_leaves_nothing(monkeypatch):
    def interrupted(*threshold):
        monkeypatch.undo()
        gc.set_threshold(*threshold)
        raise KeyboardInterrupt

    monkeypatch.setattr(collector.gc, "set_threshold", interrupted)
    with pytest.raises(KeyboardInterrupt), rare_collection():
        pass
    assert gc.get_threshold() == (700, 10, 10)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def _in_child(look):
    """The exit status of a child process that is forked here; ``look`` says whether all is well."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if look() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("locked", [False, True])
def test_a_child_process_is_not_left_with_what_another_thread_set(locked):
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with rare_collection():
            if locked:
                collector._lock.acquire()
            entered.set()
            leave.wait(20)
            if locked:
                collector._lock.release()

    def look():
        before = gc.get_threshold()
        with rare_collection():
            inside = gc.get_threshold()
        return before == gc.get_threshold() == (700, 10, 10) and inside[0] == 100_000

    thread = threading.Thread(target=stay)
    thread.start()
    assert entered.wait(20)
    try:
        assert _in_child(look) == 0
    finally:
        leave.set()
        thread.join()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_goes_on_inside_where_its_thread_is():
    def look():
        return gc.get_threshold()[0] == 100_000

    with rare_collection():
        assert _in_child(look) == 0


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_keeps_nothing_frozen_that_was_being_filed(monkeypatch):
    def freeze_and_fork():
        monkeypatch.undo()
        gc.freeze()
        statuses.append(_in_child(lambda: gc.get_freeze_count() == 0))

    statuses = []
    monkeypatch.setattr(collector.gc, "freeze", freeze_and_fork)
    with rare_collection():
        pass
    assert statuses == [0]
