"""The one registry: who is installed and what each brings.

``REGISTRY`` is the process's. It knows names, callables and classes; it reads no manifest and no
kernel. Changes happen under a lock and replace one immutable state by the next, so readers need
none.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from tileops_core.backend import discovery, loader, tables
from tileops_core.backend.contract import (
    DeviceFactsRegistration,
    LoadFailure,
    ManifestPath,
    OracleRegistration,
    Registration,
    is_builtin,
    is_name,
    near_name,
)
from tileops_core.backend.discovery import CORE, Found
from tileops_core.backend.loader import RUNTIME
from tileops_core.backend.registrations import (
    Backend,
    Registered,
    RegisteredBuilder,
    RegisteredInterface,
    RegisteredKernelType,
    RegisteredTarget,
    kind_of,
)
from tileops_core.errors import BackendError, UnknownTargetError
from tileops_core.suggest import did_you_mean, listed


class Registry:
    """Backends and their registrations.

    Args:
        discover: finds the installed backends, called once, by the first ``ensure_loaded()``.
    """

    def __init__(self, discover: Callable[[], Iterable[Found]] = discovery.discover) -> None:
        self._discover = discover
        self._lock = threading.RLock()
        self._tables = tables.EMPTY
        self._loaded = False
        self._ready = False
        self._loading = False
        self._strict = False
        self._failures: tuple[LoadFailure, ...] = ()
        self._lost: Mapping[str, LoadFailure] = {}
        self._disabled: tuple[str, ...] = ()
        self._reserved: Mapping[str, str | None] = {}

    # -- loading ---------------------------------------------------------------------------------

    def ensure_loaded(self) -> None:
        """Load the installed backends, once per process however many threads ask.

        Raises:
            BackendError: a backend failed and ``TILEOPS_STRICT_BACKENDS=1``; or a backend asked
                while it was itself being imported.
        """
        if not self._ready:
            self._load()
            if self._strict:
                raise self._strict_error()

    def load_failures(self) -> tuple[LoadFailure, ...]:
        """What could not be used, after loading; never raises because of it."""
        if not self._ready:
            # The user's filters may make the warning an error; who asks here reads it anyway.
            with contextlib.suppress(RuntimeWarning):
                self._load()
        return self._failures

    def _load(self) -> None:
        with self._lock:
            if self._loaded:
                return
            if self._loading:
                raise BackendError(
                    "the backends are being loaded, and one of them constructs an op, registers "
                    "something or asks for targets while it is imported; a backend's module "
                    "defines hooks, everything else belongs into functions"
                )
            self._loading = True
            try:
                failures = self._load_all()
            finally:
                self._loading = False
        if not self._strict:
            loader.announce(loader.describe(failure) for failure in failures)

    def _load_all(self) -> tuple[LoadFailure, ...]:
        # Sorted here too: who loads first never depends on who was found first.
        found, self._disabled = loader.without_disabled(
            sorted(self._discover(), key=discovery.rank)
        )
        loaded = loader.load(found)
        self._reserved, self._lost = loaded.reserved, loaded.lost
        self._failures = loaded.failures
        self._strict = bool(loaded.failures) and loader.strict()
        self._publish(loaded.entries, loaded.backends)
        self._loaded = True
        self._ready = not self._strict
        return self._failures

    def _strict_error(self) -> BackendError:
        first, *others = self._failures
        more = f" (and {len(others)} more)" if others else ""
        error = BackendError(
            f"{loader.describe(first)}{more}; TILEOPS_STRICT_BACKENDS makes this an error",
            backend=first.backend,
        )
        error.__cause__ = first.error
        return error

    def _publish(self, entries: tables.Entries, backends: tables.Backends) -> None:
        self._tables = tables.Tables.of(self._tables.generation + 1, entries, backends)

    # -- changes at run time ---------------------------------------------------------------------

    def add(self, registrations: Iterable[Registration], *, backend: str = RUNTIME) -> tables.Done:
        """Register at run time, all or none.

        Args:
            registrations: what.
            backend: the name of the backend that they belong to; an installed one, or any.

        Returns:
            What changed, for ``take_back``; what was there already is left out.

        Raises:
            BackendError: a conflict, as at loading.
        """
        batch = tuple(registrations)
        for registration in batch:
            kind_of(registration)
        if not is_name(backend):
            raise ValueError(f"backend={backend!r} is not a name{near_name(str(backend))}")
        if is_builtin(backend):
            raise ValueError(f"backend={backend!r} is kept for in-tree kernels; choose another")
        self.ensure_loaded()
        with self._lock:
            now = self._tables
            origin = now.backends.get(backend) or Backend(backend)
            change = tables.merge(now.entries, now.backends, origin, batch, self._reserved)
            added = [after for _, _, after in change.done]
            for stray in tables.strays(change.entries, change.backends, added).values():
                raise stray
            if change.done:
                self._publish(change.entries, change.backends)
        return change.done

    def take_back(self, done: tables.Done) -> None:
        """Undo what ``add`` did, where nobody has changed it since."""
        if not done:
            return
        with self._lock:
            now = self._tables
            entries, backends = dict(now.entries), dict(now.backends)
            for slot, before, after in reversed(done):
                if entries.get(slot) is after:
                    if before is not None and before.backend in backends:
                        entries[slot] = before
                    else:
                        del entries[slot]
            used = {entry.backend for entry in entries.values()}
            for name, backend in now.backends.items():
                if backend.distribution is None and name not in used:
                    del backends[name]
                    self._forget(backend)
            self._publish(entries, backends)

    def remove(self, name: str) -> None:
        """Take a backend out, with all that it registered. Instances keep what they resolved.

        Raises:
            UnknownTargetError: there is no such backend.
            BackendError: it is the core itself.
        """
        self.ensure_loaded()
        with self._lock:
            now = self._tables
            if name == CORE:
                raise BackendError(
                    "the backend 'core' holds the interfaces of the library's own ops and stays",
                    backend=name,
                )
            if name in now.backends:
                self._forget(now.backends[name])
                self._publish(*tables.without(now.entries, now.backends, name))
                self._reserved = {key: of for key, of in self._reserved.items() if key != name}
            elif name != RUNTIME:
                names = [key for key in now.backends if key != CORE]
                raise UnknownTargetError(
                    f"unregister_backend: no backend is called {name!r}"
                    f"{did_you_mean(str(name), names)}; there are: {listed(names)}",
                    backend=name,
                )

    def _forget(self, backend: Backend) -> None:
        """Drop what is known of failures within a backend that leaves."""
        self._failures = tuple(
            failure
            for failure in self._failures
            if (failure.backend, failure.distribution) != (backend.name, backend.distribution)
        )

    def record_failure(self, backend: str, error: BaseException) -> None:
        """Keep a failure found after loading, and warn about it; the same one once.

        The generation stays: only the part that failed is left out, by whoever found it.

        Raises:
            BackendError: ``TILEOPS_STRICT_BACKENDS=1``.
        """
        origin = self._tables.backends.get(backend) or Backend(backend)
        failure = loader.failure_of(origin, error)
        with self._lock:
            new = all(str(failure) != str(known) for known in self._failures)
            if new:
                self._failures = (*self._failures, failure)
        text = loader.describe(failure, whole=False)
        if loader.strict():
            raise BackendError(
                f"{text}; TILEOPS_STRICT_BACKENDS makes this an error", backend=backend
            ) from error
        if new:
            loader.announce([text])

    # -- reading ---------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """A number that every change raises."""
        return self._tables.generation

    def snapshot(self) -> tables.Tables:
        """The present state; it never changes."""
        return self._tables

    def backends(self) -> tuple[Backend, ...]:
        """Everybody who is there, by name, ``core`` included."""
        return tuple(self._tables.backends.values())

    def backend_names(self) -> tuple[str, ...]:
        """The names of ``backends()``."""
        return tuple(self._tables.backends)

    def target_names(self) -> tuple[str, ...]:
        """What ``target=`` takes, sorted: targets, and backends by their own names."""
        return tuple(sorted(self._tables.target_names))

    def targets(self) -> Mapping[str, RegisteredTarget]:
        """The registered targets by name."""
        return self._tables.targets

    def targets_of(self, op: str) -> tuple[str, ...]:
        """The targets that have a builder for ``op``, sorted."""
        return self._tables.targets_by_op.get(op, ())

    def builder(self, op: str, target: str) -> RegisteredBuilder | None:
        """The builder of ``op`` for ``target``."""
        return self._tables.builders.get((op, target))

    def interfaces(self, op: str) -> Mapping[str, RegisteredInterface]:
        """The kernel interfaces of ``op`` by name."""
        return self._tables.interfaces.get(op, tables.NOTHING)

    def kernel_types(self, op: str) -> tuple[RegisteredKernelType, ...]:
        """The kernel types of ``op``, by backend and key."""
        return self._tables.kernel_types.get(op, ())

    def device_facts(self, device_type: str) -> Callable[..., Any] | None:
        """The registered reader of that device type's facts."""
        return self._resolved(DeviceFactsRegistration, device_type)

    def oracle(self, op: str) -> Callable[..., Any] | None:
        """The registered function that computes ``op``."""
        return self._resolved(OracleRegistration, op)

    def manifest_paths(self) -> tuple[str, ...]:
        """Spec files of ops outside the library, sorted."""
        kind: type[Registration] = ManifestPath
        return tuple(entry.registration.path for entry in self._of_kind(kind))

    def registered_by(self, backend: str) -> tuple[Registered[Any, Any], ...]:
        """All that one backend registered, in a fixed order."""
        entries = self._tables.entries.values()
        return tuple(
            sorted(
                (entry for entry in entries if entry.backend == backend),
                key=lambda entry: (
                    type(entry.registration).__name__,
                    str(entry.registration.slot),
                ),
            )
        )

    def failure_of(self, name: str) -> LoadFailure | None:
        """Why no target of that name is there, if a backend failed that brings one."""
        return self._lost.get(name)

    def disabled(self) -> tuple[str, ...]:
        """The installed backends that ``TILEOPS_DISABLE_BACKENDS`` skipped."""
        return self._disabled

    def _of_kind(self, kind: type[Registration]) -> list[Registered[Any, Any]]:
        return tables.of_kind(self._tables.entries, kind)

    def _resolved(self, kind: type[Registration], key: str) -> Callable[..., Any] | None:
        entry = self._tables.entries.get((kind, key))
        return None if entry is None else entry.resolve()

    def _after_fork(self) -> None:
        # Another thread may have held the lock; in the child there is no such thread.
        self._lock = threading.RLock()
        self._loading = False


def _the_only_one() -> Registry:
    """Make the process's registry, or refuse to make a second.

    A module that is imported under two names, or from two places, is two modules. A backend would
    register with one of them and ops would read the other.
    """
    reloaded = globals().get("REGISTRY")
    if reloaded is not None:
        return reloaded  # type: ignore[no-any-return]
    anchor = sys.modules.setdefault("_tileops_registry", ModuleType("_tileops_registry"))
    first = getattr(anchor, "owner", None)
    here = f"{__name__} from {os.path.abspath(__file__)}"
    if first is not None or __name__ != "tileops_core.backend.registry":
        raise ImportError(
            f"a second copy of the registry is imported, as {here}"
            f"{f'; the first is {first}' if first else ''}. What a backend registers in one is "
            f"not seen in the other: import it as tileops_core.backend, let sys.path lead to one "
            f"tileops_core only, and take no tileops_core module out of sys.modules"
        )
    anchor.__dict__["owner"] = here
    return Registry()


REGISTRY = _the_only_one()
"""The process's registry."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=REGISTRY._after_fork)
