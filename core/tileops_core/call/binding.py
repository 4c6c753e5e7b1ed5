"""The binding group: who serves an instance, and everything built because of it.

An instance starts unbound (:data:`UNBOUND`, shared by all). Calls that find it so share one
*candidate*. The first of them to succeed publishes it; when the last of them has failed, it is
dropped, and with it the target it chose and the kernels it built. A published binding stays, unless
it was published inside the call of a composite op that has not settled who serves it: then it is
*claimed* by the composite's candidate, and goes with it, if nobody else has used it meanwhile.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from tileops_core.backend.registrations import RegisteredBuilder
from tileops_core.backend.targets import Builtin
from tileops_core.by_fields import ShownByFields
from tileops_core.call.frames import around
from tileops_core.call.routes import Blamed, Credit, Generations, Route
from tileops_core.forks import renewed_lock
from tileops_core.kernels.builds import BuildOnce
from tileops_core.kernels.contracts import Candidate
from tileops_core.record.signature_call import Served

if TYPE_CHECKING:
    from tileops_core.call.dry import Dry

TARGET_KERNELS: BuildOnce[Any] = BuildOnce(weak=True)
"""The kernels that targets built, of all bindings, by (binding's number, device, and each spec's
facts one after another, which are hashed faster than specs). The routes that use a kernel keep it;
one table for all costs an instance nothing."""

_NOTHING_BUILT: BuildOnce[Any] = BuildOnce()
_NOTHING_ASKED: Generations[Any] = Generations()
_NOTHING_CLAIMED: dict[Any, Any] = {}
# What a binding holds in place of tables that it has no use for. Never written to.

_NUMBERS = itertools.count()


class Binding(Generations[Route]):
    """Routes, the chosen target, entries and target kernels of one instance.

    Attributes:
        target: the chosen target's name, ``BUILTIN``, or None before a choice.
        builder: the target's builder for this op, None in-tree.
        backend: the backend that in-tree dispatch is restricted to, or None.
        entries_by_call: ``(interface, call spec)`` -> ``(candidate, entry)`` for bodies that ask
            by call spec, bounded by use.
        built_entries: entries by (kernel type, device, identity), kept for good.
        credits: who serves, by the kernel type chosen; None stands for the target itself.
        number: tells this binding's kernels in :data:`TARGET_KERNELS`; never used again.
        settled: no failure takes it back any more.
        claims: how many undecided bindings and calls in progress use it; 0 once it is settled.
        inside: the sub-ops' bindings that this one claims, as long as it is not settled.
    """

    __slots__ = (
        "__weakref__",
        "backend",
        "builder",
        "built_entries",
        "claims",
        "credits",
        "entries_by_call",
        "inside",
        "lock",
        "number",
        "process",
        "settled",
        "target",
        "users",
    )

    def __init__(self) -> None:
        super().__init__()
        self.target: str | Builtin | None = None
        self.builder: RegisteredBuilder | None = None
        self.backend: str | None = None
        self.entries_by_call: Generations[tuple[Candidate, Any]] = _NOTHING_ASKED
        self.built_entries = _NOTHING_BUILT
        self.credits: tuple[tuple[Candidate | None, Credit], ...] = ()
        self.number = next(_NUMBERS)
        # Re-entrant: choosing a target asks detectors, which are other people's code.
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.users = 0
        self.settled = False
        self.claims = 0
        self.inside: dict[Binding, Bound] = _NOTHING_CLAIMED

    def settle(
        self, target: str | Builtin, builder: RegisteredBuilder | None, backend: str | None
    ) -> None:
        """Fix who serves; :attr:`lock` is held."""
        self.builder = builder
        self.backend = backend
        # Under a target too: a body may be asked for its kernels all the same.
        self.built_entries = BuildOnce()
        # Last: other threads ask this field whether the rest is settled.
        self.target = target

    def credit(self, candidate: Candidate | None, interface: str = "") -> Credit:
        """Who serves by this kernel type, or by the target where it is None."""
        found = next((c for key, c in self.credits if key is candidate), None)
        if found is None:
            origin = self.builder if candidate is None else candidate.source
            served = Served(self.target)
            if candidate is not None:
                kernels, backends = {interface: candidate.key}, {interface: candidate.backend}
                served = Served(self.target, kernels, backends)
            found = Credit(Blamed(str(self.target), origin), served)
            # Racing threads may lose one, and make an equal one again.
            self.credits += ((candidate, found),)
        return found

    def asked(self) -> Generations[tuple[Candidate, Any]]:
        """The table by call spec, made at the first question of a body."""
        if self.entries_by_call is _NOTHING_ASKED:
            self.entries_by_call = Generations()
        return self.entries_by_call

    @property
    def target_kernels(self) -> dict[Hashable, Any]:
        """A target's kernels for this instance, by the facts they were built for."""
        built = TARGET_KERNELS.items()
        return {
            (place[1], tuple(None if s is None else (s.dtype, s.shape) for s in held.specs)): (
                held.kernel
            )
            for place, held in built
            if place[0] == self.number
        }


