"""The binding group: who serves an instance, and everything built because of it.

An instance starts unbound (:data:`UNBOUND`, shared by all). Calls that find it so share one
*candidate*. The first of them to succeed publishes it; when the last of them has failed, it is
dropped, and with it the target it chose and the kernels it built. A published binding stays.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol

import attrs

from tileops_core.backend.registered import RegisteredBuilder
from tileops_core.backend.targets import Builtin
from tileops_core.call.routes import Blamed, Credit, Generations, Route
from tileops_core.kernels.builds import BuildOnce
from tileops_core.kernels.contracts import Candidate
from tileops_core.record.signature_call import Served

_NOTHING_BUILT: BuildOnce[Any] = BuildOnce()
"""What a binding holds in place of the table that it has no use for. Never written to."""


class Binding(Generations[Route]):
    """Routes, the chosen target, entries and target kernels of one instance.

    Attributes:
        target: the chosen target's name, ``BUILTIN``, or None before a choice.
        builder: the target's builder for this op, None in-tree.
        backend: the backend that in-tree dispatch is restricted to, or None.
        entries_by_call: ``(interface, call spec)`` -> ``(candidate, entry)`` for bodies that ask
            by call spec, bounded by use.
        built_entries: entries by (kernel type, device, identity), kept for good.
        target_kernels: a target's kernels by the facts they were built for, as long as a route
            holds them.
        credits: who serves, by the kernel type chosen; None stands for the target itself.
    """

    __slots__ = (
        "__weakref__",
        "backend",
        "builder",
        "built_entries",
        "credits",
        "entries_by_call",
        "lock",
        "process",
        "target",
        "target_kernels",
        "users",
    )

    def __init__(self) -> None:
        super().__init__()
        self.target: str | Builtin | None = None
        self.builder: RegisteredBuilder | None = None
        self.backend: str | None = None
        self.entries_by_call: Generations[tuple[Candidate, Any]] = Generations()
        self.built_entries = _NOTHING_BUILT
        self.target_kernels = _NOTHING_BUILT
        self.credits: dict[Candidate | None, Credit] = {}
        # Re-entrant: choosing a target asks detectors, which are other people's code.
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.users = 0

    def settle(
        self, target: str | Builtin, builder: RegisteredBuilder | None, backend: str | None
    ) -> None:
        """Fix who serves; :attr:`lock` is held."""
        self.builder = builder
        self.backend = backend
        if builder is not None:
            self.target_kernels = BuildOnce(weak=True)
        else:
            self.built_entries = BuildOnce()
        # Last: other threads ask this field whether the rest is settled.
        self.target = target

    def credit(self, candidate: Candidate | None, interface: str = "") -> Credit:
        """Who serves by this kernel type, or by the target where it is None."""
        found = self.credits.get(candidate)
        if found is None:
            origin = self.builder if candidate is None else candidate.source
            kernels = {} if candidate is None else {interface: candidate.key}
            backends = {} if candidate is None else {interface: candidate.backend}
            found = Credit(Blamed(str(self.target), origin), Served(self.target, kernels, backends))
            self.credits[candidate] = found
        return found


UNBOUND = Binding()
"""What every instance holds before its first successful call. Never written to."""


@attrs.define(slots=True, eq=False)
class Entered:
    """A call of one thread that decides something: on which binding, and what it chose so far."""

    binding: Binding
    chosen: dict[str, Candidate] = attrs.field(factory=dict)


class Bound(Protocol):
    """What binding needs of an op: the published binding and the candidate."""

    _binding: Binding

    @property
    def _running(self) -> HasCandidate: ...


class HasCandidate(Protocol):
    """The running group's part in a first call."""

    candidate: Binding | None
    entered: dict[int, list[Entered]]


# One lock for all instances: it is held for a few instructions, and only on misses. Re-entrant,
# because a finalizer that runs meanwhile may call an op.
_LOCK = threading.RLock()


def _after_fork() -> None:
    """Give a child process a lock that no thread of its parent holds."""
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def enter(op: Bound) -> Entered:
    """Begin a call that has to decide something; says on which binding."""
    ident = threading.get_ident()
    with _LOCK:
        binding = op._binding
        running = op._running
        if binding is UNBOUND:
            if running.candidate is None or running.candidate.process != os.getpid():
                # One from before a fork may wait for threads that stayed in the parent.
                running.candidate = Binding()
            binding = running.candidate
            binding.users += 1
        entered = Entered(binding)
        running.entered.setdefault(ident, []).append(entered)
        return entered


def leave(op: Bound, entered: Entered, *, succeeded: bool) -> None:
    """End what :func:`enter` began: publish on success, drop when the last user has failed."""
    ident = threading.get_ident()
    binding = entered.binding
    with _LOCK:
        running = op._running
        stack = running.entered[ident]
        stack.remove(entered)
        if not stack:
            del running.entered[ident]
        if running.candidate is not binding:
            return  # it was published before this call, or by another one meanwhile
        binding.users -= 1
        if succeeded:
            op._binding = binding
            running.candidate = None
        elif binding.users == 0:
            running.candidate = None


def current(op: Bound) -> Entered | None:
    """The deciding call that this thread is inside of, on this op; None on a known route."""
    stack = op._running.entered.get(threading.get_ident())
    return stack[-1] if stack else None
