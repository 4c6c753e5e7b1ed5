from __future__ import annotations

import gc
import linecache
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tileops_core.kernels import builds
from tileops_core.kernels.builds import BuildOnce

PATIENCE = 20.0
"""Seconds until a test that would hang fails instead; nothing waits this long when all is well."""


class Slow:
    """A builder that lasts until it is let go, so that others certainly ask meanwhile."""

    def __init__(self, value):
        self.value = value
        self.count = 0
        self.started = threading.Event()
        self.let_go = threading.Event()

    def __call__(self):
        self.count += 1
        self.started.set()
        assert self.let_go.wait(PATIENCE)
        return self.value


def in_threads(*functions):
    """Run functions in threads that start together; their results or exceptions, in order."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait(PATIENCE)
        try:
            return function()
        except BaseException as error:
            return error

    with ThreadPoolExecutor(len(functions)) as pool:
        return [f.result(PATIENCE) for f in [pool.submit(run, function) for function in functions]]


def until(condition):
    """Let other threads run until a condition holds."""
    waited = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        if condition():
            return
        waited.wait(0.001)
    raise AssertionError("the condition never held")


def raising(error):
    def make():
        raise error

    return make


def test_a_value_is_made_once_and_kept():
    table = BuildOnce()
    made = table.get("a", object)
    assert table.get("a", raising(AssertionError("built again"))) is made


def test_a_value_may_be_anything_even_none():
    table = BuildOnce()
    assert table.get("a", lambda: None) is None
    assert table.get("a", raising(AssertionError("built again"))) is None


def test_items_are_the_finished_values_in_order():
    table = BuildOnce()
    table.get("b", lambda: 1)
    table.get("a", lambda: 2)
    assert table.items() == (("b", 1), ("a", 2))
    assert len(table) == 2


def test_items_show_no_build_in_progress():
    table = BuildOnce()
    seen = table.get("a", lambda: (table.items(), len(table)))
    assert seen == ((), 0)


def test_one_thread_builds_while_seven_wait():
    """PIPE-16: eight threads miss one key together."""
    table, slow = BuildOnce(), Slow(object())

    def ask():
        return table.get("key", slow)

    def release():
        assert slow.started.wait(PATIENCE)
        slow.let_go.set()

    *values, _ = in_threads(*[ask] * 8, release)
    assert values == [slow.value] * 8
    assert slow.count == 1


def test_every_key_is_built_once_under_many_threads():
    """PIPE-16: eight threads miss four keys together, again and again."""
    counts = dict.fromkeys(range(4), 0)
    table = BuildOnce()

    def ask():
        def make(key):
            counts[key] += 1
            return key * 10

        return [table.get(key, lambda key=key: make(key)) for key in range(4)]

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert in_threads(*[ask] * 8) == [[0, 10, 20, 30]] * 8
    finally:
        sys.setswitchinterval(switch)
    assert set(counts.values()) == {1}


def test_different_keys_are_built_at_the_same_time():
    """No global lock: each of two builds ends only when the other has begun."""
    table, one, other = BuildOnce(), Slow(1), Slow(2)

    def ask(mine, his, key):
        def make():
            his.let_go.set()
            return mine()

        return table.get(key, make)

    assert in_threads(lambda: ask(one, other, "a"), lambda: ask(other, one, "b")) == [1, 2]


def test_a_failed_build_leaves_nothing_and_the_next_call_builds():
    """DIS-01: the first build fails, the second call is as good as new."""
    table = BuildOnce()
    with pytest.raises(OSError, match="no compiler"):
        table.get("a", raising(OSError("no compiler")))
    assert len(table) == 0
    assert table.get("a", lambda: 7) == 7


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_any_exception_leaves_nothing(error):
    table = BuildOnce()
    with pytest.raises(type(error)):
        table.get("a", raising(error))
    assert table.get("a", lambda: 7) == 7


def test_a_failure_is_raised_without_a_history_of_ours():
    with pytest.raises(OSError, match="no compiler") as caught:
        BuildOnce().get("a", raising(OSError("no compiler")))
    assert caught.value.__context__ is None


def test_a_waiter_retries_after_a_failed_build():
    table, slow = BuildOnce(), Slow(None)
    asked = threading.Event()

    def fail():
        slow()
        raise OSError("no compiler")

    def second():
        assert slow.started.wait(PATIENCE)
        asked.set()
        return table.get("a", lambda: "second")

    def release():
        assert asked.wait(PATIENCE)
        slow.let_go.set()

    first, second_result, _ = in_threads(lambda: table.get("a", fail), second, release)
    assert isinstance(first, OSError)
    assert second_result == "second"
    assert table.items() == (("a", "second"),)


def test_each_waiter_meets_its_own_failure():
    """A failure belongs to the thread whose build it was; nobody gets another's exception."""
    table = BuildOnce()
    errors = [OSError(str(i)) for i in range(8)]
    asks = [lambda error=error: table.get("a", raising(error)) for error in errors]
    assert in_threads(*asks) == errors


