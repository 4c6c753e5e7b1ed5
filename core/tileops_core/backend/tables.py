"""What the registry holds: immutable tables, and the rules for what may join them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import attrs

from tileops_core.backend.contract import (
    BuilderRegistration,
    InterfaceRegistration,
    Registration,
    TargetRegistration,
)
from tileops_core.backend.discovery import CORE
from tileops_core.backend.registrations import (
    Backend,
    Registered,
    RegisteredBuilder,
    RegisteredInterface,
    RegisteredKernelType,
    RegisteredTarget,
    enter,
    kind_of,
)
from tileops_core.backend.sameness import module_of, same_thing
from tileops_core.by_fields import ShownByFields
from tileops_core.errors import BackendError
from tileops_core.suggest import did_you_mean, listed

Slot = tuple[type[Registration], Hashable]
Entries = Mapping[Slot, Registered[Any, Any]]
Backends = Mapping[str, Backend]
Done = tuple[tuple[Slot, "Registered[Any, Any] | None", Registered[Any, Any]], ...]
"""What a change did: (slot, what was there, what is there now)."""

NOTHING: Mapping[Any, Any] = MappingProxyType({})


@attrs.frozen(eq=False, repr=False)
class Tables(ShownByFields):
    """One state of the registry. Readers hold one and nothing changes under them."""

    generation: int
    entries: Entries
    backends: Backends
    targets: Mapping[str, RegisteredTarget]
    builders: Mapping[tuple[str, str], RegisteredBuilder]
    targets_by_op: Mapping[str, tuple[str, ...]]
    interfaces: Mapping[str, Mapping[str, RegisteredInterface]]
    kernel_types: Mapping[str, tuple[RegisteredKernelType, ...]]
    target_names: frozenset[str]

    @classmethod
    def of(cls, generation: int, entries: Entries, backends: Backends) -> Tables:
        """Index the entries. Every order in the result comes from names, none from arrival."""
        targets: dict[str, RegisteredTarget] = {}
        builders: dict[tuple[str, str], RegisteredBuilder] = {}
        interfaces: dict[str, dict[str, RegisteredInterface]] = defaultdict(dict)
        kernel_types: dict[str, list[RegisteredKernelType]] = defaultdict(list)
        for entry in entries.values():
            if isinstance(entry, RegisteredTarget):
                targets[entry.name] = entry
            elif isinstance(entry, RegisteredBuilder):
                builders[entry.op, entry.target] = entry
            elif isinstance(entry, RegisteredInterface):
                interfaces[entry.op][entry.name] = entry
            elif isinstance(entry, RegisteredKernelType):
                kernel_types[entry.op].append(entry)
        names = frozenset(targets) | (frozenset(backends) - {CORE})
        by_op: dict[str, list[str]] = defaultdict(list)
        for op, target in sorted(builders):
            if target in names:
                by_op[op].append(target)
        return cls(
            generation=generation,
            entries=MappingProxyType(dict(entries)),
            backends=MappingProxyType(dict(sorted(backends.items()))),
            targets=_sorted(targets),
            builders=_sorted(builders),
            targets_by_op=_sorted(by_op, tuple),
            interfaces=_sorted(interfaces, _sorted),
            kernel_types=_sorted(
                kernel_types, lambda types: tuple(sorted(types, key=lambda t: (t.backend, t.key)))
            ),
            target_names=names,
        )


def _sorted(
    table: Mapping[Any, Any], convert: Callable[[Any], Any] = lambda value: value
) -> Mapping[Any, Any]:
    return MappingProxyType({key: convert(table[key]) for key in sorted(table)})


EMPTY = Tables.of(0, NOTHING, NOTHING)


@attrs.frozen(eq=False, repr=False)
class Change(ShownByFields):
    """Entries and backends after a merge, and what it did."""

    entries: Entries
    backends: Backends
    done: Done


def merge(
    entries: Entries,
    backends: Backends,
    backend: Backend,
    registrations: Iterable[Registration],
    reserved: Mapping[str, str | None],
) -> Change:
    """Add one backend's registrations, all or none.

    Args:
        entries: what is there.
        backends: who is there.
        backend: who registers.
        registrations: what.
        reserved: backend name -> distribution, for backends that are installed; each name is kept
            as a target name for that distribution, whether its backend works or not.

    Raises:
        BackendError: a registration conflicts with one that is there; names both sides.
    """
    names = {**{name: who.distribution for name, who in backends.items()}, **reserved}
    _check_own_name(entries, backend, names.setdefault(backend.name, backend.distribution))
    merged, done = dict(entries), []
    definers = {
        entry.op: entry for entry in entries.values() if isinstance(entry, RegisteredInterface)
    }
    for registration in registrations:
        slot = _slot(registration, backend)
        held = merged.get(slot)
        if held is not None:
            _check_again(held, registration, backend)
            if held.registration.referent is registration.referent:
                continue
        if backend.name == CORE and not isinstance(registration, InterfaceRegistration):
            raise BackendError(
                f"{backend} registers {registration.title}; the core registers kernel interfaces "
                f"only",
                backend=backend.name,
            )
        _check_target(registration, backend, names)
        _check_definer(registration, backend, definers)
        entry = enter(registration, backend)
        merged[slot] = entry
        done.append((slot, held, entry))
    return Change(merged, {backend.name: backend, **backends}, tuple(done))


def _slot(registration: Registration, backend: Backend) -> Slot:
    kind, place = kind_of(registration), registration.slot
    return kind, (backend.name, place) if kind.per_backend else place


def _check_own_name(entries: Entries, backend: Backend, owner: str | None) -> None:
    if owner != backend.distribution:
        raise BackendError(
            f"{backend} cannot take its name: {backend.name!r} is a backend of "
            f"{owner or 'this process'}; choose another name",
            backend=backend.name,
        )
    held = entries.get((TargetRegistration, backend.name))
    if held is not None and held.distribution != backend.distribution:
        raise BackendError(
            f"{backend} cannot take its name: target {backend.name!r} belongs to {held.origin}",
            backend=backend.name,
        )


def _check_again(held: Registered[Any, Any], new: Registration, backend: Backend) -> None:
    old = held.registration
    if held.backend == backend.name and same_thing(old.referent, new.referent):
        return
    raise BackendError(
        f"{new.title} is already registered by {held.origin}, from module "
        f"{module_of(old.referent)}; {backend} registers it again, from module "
        f"{module_of(new.referent)}: {_remedy(held.origin, backend)}",
        backend=backend.name,
        op=getattr(new, "op", None),
        target=_target_of(new),
    )


def _remedy(first: Backend, second: Backend) -> str:
    if second.distribution is None:
        return f"choose another name, or unregister_backend({first.name!r}) first"
    if first.name == second.name:
        return "return one of the two only"
    skips = [f"TILEOPS_DISABLE_BACKENDS={b.skip}" for b in (first, second) if b.skip]
    skip = f", or skip one with {' or '.join(skips)}" if skips else ""
    return f"uninstall one of the two distributions{skip}"


def _check_target(new: Registration, backend: Backend, names: Mapping[str, str | None]) -> None:
    target = _target_of(new)
    if target is not None and names.get(target, backend.distribution) != backend.distribution:
        raise BackendError(
            f"{backend} registers {new.title}, but {target!r} is the name of a backend of "
            f"{names[target] or 'this process'}, and a backend's name is a target of its own; "
            f"choose another target name",
            backend=backend.name,
            op=getattr(new, "op", None),
            target=target,
        )


def _check_definer(
    new: Registration, backend: Backend, definers: Mapping[str, RegisteredInterface]
) -> None:
    if not isinstance(new, InterfaceRegistration) or new.op not in definers:
        return
    definer = definers[new.op]
    if definer.distribution != backend.distribution:
        raise BackendError(
            f"{backend} registers {new.title}, but {new.op} is defined by {definer.origin}, "
            f"which registered interface {definer.name!r}; only the distribution that defines an "
            f"op adds interfaces to it, others register kernel types",
            backend=backend.name,
            op=new.op,
        )


def _target_of(registration: Registration) -> str | None:
    if isinstance(registration, TargetRegistration):
        return registration.name
    if isinstance(registration, BuilderRegistration):
        return registration.target
    return None


def strays(
    entries: Entries, backends: Backends, among: Iterable[Registered[Any, Any]]
) -> dict[str, BackendError]:
    """Per backend, the error of its first builder, of those given, whose target is not there."""
    known = {name for kind, name in entries if kind is TargetRegistration} | set(backends)
    errors: dict[str, BackendError] = {}
    for entry in among:
        if isinstance(entry, RegisteredBuilder) and entry.target not in known:
            names = [str(name) for name in known - {CORE}]
            errors.setdefault(
                entry.backend,
                BackendError(
                    f"{entry.origin} registers {entry.registration.title}, which nobody registered"
                    f"{did_you_mean(entry.target, names)}; known targets: {listed(names)}; "
                    f"register a TargetRegistration({entry.target!r}, detect) with it",
                    backend=entry.backend,
                    op=entry.op,
                    target=entry.target,
                ),
            )
    return errors


def without(entries: Entries, backends: Backends, name: str) -> tuple[Entries, Backends]:
    """The same without one backend and all that it registered."""
    return (
        {slot: entry for slot, entry in entries.items() if entry.backend != name},
        {key: backend for key, backend in backends.items() if key != name},
    )


def of_kind(entries: Entries, kind: type[Registration]) -> list[Registered[Any, Any]]:
    """All entries of one registration class, by slot."""
    return sorted(
        (entry for slot, entry in entries.items() if slot[0] is kind),
        key=lambda entry: str(entry.registration.slot),
    )
