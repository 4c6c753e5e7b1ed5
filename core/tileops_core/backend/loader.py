"""Ask each backend what it registers; one that fails takes nobody with it."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pluggy

from tileops_core.backend import hookspecs
from tileops_core.backend.contract import (
    LoadFailure,
    ManifestPath,
    Registration,
    is_name,
    near_name,
)
from tileops_core.backend.discovery import CORE, CORE_DISTRIBUTION, Found
from tileops_core.backend.registered import Backend
from tileops_core.errors import BackendError
from tileops_core.suggest import did_you_mean

RUNTIME = "runtime"
"""The backend that run-time registrations belong to unless they name another."""


@attrs.frozen(eq=False)
class Harvest:
    """What one backend registers, or why that is not known."""

    backend: Backend
    registrations: tuple[Registration, ...] = ()
    failure: LoadFailure | None = None


def collect(found: Iterable[Found]) -> list[Harvest]:
    """Import each backend and collect what its hooks return, in order.

    Whatever a backend raises becomes its failure, ``SystemExit`` included; only
    ``KeyboardInterrupt``, which is the user's, goes through.
    """
    harvests = []
    first: dict[str, Backend] = {}
    for point in found:
        backend = Backend(point.name, point.distribution, point.read_version, point.value)
        try:
            _check_name(backend, first.setdefault(point.name, backend))
            harvests.append(Harvest(backend, tuple(_registrations(point))))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            harvests.append(Harvest(backend, failure=failure_of(backend, error)))
    return harvests


def failure_of(backend: Backend, error: BaseException) -> LoadFailure:
    """What ``load_failures()`` keeps of an exception."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return LoadFailure(
        backend.name, backend.distribution, backend.version, error, text, backend.entry_point
    )


def _registrations(point: Found) -> list[Registration]:
    plugin = point.load()
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    # A manager of its own for every backend: no order among backends, and no hook wrapper of one
    # around the results of another.
    if plugin is None or manager.register(plugin, point.name) is None:
        raise BackendError(
            f"entry point {point.name} = {point.value!r} is {plugin!r}; it must be a module or an "
            f"object with functions marked by tileops_core.backend.hookimpl",
            backend=point.name,
        )
    _check_hook_names(manager, plugin, point)
    registrations: list[Registration] = []
    for hook, kind in hookspecs.HOOKS.items():
        for result in getattr(manager.hook, hook)():
            registrations += _checked(result, hook, kind)
    return registrations


def _check_name(backend: Backend, first: Backend) -> None:
    name = backend.name
    if not is_name(name):
        raise BackendError(
            f"{name!r} cannot name a backend, because target= takes the name of every backend; "
            f"use letters, digits and underscores{near_name(name)}",
            backend=name,
        )
    if name == RUNTIME or (name == CORE and backend.distribution != CORE_DISTRIBUTION):
        owner = "registrations made at run time" if name == RUNTIME else CORE_DISTRIBUTION
        raise BackendError(
            f"the backend name {name!r} is kept for {owner}; choose another", backend=name
        )
    if backend is not first:
        raise BackendError(
            f"the backend name {name!r} is taken by {first}, entry point {first.entry_point!r}; "
            f"{backend}, entry point {backend.entry_point!r}, needs another: "
            f"uninstall one of the two distributions",
            backend=name,
        )


def _check_hook_names(manager: pluggy.PluginManager, plugin: object, point: Found) -> None:
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec() and not all(
            implementation.optionalhook for implementation in caller.get_hookimpls()
        ):
            raise BackendError(
                f"{point.value} implements a hook {caller.name!r}, which does not exist"
                f"{did_you_mean(caller.name, hookspecs.HOOKS)}; "
                f"the hooks are {', '.join(hookspecs.HOOKS)}",
                backend=point.name,
            )
    manager.check_pending()
    for hook in hookspecs.HOOKS:
        function = getattr(plugin, hook, None)
        if callable(function) and not getattr(manager.hook, hook).get_hookimpls():
            raise BackendError(
                f"{point.value}.{hook} is not marked, so it would never be called; "
                f"put tileops_core.backend.hookimpl above it",
                backend=point.name,
            )


def _checked(result: Any, hook: str, kind: type[Registration]) -> list[Registration]:
    if isinstance(result, (Registration, str, os.PathLike)):
        raise TypeError(f"{hook} returned {result!r}; it must return a list of them")
    try:
        items = list(result)
    except TypeError:
        raise TypeError(f"{hook} returned {result!r}; it must return a list") from None
    if kind is ManifestPath:
        return [ManifestPath(item) for item in items]
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"{hook} returned {item!r}; it returns {kind.__name__}s only")
    return items


def announce(failures: Sequence[LoadFailure]) -> None:
    """Warn once for each failure, at the line of the user's code that led here.

    All warnings are issued before an exception leaves, should the user's filters turn one into it.
    """
    raised: Warning | None = None
    for failure in failures:
        raised = _warn(describe(failure)) or raised
    if raised is not None:
        raise raised


def _warn(message: str) -> Warning | None:
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=_user_level())
    except Warning as warning:
        return warning
    return None


def describe(failure: LoadFailure) -> str:
    """One failure in a sentence: who, why, and what to do."""
    remedy = (
        f"fix, update or uninstall {failure.distribution}, or skip it with "
        f"TILEOPS_DISABLE_BACKENDS={failure.backend}"
        if failure.distribution
        else "fix it and register it again"
    )
    return (
        f"{failure} -- what it registers is not used; tileops_core.load_failures() and "
        f"`tileops doctor` tell more; {remedy}"
    )


def _user_level() -> int:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(here):
        level, frame = level + 1, frame.f_back
    return level


def disabled_names() -> frozenset[str]:
    """The backends that ``TILEOPS_DISABLE_BACKENDS`` skips, by name; ``*`` is all of them."""
    return frozenset(
        name.strip() for name in os.environ.get("TILEOPS_DISABLE_BACKENDS", "").split(",")
    ) - {""}


def strict() -> bool:
    """Whether ``TILEOPS_STRICT_BACKENDS`` asks for exceptions instead of warnings."""
    value = os.environ.get("TILEOPS_STRICT_BACKENDS", "").strip().lower()
    return value not in ("", "0", "false", "no", "off")