def test_a_builder_may_build_other_keys():
    table = BuildOnce()
    assert table.get("a", lambda: table.get("b", lambda: 1) + 1) == 2
    assert table.items() == (("b", 1), ("a", 2))


def test_a_build_that_needs_itself_is_an_error():
    table = BuildOnce()
    with pytest.raises(RuntimeError, match="the build of 'a' asked for itself"):
        table.get("a", lambda: table.get("a", lambda: 1))
    assert table.get("a", lambda: 7) == 7


def test_a_build_that_needs_itself_through_another_is_an_error():
    table = BuildOnce()

    def a():
        return table.get("b", b)

    def b():
        return table.get("a", a)

    with pytest.raises(RuntimeError, match="the build of 'a' asked for itself"):
        table.get("a", a)
    assert len(table) == 0


def crossing(first, second):
    """Two builders that begin together, and then each want what the other builds."""
    met = threading.Barrier(2)

    def make(want):
        def build():
            met.wait(PATIENCE)
            return want()

        return build

    return in_threads(
        lambda: first.get("a", make(lambda: second.get("b", lambda: first.get("a", int)))),
        lambda: second.get("b", make(lambda: first.get("a", lambda: second.get("b", int)))),
    )


@pytest.mark.parametrize("tables", ["one", "two"])
def test_builds_that_wait_for_one_another_are_an_error(tables):
    """Two threads, A needs B and B needs A: an error in both, a hang in none."""
    first = BuildOnce()
    second = first if tables == "one" else BuildOnce()
    results = crossing(first, second)
    assert [type(result) for result in results] == [RuntimeError, RuntimeError]
    texts = {str(result) for result in results}
    assert any("wait for one another" in text for text in texts)
    assert len(first) == len(second) == 0
    assert first.get("a", lambda: 7) == 7


def test_three_threads_in_a_circle_are_an_error():
    table, met = BuildOnce(), threading.Barrier(3)

    def build(depth, key):
        def make():
            if depth == 0:
                met.wait(PATIENCE)
            return build(depth + 1, (key + 1) % 3)

        return table.get(key, make)

    results = in_threads(*[lambda key=key: build(0, key) for key in range(3)])
    assert {type(result) for result in results} == {RuntimeError}
    assert any("builds in 3 threads wait for one another" in str(result) for result in results)
    assert len(table) == 0


def test_a_chain_of_waiters_is_no_circle():
    table, slow = BuildOnce(), Slow("c")

    def third():
        assert slow.started.wait(PATIENCE)
        return table.get("a", lambda: table.get("b", lambda: table.get("c", slow) + "b") + "a")

    def release():
        assert slow.started.wait(PATIENCE)
        until(lambda: len(table._running) == 3)
        slow.let_go.set()

    results = in_threads(lambda: table.get("c", slow), third, release)
    assert results[:2] == ["c", "cba"]


def test_an_interrupted_waiter_leaves_the_build_alone(monkeypatch):
    table, slow = BuildOnce(), Slow("value")

    class Interrupted(threading.Event().__class__):
        def wait(self, timeout=None):
            raise KeyboardInterrupt

    def interrupted():
        assert slow.started.wait(PATIENCE)
        table._running["a"].done = Interrupted()
        try:
            return table.get("a", lambda: "mine")
        finally:
            slow.let_go.set()

    builder, waiter = in_threads(lambda: table.get("a", slow), interrupted)
    assert builder == "value"
    assert isinstance(waiter, KeyboardInterrupt)
    assert table.get("a", lambda: "again") == "value"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_does_not_wait_for_a_build_of_its_parent():
    table, slow = BuildOnce(), Slow("parent's")
    builder = threading.Thread(target=table.get, args=("a", slow))
    builder.start()
    assert slow.started.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        os._exit(0 if table.get("a", lambda: "child's") == "child's" else 1)
    _, status = os.waitpid(child, 0)
    slow.let_go.set()
    builder.join(PATIENCE)
    assert os.waitstatus_to_exitcode(status) == 0
    assert table.items() == (("a", "parent's"),)


