"""Which kernel type serves a call, with the reason for each that does not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NoReturn, TypeAlias

import attrs

from tileops_core.backend.blame import blame
from tileops_core.backend.device_types import unknown_to_torch
from tileops_core.by_fields import ShownByFields
from tileops_core.errors import BackendError, DispatchError, OpNotAvailableError
from tileops_core.kernels.call_spec import CallSpec, check_type
from tileops_core.kernels.contracts import Candidate, Installed
from tileops_core.kernels.kernel import Kernel
from tileops_core.kernels.typed_keys import marked, unhashable
from tileops_core.suggest import did_you_mean, listed

Outcome = Literal[
    "chosen",  # it serves the call
    "tied",  # as good as another, and nothing decides
    "other backend",  # of a backend other than the named one
    "device",  # does not run on the device's type
    "arch",  # not built for the device's architecture
    "refused",  # cannot serve the call
    "outranked",  # would serve it, but another's rank is higher
    "beaten",  # would serve it, but another is preferred over it
    "order",  # would serve it, but the user put another's backend first
]

_ENTRY = (
    "it must return (identity, factory), what is compiled in and how to build it without "
    "arguments, as in `return call.dtype, lambda: cls(call.dtype)`"
)

EntryKey: TypeAlias = tuple[type[Kernel], str, "int | None", Hashable, Hashable]
"""Kernel type, device type, arch, identity, and the identity's mark (typed_keys)."""


@attrs.frozen(eq=False, slots=True, repr=False)
class Verdict(ShownByFields):
    """What came of one kernel type, and why."""

    candidate: Candidate
    outcome: Outcome
    reason: str

    def __str__(self) -> str:
        return f"{self.candidate}: {self.reason}"


@attrs.frozen(eq=False, slots=True, repr=False)
class Decision(ShownByFields):
    """The whole answer to "who serves this call": one verdict per kernel type, by key.

    ``chosen`` is None where nobody, or more than one, would serve it; ``deciding`` then names the
    backends that would decide it if given as ``target=``.
    """

    op: str
    interface: str
    call: CallSpec
    backend: str | None
    verdicts: tuple[Verdict, ...]
    chosen: Candidate | None
    deciding: tuple[str, ...] = ()

    def require(self) -> Candidate:
        """The kernel type that serves the call.

        Raises:
            OpNotAvailableError: No kernel type runs on the device's type.
            DispatchError: None serves this call, or several do and nothing decides.
        """
        if self.chosen is not None:
            return self.chosen
        outcomes = {verdict.outcome for verdict in self.verdicts}
        if "tied" in outcomes:
            self._raise_ambiguous()
        if outcomes <= {"other backend", "device"}:
            self._raise_not_available()
        raise DispatchError(
            f"{self.op}: no implementation serves this call, {self.call!r}{self._among}:"
            f"{self._reasons()}\n{self._way_out()}",
            backend=self.backend,
            op=self.op,
        )

    @property
    def _among(self) -> str:
        return f" under target={self.backend!r}" if self.backend else ""

    def _reasons(self) -> str:
        considered = [v for v in self.verdicts if v.outcome != "other backend"]
        return "".join(f"\n  {verdict}" for verdict in considered)

    def _way_out(self) -> str:
        if self.backend is not None:
            return f"without target={self.backend!r} other backends are asked too"
        for verdict in self.verdicts:
            kernel_type = verdict.candidate.kernel_type
            if kernel_type.general and kernel_type.devices is None:
                return "even the general implementation does not serve it: change the call"
        return (
            "tileops-reference serves every op of tileops-core that has a class, on every device: "
            "pip install tileops-reference"
        )

    def _raise_ambiguous(self) -> NoReturn:
        tied = [v.candidate for v in self.verdicts if v.outcome == "tied"]
        if self.deciding:
            targets = " or ".join(f"target={name!r}" for name in self.deciding)
            hint = f"pass {targets}, or order the backends with set_backend_order([...])"
        else:
            hint = "one of them must name the other in preferred_over"
        raise DispatchError(
            f"{self.op}: dispatch is ambiguous for {self.call!r}{self._among}: "
            f"{' and '.join(map(str, tied))} serve it equally; {hint}",
            backend=self.backend,
            op=self.op,
        )

    def _raise_not_available(self) -> NoReturn:
        device = self.call.device
        what = f"in-tree kernels do not run on {device}"
        if self.backend is not None:
            what = f"kernels of backend {self.backend!r} do not run on {device}"
        reasons = self._reasons() or f"\n  no kernel type of {self.interface!r} is installed"
        raise OpNotAvailableError(
            f"{self.op}: {what}:{reasons}\n{self._way_out()}",
            backend=self.backend,
            op=self.op,
            target=self.backend,
        )