UNBOUND = Binding()
"""What every instance holds before its first successful call. Never written to again."""
UNBOUND.settled = True


@attrs.define(slots=True, eq=False, repr=False)
class Entered(ShownByFields):
    """A call of one thread that decides something: on which binding, and what it chose so far.

    ``dry``: what is done in place of running it. ``counted``: it is among the binding's users.
    """

    binding: Binding = UNBOUND
    chosen: dict[str, Candidate] = attrs.field(factory=dict)
    dry: Dry | None = None
    counted: bool = False


class Bound(Protocol):
    """What binding needs of an op: the published binding and the candidate."""

    _binding: Binding

    @property
    def _running(self) -> HasCandidate: ...


class HasCandidate(Protocol):
    """The running group's part in a first call."""

    candidate: Binding | None
    whole: bool
    entered: dict[int, list[Entered]]


# One lock for all instances: it is held for a few instructions, and only on misses. Re-entrant,
# because a finalizer that runs meanwhile may call an op.
_LOCK = renewed_lock(globals(), "_LOCK")


def enter(op: Bound, entered: Entered) -> None:
    """Begin a call that has to decide something; settles on which binding.

    To be called where :func:`leave` is called whatever happens: an interrupt may come in here.
    """
    ident = threading.get_ident()
    with _LOCK:
        running = op._running
        running.entered.setdefault(ident, []).append(entered)
        binding = op._binding
        if binding is UNBOUND:
            if running.candidate is None or running.candidate.process != os.getpid():
                # One from before a fork may wait for threads that stayed in the parent.
                running.candidate = Binding()
            binding = running.candidate
            entered.binding, entered.counted, binding.users = binding, True, binding.users + 1
        else:
            entered.binding = binding


def leave(op: Bound, entered: Entered, *, succeeded: bool) -> None:
    """End what :func:`enter` began: publish on success, drop when the last user has failed.

    May be called again where it was interrupted, then for a call that failed.
    """
    ident = threading.get_ident()
    binding = entered.binding
    with _LOCK:
        running = op._running
        stack = running.entered.get(ident, [])
        if entered in stack:
            stack.remove(entered)
        if not stack:
            running.entered.pop(ident, None)
            if not running.entered:
                running.entered.clear()  # gives the memory of a once full table back
        if running.candidate is binding:
            if entered.counted:
                entered.counted, binding.users = False, binding.users - 1
            if succeeded:
                whole = binding.builder is not None
                op._binding, running.whole, running.candidate = binding, whole, None
            elif binding.users == 0:
                running.candidate = None
                _forget(binding)
        # Else it was published before this call, or by another one meanwhile.
        if succeeded and not binding.settled:
            _use(op, binding)


# -- bindings of sub-ops, as long as the composite's is not settled ----------------------------


def use(op: Bound, binding: Binding) -> None:
    """Note that a call has succeeded on a published binding that was not settled."""
    with _LOCK:
        _use(op, binding)


def _use(op: Bound, binding: Binding) -> None:
    frame = around(op)
    outer = frame.binding if frame is not None else None
    if outer is None or outer.settled:
        _settle(binding)
    elif binding not in outer.inside and not binding.settled:
        outer.inside = {**outer.inside, binding: op}
        binding.claims += 1


def claim(binding: Binding) -> bool:
    """Keep a published binding for a call that begins; False where it is settled anyway."""
    with _LOCK:
        binding.claims += not binding.settled
        return not binding.settled


def release(op: Bound, binding: Binding) -> None:
    """End what :func:`claim` began; a binding that nobody needs is taken back."""
    with _LOCK:
        _release(op, binding)


def _release(op: Bound, binding: Binding) -> None:
    if binding.settled:
        return
    binding.claims -= 1
    if binding.claims == 0:
        if op._binding is binding:
            op._binding, op._running.whole = UNBOUND, False
        _forget(binding)


def _settle(binding: Binding) -> None:
    inside, binding.inside = binding.inside, _NOTHING_CLAIMED
    binding.settled = True
    binding.claims = 0
    for inner in inside:
        _settle(inner)


def _forget(binding: Binding) -> None:
    """Let go of what a binding claims that nobody will publish, or that was taken back."""
    inside, binding.inside = binding.inside, _NOTHING_CLAIMED
    for inner, op in inside.items():
        _release(op, inner)


def current(op: Bound) -> Entered | None:
    """The deciding call that this thread is inside of, on this op; None on a known route."""
    stack = op._running.entered.get(threading.get_ident())
    return stack[-1] if stack else None
