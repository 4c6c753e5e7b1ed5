"""Calls in progress, by thread, while some composite op runs.

A composite's call stands on its thread's stack as a frame. While its body runs, the frame collects
what sub-ops complete. Calls inside of such a call stand above it, so that what a kernel calls is
told from what the body calls. While no composite runs anywhere there is no stack, and an op's call
does nothing for it: the list that its code asks anyway (``checking.WATCHING``) says who is there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tileops_core.call.checking import WATCHING
from tileops_core.record.signature_call import SignatureCall

if TYPE_CHECKING:
    from tileops_core.call.binding import Binding
    from tileops_core.call.dry import Dry

FRAMES: dict[int, list[Frame]] = {}
"""Thread id -> its stack; only threads inside a composite's call have one."""

_COMPOSITES = 0
"""Stands in ``WATCHING`` while there is a stack; thread ids, which stand there too, are not 0."""

_lock = threading.RLock()


class Frame:
    """One call in progress.

    Attributes:
        op: whose call; None for code of a kernel's that stands for no op.
        collecting: the body of a composite runs here, and its sub-ops' calls belong to it.
        binding: what the composite's call runs on, once its body runs.
        dry: what is done in place of running calls here; None where they run.
        completed: the ops that completed a call in the body, with the calls' records, in order.
        stages: the records by stage, once they are filed.
    """

    __slots__ = ("binding", "collecting", "completed", "dry", "op", "stages")

    def __init__(self, op: Any) -> None:
        self.op = op
        self.collecting = False
        self.binding: Binding | None = None
        self.dry: Dry | None = None
        self.completed: list[tuple[Any, SignatureCall]] = []
        self.stages: dict[str, tuple[SignatureCall, ...]] | None = None


def _after_fork() -> None:
    """Forget the threads that stayed in the parent, whose ids may be given again."""
    global _lock
    _lock = threading.RLock()
    ident = threading.get_ident()
    for other in [i for i in FRAMES if i != ident]:
        del FRAMES[other]
    if not FRAMES and _COMPOSITES in WATCHING:
        WATCHING.remove(_COMPOSITES)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def stack_of_thread() -> list[Frame]:
    """This thread's stack, made if there is none; whoever made it calls :func:`drop_stack`."""
    ident = threading.get_ident()
    stack = FRAMES.get(ident)
    if stack is None:
        with _lock:
            stack = FRAMES[ident] = []
            if _COMPOSITES not in WATCHING:
                WATCHING.append(_COMPOSITES)
    return stack


def drop_stack() -> None:
    """Take this thread's empty stack away."""
    with _lock:
        FRAMES.pop(threading.get_ident(), None)
        if not FRAMES and _COMPOSITES in WATCHING:
            WATCHING.remove(_COMPOSITES)


def top() -> Frame | None:
    """The innermost call in progress of this thread, None where no composite runs in it."""
    stack = FRAMES.get(threading.get_ident())
    return stack[-1] if stack else None


def around(op: object) -> Frame | None:
    """The composite's body that the present call of an op belongs to, if there is one."""
    stack = FRAMES.get(threading.get_ident())
    if not stack or len(stack) < 2 or stack[-1].op is not op:
        return None
    outer = stack[-2]
    return outer if outer.collecting else None


@contextmanager
def aside() -> Iterator[None]:
    """Run code of a kernel's inside a composite's body: what it calls is its own affair."""
    stack = FRAMES.get(threading.get_ident())
    if not stack:
        yield
        return
    depth = len(stack)
    try:
        stack.append(Frame(None))
        yield
    finally:
        del stack[depth:]


class Aside:
    """An entry as a composite's body gets it: what it calls is its own affair."""

    __slots__ = ("_entry",)

    def __init__(self, entry: Any) -> None:
        self._entry = entry

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the entry."""
        with aside():
            return self._entry(*inputs, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __repr__(self) -> str:
        return repr(self._entry)