def decide(
    installed: Installed,
    op: str,
    interface: str,
    call: CallSpec,
    *,
    backend: str | None = None,
    order: Sequence[str] = (),
) -> Decision:
    """Choose the kernel type for a call, without building anything.

    A kernel type is dropped where it does not run on the device, or refuses. Of the rest, those
    that do not defer rank above those that do; within that, general ones below all others, and a
    general one for any device below one that names its devices. Within the highest rank the one
    wins that no other is preferred over; between several, the user's order of backends decides.

    Args:
        installed: The op's kernel types.
        op: The op's name.
        interface: The kernel interface that is about to be called.
        call: Its call spec; may state device facts.
        backend: Consider the kernel types of this backend only.
        order: The user's order of backends.

    Returns:
        The decision; ``chosen`` is None where nobody wins.

    Raises:
        OpNotAvailableError: The op has no interface of that name.
        TypeError: The call spec is not of the interface's ``request`` type.
        BackendError: A kernel type answered a question with something else than text or None.
        Exception: What a kernel type raised when asked, with a note that says whose it is.
    """
    if interface not in installed.interfaces:
        guess = did_you_mean(interface, installed.interfaces)
        raise OpNotAvailableError(
            f"{op}: there is no kernel interface {interface!r}{guess}; "
            f"the op has {listed(installed.interfaces)}",
            op=op,
        )
    check_type(installed.interfaces[interface], call, op=op)
    candidates = installed.candidates(interface)
    verdicts: dict[str, Verdict] = {}
    standings: list[_Standing] = []
    for candidate in candidates:
        dropped = _dropped(candidate, op, call, backend)
        if dropped is None:
            defers = _asked(candidate, op, call, "defers")
            standings.append(_Standing(candidate, defers, _rank(candidate, defers)))
        else:
            verdicts[candidate.key] = Verdict(candidate, *dropped)
    winners, lost = _prefer(standings, order)
    chosen = winners[0].candidate if len(winners) == 1 else None
    verdicts.update(lost)
    for winner in winners:
        outcome: Outcome = "tied" if chosen is None else "chosen"
        verdicts[winner.candidate.key] = Verdict(winner.candidate, outcome, winner.praise())
    return Decision(
        op,
        interface,
        call,
        backend,
        tuple(verdicts[candidate.key] for candidate in candidates),
        chosen,
        () if chosen is not None else _deciding(winners, standings),
    )


def entry_for(
    candidate: Candidate, op: str, call: CallSpec
) -> tuple[EntryKey, Callable[[], object]]:
    """What a chosen kernel type builds for a call, and the key under which it is kept.

    Args:
        candidate: The kernel type that dispatch chose.
        op: The op's name.
        call: The call spec; states no device facts.

    Returns:
        The key of the build entry and the factory that builds it.

    Raises:
        BackendError: ``entry_for`` returned something else than ``(identity, factory)``, or gave
            the kernel in the factory's place.
        Exception: What ``entry_for`` raised, with a note that says whose it is.
    """
    try:
        answer: object = candidate.kernel_type.entry_for(call)
    except Exception as error:
        _blame(error, candidate, op)
        raise
    if not (isinstance(answer, tuple) and len(answer) == 2 and callable(answer[1])):
        raise _misbehaved(candidate, op, f"entry_for returned {answer!r}; {_ENTRY}")
    identity, factory = answer
    if isinstance(factory, Kernel):
        # It can be called too, with tensors, which would be told as a fault of the call.
        raise _misbehaved(
            candidate, op, f"entry_for gave the built kernel {factory!r} for the factory; {_ENTRY}"
        )
    if fault := unhashable(identity):
        raise _misbehaved(
            candidate, op, f"entry_for gave the identity {identity!r}, which is no key: {fault}"
        )
    held, mark = marked(identity)
    return (candidate.kernel_type, call.device.type, call.arch, held, mark), factory


def check_factory(candidate: Candidate, op: str, factory: Callable[..., object]) -> None:
    """Find out whether a factory raised because it cannot be called without arguments.

    Args:
        candidate: The kernel type that dispatch chose.
        op: The op's name.
        factory: What its ``entry_for`` gave, after it raised a TypeError.

    Raises:
        BackendError: It has to have arguments.
    """
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        text = f"entry_for gave a factory that takes arguments ({error}): {factory!r}; {_ENTRY}"
        raise _misbehaved(candidate, op, text) from None
    except ValueError:  # some builtins do not tell their arguments
        return


def forward_of(candidate: Candidate, op: str, entry: object) -> Callable[..., object]:
    """What of a build entry is called with a call's tensors.

    Args:
        candidate: The kernel type whose factory built the entry.
        op: The op's name.
        entry: What the factory returned.

    Returns:
        The entry's ``forward``, or the entry itself where it has none.

    Raises:
        BackendError: The factory returned something that is no kernel.
    """
    forward: object = getattr(entry, "forward", entry)
    if isinstance(entry, type) or not callable(forward):
        raise _misbehaved(candidate, op, f"its factory returned {entry!r}; it must return a kernel")
    return forward


