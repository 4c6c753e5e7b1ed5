"""The key that a call on a route has, for calls that are not made yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from tileops_core.call.emit_call import CallEmitter
from tileops_core.plan.model import Plan
from tileops_core.plan.source import compile_source

_KEYS: WeakKeyDictionary[Plan, Callable[..., Any]] = WeakKeyDictionary()


def key_function(plan: Plan) -> Callable[..., Any]:
    """``key(op, *tensors)`` of an op class: what its generated code looks routes up by.

    Takes what stands for each input in order, then for ``out`` where the op has one. Written at
    the first question, since only what is prepared needs it.
    """
    found = _KEYS.get(plan)
    if found is None:
        found = _KEYS.setdefault(plan, KeyEmitter(plan).emit_key())
    return found


class KeyEmitter(CallEmitter):
    """Writes the key alone."""

    def emit_key(self) -> Callable[..., Any]:
        """The function."""
        w = self.writer
        with w.block(f"def key({', '.join(['self', *self._names])}):"):
            self._write_key("return")
        return compile_source(w, f"<tileops key {self.plan.op}>")["key"]
