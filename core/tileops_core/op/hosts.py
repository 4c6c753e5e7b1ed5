"""Hosts: who runs the calls that graphs make.

A graph names an op by its key. For each key there is at most one *host*, an op of its own and
never one of the instances: what it binds and records in graphs is the same whichever equal
instance a graph was traced with. Instances of a key hold its *anchor*, and the host lives as long
as one of them does. Where a key has no instance, in a process that has loaded an exported program,
the host is made from the key and kept in a table of its own, bounded.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from typing import Any

import attrs

from tileops_core.call.binding import UNBOUND
from tileops_core.call.callers import CALLERS, caller_of
from tileops_core.call.state import Running
from tileops_core.call.torch_private import ordinary_state
from tileops_core.errors import StaleGraphError
from tileops_core.forks import renewed_lock
from tileops_core.op.keys import NotInTextError, arguments_of

KEPT = 4096
"""So many hosts are kept that no instance stands for; then the oldest goes."""


class Anchor:
    """One key in use: every instance with that key holds it, and it holds none of them.

    Attributes:
        equals: the instances by their ids, where somebody will ask for them: of composite ops, and
            of classes that no text can name.
    """

    __slots__ = ("__weakref__", "equals", "key", "made_for", "tuned")

    def __init__(self, key: str, op: Any) -> None:
        self.key = key
        self.tuned = False
        self.made_for = weakref.ref(op)
        self.equals: weakref.WeakValueDictionary[int, Any] | None = None


class _Place(weakref.ref[Anchor]):
    """An anchor's place in the table, which knows its key when the anchor is gone."""

    __slots__ = ("key",)
    key: str


_ANCHORS: dict[str, _Place] = {}
HOSTS: dict[str, Any] = {}
"""The hosts there are, by key."""
_WITHOUT_INSTANCE: dict[str, None] = {}
# Re-entrant: a finalizer that runs meanwhile may make ops.
_LOCK = renewed_lock(globals(), "_LOCK")


def _forget(place: weakref.ref[Anchor]) -> None:
    """Drop a key's host with its last instance, unless the key is in use again."""
    assert isinstance(place, _Place)
    with _LOCK:
        if _ANCHORS.get(place.key) is place:
            del _ANCHORS[place.key]
            if place.key not in _WITHOUT_INSTANCE:
                HOSTS.pop(place.key, None)


def anchor(key: str, op: Any) -> Anchor:
    """The anchor of a key; made for ``op`` if no instance holds one."""
    place = _ANCHORS.get(key)
    found = None if place is None else place()
    if found is None:
        with _LOCK:
            place = _ANCHORS.get(key)
            found = None if place is None else place()
            if found is None:
                found = Anchor(key, op)
                _ANCHORS[key] = place = _Place(found, _forget)
                place.key = key
    if op._plan.composite or type(op)._changes is not None:
        with _LOCK:
            if found.equals is None:
                found.equals = weakref.WeakValueDictionary()
            found.equals[id(op)] = op
    return found


def tune_host(key: str) -> None:
    """Have whoever runs a key's calls in graphs tuned, now or when there is one."""
    with _LOCK:
        place = _ANCHORS.get(key)
        found = None if place is None else place()
        if found is not None:
            found.tuned = True
        host = HOSTS.get(key)
    if host is not None:
        host.request_tune()


def known_host(key: str) -> Any:
    """The host of a key, or None where no graph has called for it yet."""
    return HOSTS.get(key)


def op_for(key: str) -> Any:
    """Who runs a call of this key: the instance that calls through its operator, else the host.

    Raises:
        StaleGraphError: the key is of an instance that is gone and that no text can name, or of
            an entry that has changed.
    """
    if CALLERS:
        caller = caller_of(key)
        if caller is not None:
            caller.ran = True
            return caller.op
    host = HOSTS.get(key)
    return _make(key) if host is None else host


def statics_for(key: str) -> Any:
    """The parameters, and what they decide, of whoever a call of this key would run on."""
    caller = caller_of(key)
    host = HOSTS.get(key) if caller is None else caller.op
    return (_make(key) if host is None else host)._construction.statics


def _make(key: str) -> Any:
    place = _ANCHORS.get(key)
    held = None if place is None else place()
    op = None if held is None else _any_of(held)
    # Not under the lock: a constructor is other people's code, and may import.
    made = _from_key(key) if op is None else _from_instance(op)
    with _LOCK:
        made._running.tune_requested = held is not None and held.tuned
        host = HOSTS.setdefault(key, made)
        if key not in _ANCHORS:
            _WITHOUT_INSTANCE[key] = None
            while len(_WITHOUT_INSTANCE) > KEPT:
                oldest = next(iter(_WITHOUT_INSTANCE))
                del _WITHOUT_INSTANCE[oldest]
                if oldest not in _ANCHORS:
                    HOSTS.pop(oldest, None)
        return host


def _any_of(held: Anchor) -> Any:
    """One of a key's instances: the first, or one that is listed; None where they are gone."""
    first = held.made_for()
    if first is not None or held.equals is None:
        return first
    return next(iter(list(held.equals.values())), None)


def _from_instance(op: Any) -> Any:
    """An op with everything that the instance was constructed with, and nothing it has done."""
    host = object.__new__(type(op))
    host.__dict__.update(op.__dict__)
    host._key = op._key
    host._binding = UNBOUND
    host._running = Running()
    host._construction = attrs.evolve(op._construction, anchor=None)
    return host


def _from_key(key: str) -> Any:
    """An op constructed anew from what its key says."""
    parts = json.loads(key)
    name, digits = parts[0], parts[3]
    with ordinary_state():  # what is imported outlives this call, and the modes around it
        cls = _class_of(name)
    plan = cls._plan
    if digits != plan.signature.entry_hash:
        raise StaleGraphError(
            f"{name}: this graph was made for an entry of the op that has changed since (its hash "
            f"was {digits}, it is {plan.signature.entry_hash}); compile or export the model again",
            op=name,
        )
    try:
        arguments = arguments_of(plan, parts)
    except NotInTextError as missing:
        raise StaleGraphError(
            f"{name}: this graph was made for an instance that holds {missing}, which no text can "
            "name, and that instance is gone; a graph of such an op works only in its process and "
            "while the op lives",
            op=name,
        ) from None
    with ordinary_state():
        host = cls(**arguments)
    # Not to be kept in the table of keys in use by what that table keeps.
    host._construction = attrs.evolve(host._construction, anchor=None)
    return host


def forget_op(op: str) -> None:
    """Drop the hosts of an op whose class is defined anew.

    Instances of the class that had the name may live on; hosts are no longer made after them.
    """
    start = f"[{json.dumps(op)},"
    with _LOCK:
        for table in (HOSTS, _ANCHORS, _WITHOUT_INSTANCE):
            for key in [key for key in table if key.startswith(start)]:
                del table[key]


_class_of: Callable[[str], Any]


def find_classes_by(find: Callable[[str], Any]) -> None:
    """Say how the class of an op is found by name."""
    global _class_of
    _class_of = find