@attrs.frozen(eq=False, slots=True, repr=False)
class _Standing(ShownByFields):
    """A kernel type that would serve the call. A lower rank is better."""

    candidate: Candidate
    defers: str | None
    rank: tuple[bool, bool, bool]

    def praise(self) -> str:
        return "serves this call" + (f", although it defers: {self.defers}" if self.defers else "")


def _rank(candidate: Candidate, defers: str | None) -> tuple[bool, bool, bool]:
    general = candidate.kernel_type.general
    return defers is not None, general, general and candidate.kernel_type.devices is None


def _dropped(
    candidate: Candidate, op: str, call: CallSpec, backend: str | None
) -> tuple[Outcome, str] | None:
    """Why a kernel type is out, or None. The architecture is read only where it matters."""
    kernel_type = candidate.kernel_type
    if backend is not None and candidate.backend != backend:
        return "other backend", f"target={backend!r} was asked for"
    if kernel_type.devices is not None and call.device.type not in kernel_type.devices:
        types = listed(kernel_type.devices, "no device")
        hint = unknown_to_torch(kernel_type.devices)
        return "device", f"runs on {types}, not {call.device}{hint}"
    archs = kernel_type.supported_archs
    if archs is not None and call.arch not in archs:
        built = ", ".join(map(str, sorted(archs))) or "none"
        return "arch", f"is built for arch {built}, {call.device} has {call.arch}"
    refusal = _asked(candidate, op, call, "refusal")
    return None if refusal is None else ("refused", f"refuses: {refusal}")


def _asked(
    candidate: Candidate, op: str, call: CallSpec, question: Literal["refusal", "defers"]
) -> str | None:
    try:
        answer: object = getattr(candidate.kernel_type, question)(call)
    except Exception as error:
        _blame(error, candidate, op)
        raise
    if answer is None or isinstance(answer, str):
        return answer
    raise _misbehaved(
        candidate, op, f"{question} returned {answer!r}; it must return a reason as text, or None"
    )


def _prefer(
    standings: Sequence[_Standing], order: Sequence[str]
) -> tuple[list[_Standing], dict[str, Verdict]]:
    """Those that win, one if all is well, and what the others lost to."""
    lost: dict[str, Verdict] = {}

    def lose(standing: _Standing, outcome: Outcome, reason: str) -> None:
        lost[standing.candidate.key] = Verdict(standing.candidate, outcome, reason)

    best = min((standing.rank for standing in standings), default=(False, False, False))
    first = [standing for standing in standings if standing.rank == best]
    for standing in standings:
        if standing.rank != best:
            lose(standing, "outranked", _why_outranked(standing, first))
    winners = []
    for standing in first:
        key = standing.candidate.key
        over = [other.candidate.key for other in first if key in other.candidate.beats]
        if over:
            lose(standing, "beaten", f"{listed(map(repr, over))} is preferred over it")
        else:
            winners.append(standing)
    if len(winners) > 1 and order:
        places = {name: place for place, name in reversed(list(enumerate(order)))}
        place_of = [places.get(w.candidate.backend or "", len(order)) for w in winners]
        foremost = min(place_of)
        for standing, place in zip(winners, place_of, strict=True):
            if place != foremost:
                lose(standing, "order", f"the order of backends puts {order[foremost]!r} first")
        winners = [w for w in winners if w.candidate.key not in lost]
    return winners, lost


def _why_outranked(standing: _Standing, first: Sequence[_Standing]) -> str:
    better = listed(repr(other.candidate.key) for other in first)
    if standing.defers is not None:
        return f"defers to {better}: {standing.defers}"
    kind = "general for any device" if standing.candidate.kernel_type.devices is None else "general"
    return f"is {kind}, so {better} goes before"


def _deciding(winners: Sequence[_Standing], standings: Sequence[_Standing]) -> tuple[str, ...]:
    """The backends among the tied ones that would have one winner if they were named."""
    names = {winner.candidate.backend for winner in winners} - {None}
    return tuple(
        name
        for name in sorted(filter(None, names))
        if len(_prefer([s for s in standings if s.candidate.backend == name], ())[0]) == 1
    )


def _misbehaved(candidate: Candidate, op: str, text: str) -> BackendError:
    error = BackendError(f"{op}: kernel type {candidate}: {text}", backend=candidate.backend, op=op)
    _blame(error, candidate, op)
    return error


def _blame(error: Exception, candidate: Candidate, op: str) -> None:
    source = candidate.source
    version = source.version if source is not None else None
    blame(error, op=op, backend=candidate.backend, version=version)