def test_entries_of_one_factory_with_different_captured_values_are_two():
    """DIS-11: what is compiled in is the identity, whoever made the builder."""

    def builder(n):
        return lambda: lambda x: x + n

    table = BuildOnce()
    entries = [table.get(("kernel", n), builder(n)) for n in (128, 256, 128)]
    assert [entry(1) for entry in entries] == [129, 257, 129]
    assert len(table) == 2


class Kept:
    """Something that allows weak references."""


def test_a_weak_table_keeps_a_value_while_somebody_holds_it():
    table = BuildOnce(weak=True)
    held = table.get("a", Kept)
    assert table.get("a", raising(AssertionError("built again"))) is held
    assert table.items() == (("a", held),)
    del held
    gc.collect()
    assert (len(table), table.items()) == (0, ())
    assert isinstance(table.get("a", Kept), Kept)


def test_waiters_get_the_value_of_a_weak_table_even_if_the_builder_dropped_it():
    table, slow = BuildOnce(weak=True), Slow(None)
    made = []

    def make():
        slow()
        made.append(None)
        return Kept()

    def ask():
        return type(table.get("a", make))

    def release():
        assert slow.started.wait(PATIENCE)
        until(lambda: len(builds._waiting) == 3)
        slow.let_go.set()

    assert in_threads(*[ask] * 4, release)[:4] == [Kept] * 4
    assert len(made) == 1


def test_a_build_that_ends_between_two_questions_is_not_repeated():
    table, slow = BuildOnce(), Slow("value")
    looks = []

    class LooksThenLetsFinish(dict):
        """Lets the builder publish and end right after the other thread's second look."""

        def get(self, key, default=None):
            found = super().get(key, default)
            if threading.current_thread() is not builder:
                looks.append(found)
                if len(looks) == 2:
                    slow.let_go.set()
                    builder.join(0.2)
            return found

    table._built = LooksThenLetsFinish()
    builder = threading.Thread(target=table.get, args=("key", slow))
    builder.start()
    assert slow.started.wait(PATIENCE)
    assert table.get("key", lambda: "another") == "value"
    builder.join(PATIENCE)
    assert len(looks) >= 2
    assert slow.count == 1


class Interrupter:
    """Interrupts a build at the n-th line after its builder was called.

    Not at a ``with``: its line comes again at the end, between the block and the release of the
    lock, where signals are not looked for.
    """

    def __init__(self, n):
        self.n = n
        self.armed = False
        self.interrupted = False

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename != builds.__file__:
            return None
        if self.armed and event == "line" and not self.interrupted:
            line = linecache.getline(builds.__file__, frame.f_lineno)
            self.n -= not line.lstrip().startswith("with ")
            if self.n == 0:
                self.interrupted = True
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("error", [None, OSError("no compiler")])
def test_an_interrupt_at_any_line_leaves_nothing_and_nobody_waiting(error):
    for n in range(1, 60):
        table, slow, interrupter = BuildOnce(), Slow("value"), Interrupter(n)

        def make(slow=slow, interrupter=interrupter):
            slow()
            interrupter.armed = True
            if error is not None:
                raise error
            return slow.value

        def ask(table=table, make=make, interrupter=interrupter):
            sys.settrace(interrupter)
            try:
                return table.get("a", make)
            finally:
                sys.settrace(None)

        def wait(table=table, slow=slow):
            assert slow.started.wait(PATIENCE)
            return table.get("a", lambda: "second")

        def release(table=table, slow=slow):
            assert slow.started.wait(PATIENCE)
            until(lambda: table._running["a"].done is not None)
            slow.let_go.set()

        asked, waited, _ = in_threads(ask, wait, release)
        assert waited in ("value", "second")
        assert (table._running, builds._waiting) == ({}, {})
        if not interrupter.interrupted:
            assert asked is error or asked == "value"
            return
        assert isinstance(asked, KeyboardInterrupt)
    raise AssertionError("no build has as many lines")
