"""The stacks of calls in progress."""

from __future__ import annotations

import os
import threading

import composites
import pytest
from call_support import small

from tileops_core.call import frames
from tileops_core.call.checking import WATCHING
from tileops_core.call.frames import FRAMES, Aside, Frame, aside, drop_stack, stack_of_thread


@pytest.fixture
def stack():
    """This thread's stack, with a composite's frame that collects."""
    made = stack_of_thread()
    made.append(Frame("composite"))
    made[0].collecting = True
    yield made
    made.clear()
    drop_stack()
    assert (FRAMES, WATCHING) == ({}, [])


def test_a_call_belongs_to_the_body_below_it(stack):
    stack.append(Frame("sub"))
    assert frames.around("sub") is stack[0]
    assert frames.around("another") is None
    stack[0].collecting = False
    assert frames.around("sub") is None


def test_a_call_that_stands_alone_belongs_to_nobody(stack):
    assert frames.around("composite") is None


def test_the_list_of_watchers_is_empty_again_after_the_last_thread(stack):
    other = threading.Thread(target=lambda: (stack_of_thread(), drop_stack()))
    other.start()
    other.join(30)
    assert len(WATCHING) == 1
    assert list(FRAMES) == [threading.get_ident()]


def test_code_that_runs_aside_collects_nothing(stack):
    with aside():
        assert frames.top() is not stack[0]
        assert not frames.top().collecting
    assert frames.top() is stack[0]


def test_code_that_runs_aside_where_no_composite_runs_needs_no_frame():
    with aside():
        assert FRAMES == {}


def test_an_entry_that_runs_aside_is_the_entry_otherwise(stack):
    class Entry:
        config = 3

        def __call__(self, x, *, scale):
            return (frames.top() is stack[0], x * scale)

    entry = Aside(Entry())
    assert entry(2, scale=3) == (False, 6)
    assert entry.config == 3
    assert frames.top() is stack[0]


def test_an_interrupt_leaves_no_frame_above_a_call_that_ended():
    """Peer fault 5: whatever was left above goes with the call below."""
    classes = composites.ops()

    def between(self, x):
        stack_of_thread().append(Frame(None))  # as if a call had not come to its end
        raise KeyboardInterrupt

    classes.does.between = between
    with pytest.raises(KeyboardInterrupt):
        classes.nest()(small())
    assert (FRAMES, WATCHING) == ({}, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_knows_its_own_thread_only(stack):
    ready, leave = threading.Event(), threading.Event()

    def other():
        stack_of_thread()
        ready.set()
        leave.wait(30)
        drop_stack()

    thread = threading.Thread(target=other)
    thread.start()
    assert ready.wait(30)
    child = os.fork()
    if child == 0:
        os._exit(0 if list(FRAMES) == [threading.get_ident()] and len(WATCHING) == 1 else 1)
    leave.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
