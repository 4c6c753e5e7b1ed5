"""Ask each backend what it registers; one that fails takes nobody with it."""

from __future__ import annotations

import inspect
import os
import traceback
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import pluggy

from tileops_core.backend import hookspecs, tables
from tileops_core.backend.blame import user_level
from tileops_core.backend.contract import (
    LoadFailure,
    ManifestPath,
    Registration,
    TargetRegistration,
    is_builtin,
    is_name,
    near_name,
)
from tileops_core.backend.discovery import (
    CORE,
    CORE_DISTRIBUTION,
    Found,
    is_core,
    normalized,
    skip_of,
)
from tileops_core.backend.registrations import LOGGER, Backend
from tileops_core.by_fields import ShownByFields
from tileops_core.errors import BackendError
from tileops_core.suggest import did_you_mean

RUNTIME = "runtime"
"""The backend that run-time registrations belong to unless they name another."""


@attrs.frozen(eq=False, repr=False)
class Harvest(ShownByFields):
    """What one backend registers, or why that is not known."""

    backend: Backend
    registrations: tuple[Registration, ...] = ()
    failure: LoadFailure | None = None


@attrs.frozen(eq=False, repr=False)
class Loaded(ShownByFields):
    """What loading leaves.

    ``reserved``: the distribution that each installed backend's name is kept for. ``lost``: why a
    backend or a target of a name is not there.
    """

    entries: tables.Entries
    backends: tables.Backends
    failures: tuple[LoadFailure, ...]
    reserved: Mapping[str, str | None]
    lost: Mapping[str, LoadFailure]


def load(found: Iterable[Found]) -> Loaded:
    """Import the backends given and put together what they register.

    One that fails, be it at import, in a hook or in a conflict with an earlier one, leaves nothing
    behind but its failure.
    """
    harvests = collect(found)
    reserved: dict[str, str | None] = {}
    for harvest in harvests:
        reserved.setdefault(harvest.backend.name, harvest.backend.distribution)
    entries: tables.Entries = {}
    backends: tables.Backends = {}
    failed: list[tuple[Harvest, LoadFailure]] = []
    for harvest in harvests:
        failure = harvest.failure
        if failure is None:
            entries, backends, failure = _admit(entries, backends, harvest, reserved)
        if failure is not None:
            failed.append((harvest, failure))
    by_name = {harvest.backend.name: harvest for harvest in reversed(harvests)}
    # Only now is every target known. Who leaves may take along the target of another.
    while strays := tables.strays(entries, backends, entries.values()):
        for name, error in strays.items():
            entries, backends = tables.without(entries, backends, name)
            failed.append((by_name[name], failure_of(by_name[name].backend, error)))
    lost: dict[str, LoadFailure] = {}
    for harvest, failure in failed:
        lost.setdefault(harvest.backend.name, failure)
        for registration in harvest.registrations:
            if isinstance(registration, TargetRegistration):
                lost.setdefault(registration.name, failure)
    return Loaded(entries, backends, tuple(failure for _, failure in failed), reserved, lost)


def _admit(
    entries: tables.Entries,
    backends: tables.Backends,
    harvest: Harvest,
    reserved: Mapping[str, str | None],
) -> tuple[tables.Entries, tables.Backends, LoadFailure | None]:
    try:
        change = tables.merge(entries, backends, harvest.backend, harvest.registrations, reserved)
    except BackendError as error:
        return entries, backends, failure_of(harvest.backend, error)
    return change.entries, change.backends, None


def collect(found: Iterable[Found]) -> list[Harvest]:
    """Import each backend and collect what its hooks return, in order.

    Whatever a backend raises becomes its failure, ``SystemExit`` included; only
    ``KeyboardInterrupt``, which is the user's, goes through.
    """
    first: dict[str, Backend] = {}
    points = list(found)
    return [_harvest(point, points, first) for point in points]


