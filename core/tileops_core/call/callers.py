"""Which instance calls an operator, where one does; a graph calls for nobody in particular."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from tileops_core.by_fields import ShownByFields
from tileops_core.call.state import CalledOp


@attrs.define(slots=True, eq=False, repr=False)
class Caller(ShownByFields):
    """A call that goes through an operator, and whether the operator ran a kernel for it."""

    op: CalledOp
    ran: bool = False


CALLERS: dict[int, list[Caller]] = {}
"""Such calls in progress, by thread, the innermost last. Empty nearly always."""


@contextmanager
def calling(op: CalledOp) -> Iterator[Caller]:
    """Have operators run on this instance, where its key is theirs, inside the ``with``."""
    ident, caller = threading.get_ident(), Caller(op)
    CALLERS.setdefault(ident, []).append(caller)
    try:
        yield caller
    finally:
        stack = CALLERS[ident]
        stack.remove(caller)
        if not stack:
            del CALLERS[ident]


def caller_of(key: str) -> Caller | None:
    """The call of this thread that goes through the operator of this key, or None."""
    stack = CALLERS.get(threading.get_ident())
    return stack[-1] if stack and stack[-1].op._key == key else None
