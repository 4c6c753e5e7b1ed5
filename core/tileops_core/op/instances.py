"""What an instance is, in text: its key, and the table of keys in use."""

from __future__ import annotations

import json
import weakref
from typing import Any

from tileops_core.backend.targets import Builtin
from tileops_core.op.parameters import typed
from tileops_core.plan.model import Plan


class Anchor:
    """One key in use; every instance with that key holds it, the table does not."""

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: str) -> None:
        self.key = key


_ANCHORS: weakref.WeakValueDictionary[str, Anchor] = weakref.WeakValueDictionary()


def key_of(plan: Plan, values: tuple[Any, ...], target: str | Builtin | None) -> str:
    """The content of an instance as one JSON list: op, parameters, target, hash of the entry.

    Equal content gives an equal key, and a key met again means the same thing: it can be read
    back, unlike an address. Who is installed is no part of it.
    """
    return json.dumps(
        [
            plan.op,
            [typed(v) for v in values],
            {"builtin": True} if isinstance(target, Builtin) else target,
            plan.signature.entry_hash,
        ],
        separators=(",", ":"),
    )


def anchor(key: str) -> Anchor:
    """The anchor of a key, made if nobody holds one."""
    found = _ANCHORS.get(key)
    if found is None:
        # Two threads may make one each; the table keeps one, both are right.
        found = _ANCHORS.setdefault(key, Anchor(key))
    return found