def _harvest(point: Found, points: list[Found], first: dict[str, Backend]) -> Harvest:
    skip = skip_of(point, points)
    backend = Backend(point.name, point.distribution, point.read_version, point.value, skip)
    try:
        _check_name(backend, first.setdefault(point.name, backend))
        return Harvest(backend, tuple(_registrations(point)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Harvest(backend, failure=failure_of(backend, error))


def failure_of(backend: Backend, error: BaseException) -> LoadFailure:
    """What ``load_failures()`` keeps of an exception."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return LoadFailure(
        backend.name,
        backend.distribution,
        backend.version,
        error,
        text,
        backend.entry_point,
        backend.skip,
    )


class _Manager(pluggy.PluginManager):
    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        # There is one manager per backend, so looking at the module's other names would add up.
        known = name in hookspecs.HOOKS
        return super().parse_hookspec_opts(module_or_class, name) if known else None


def _registrations(point: Found) -> list[Registration]:
    plugin = point.load()
    # A manager of its own for every backend: no order among backends, and no hook wrapper of one
    # around the results of another.
    manager = _Manager(hookspecs.PROJECT)
    if plugin is None or manager.register(plugin, point.name) is None:
        raise BackendError(
            f"entry point {point.name} = {point.value!r} is {plugin!r}; it must be a module or an "
            f"object with functions marked by tileops_core.backend.hookimpl",
            backend=point.name,
        )
    for caller in manager.get_hookcallers(plugin) or ():
        for implementation in caller.get_hookimpls() if caller.name in hookspecs.HOOKS else ():
            _check_hook_arguments(implementation.function, caller.name, point)
    try:
        manager.add_hookspecs(hookspecs)
    except pluggy.PluginValidationError as error:
        raise BackendError(
            f"{point.value} marks a hook in a way that is none: {' '.join(str(error).split())}; a "
            "plain tileops_core.backend.hookimpl above a function that returns a list is enough",
            backend=point.name,
        ) from error
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
    owner = None
    if is_builtin(name):
        owner = "in-tree kernels, which target=BUILTIN asks for"
    elif name == RUNTIME:
        owner = "registrations made at run time"
    elif name == CORE and backend.distribution != CORE_DISTRIBUTION:
        owner = CORE_DISTRIBUTION
    if owner is not None:
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


def _check_hook_arguments(function: Any, hook: str, point: Found) -> None:
    """Refuse a hook that could not be called: they get nothing, and what they return is used."""
    wrong = None
    if inspect.iscoroutinefunction(function):
        wrong = "is async, and nobody would wait for it"
    else:
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:  # some builtins do not tell their arguments
            return
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        asked = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
        if asked:
            wrong = f"takes {', '.join(asked)}, and a hook is called with nothing"
    if wrong is not None:
        raise BackendError(
            f"{point.value}.{function.__name__} {wrong}; write it as `def {hook}():` that returns "
            "a list",
            backend=point.name,
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
        function = inspect.getattr_static(plugin, hook, None)
        if function is not None and not getattr(manager.hook, hook).get_hookimpls():
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


def announce(messages: Iterable[str]) -> None:
    """Warn of each failure, at the line of the user's code that led here.

    All warnings are issued before an exception leaves, should the user's filters turn one into it.
    """
    raised = [error for message in messages if (error := _warn(message))]
    if raised:
        raise raised[0]


def _warn(message: str) -> Warning | None:
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=user_level())
    except Warning as warning:
        return warning
    return None


def describe(failure: LoadFailure, *, whole: bool = True) -> str:
    """One failure in a sentence: who, why, and what to do.

    Args:
        failure: what failed.
        whole: the whole backend is left out, not one thing that it registered.
    """
    skip = f", or skip it with TILEOPS_DISABLE_BACKENDS={failure.skip}" if failure.skip else ""
    remedy = (
        f"fix, update or uninstall {failure.distribution}{skip}"
        if failure.distribution
        else "fix it and register it again"
    )
    extent = "nothing of it is used" if whole else "this part of it is not used"
    return (
        f"{failure} -- {extent}; tileops_core.load_failures() and `tileops doctor` tell more; "
        f"{remedy}"
    )


def without_disabled(found: Iterable[Found]) -> tuple[list[Found], tuple[str, ...]]:
    """Split off what ``TILEOPS_DISABLE_BACKENDS`` skips.

    The variable lists backends, or distributions where no backend has that name; ``*`` is all. The
    core stays in any case: without its interfaces no backend has anything to implement.

    Returns:
        The entry points that stay, and the names of the backends that do not.
    """
    points = list(found)
    parts = os.environ.get("TILEOPS_DISABLE_BACKENDS", "").split(",")
    names = {part.strip() for part in parts if part.strip()}
    backends = {point.name for point in points}
    distributions = {normalized(name) for name in names - backends}
    skipped = [
        point
        for point in points
        if not is_core(point)
        and ("*" in names or point.name in names or point.distribution in distributions)
    ]
    known = backends | {point.distribution for point in points}
    for name in sorted(names - {"*"} - known):
        if normalized(name) not in known:
            LOGGER.warning(
                "TILEOPS_DISABLE_BACKENDS names %r, which is not installed%s",
                name,
                did_you_mean(name, known),
            )
    staying = [point for point in points if point not in skipped]
    return staying, tuple(dict.fromkeys(point.name for point in skipped))


def strict() -> bool:
    """Whether ``TILEOPS_STRICT_BACKENDS`` asks for exceptions instead of warnings."""
    value = os.environ.get("TILEOPS_STRICT_BACKENDS", "").strip().lower()
    return value not in ("", "0", "false", "no", "off")
