"""The errors of selection: who is installed, what each would need, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileops_core.backend.contract import in_a_line, is_builtin
from tileops_core.backend.device_types import unknown_to_torch
from tileops_core.backend.discovery import CORE
from tileops_core.backend.registrations import Backend, RegisteredKernelType
from tileops_core.errors import OpNotAvailableError, UnknownTargetError
from tileops_core.suggest import did_you_mean, listed

if TYPE_CHECKING:
    import torch

    from tileops_core.backend.registry import Registry

GENERAL = "reference"
INSTALL = "pip install tileops-reference"


def unknown_target(registry: Registry, op: str, target: str, asked: str) -> UnknownTargetError:
    """Nobody registered ``target``, which ``asked`` says who named; says why not, if known."""
    known = registry.target_names()
    failure = registry.failure_of(target)
    if failure is not None:
        why = f"is not there: {failure}"
        then = f"repair {failure.distribution}; `tileops doctor --tracebacks` shows the traceback"
    elif target in registry.disabled():
        why = "is skipped by TILEOPS_DISABLE_BACKENDS"
        then = "unset it"
    elif target == CORE:
        why = "is the library itself, which computes nothing"
        then = "pass tileops_core.BUILTIN for in-tree kernels"
    elif is_builtin(target):
        why = "is not a name"
        then = "pass the object tileops_core.BUILTIN"
    else:
        why = f"is registered by nobody{did_you_mean(target, known)}"
        then = f"install the backend that brings it{'' if known else f', or {INSTALL}'}"
        failed = {failure.backend for failure in registry.load_failures()}
        failed -= set(registry.backend_names())
        if failed:
            then += f"; these backends failed to load: {listed(failed)}"
    return UnknownTargetError(
        f"{op}: {asked}, which {why}; known targets: {listed(known)}; {then}",
        op=op,
        target=target,
        backend=None if failure is None else failure.backend,
    )


def not_under_target(
    registry: Registry, op: str, target: str, device: torch.device, lacking: str = ""
) -> OpNotAvailableError:
    """A target was named, or claims the device, and has nothing for this op there.

    ``lacking``: what the op lacks to be served in-tree anywhere.
    """
    backend = next((who for who in registry.backends() if who.name == target), None)
    kernel_types = [entry for entry in registry.kernel_types(op) if entry.backend == target]
    if kernel_types:
        working, dropped = _sorted_out(registry, kernel_types)
        found = (
            f"{backend} serves it by {_types(working)}, none of which runs there"
            if working
            else f"{backend} has nothing that works for it"
        )
        for key, told in dropped.items():
            found += f"; its kernel type {key!r} was dropped as broken ({told})"
        if dropped:
            found += "; `tileops doctor` tells what to do about it"
    else:
        origin = registry.targets()[target].origin if backend is None else backend
        serves = sorted({entry_op for entry_op, name in _ops_of(registry) if name == target})
        some = ", ".join(serves[:5]) + (", ..." if len(serves) > 5 else "")
        found = (
            f"{origin} registered no builder of {op} for it and no kernel type of {op}; "
            f"it serves {some or 'no op'}{_misspelled(registry, op, serves)}"
        )
    others = sorted(
        {name for entry_op, name in _ops_of(registry) if entry_op == op and name != target}
    )
    then = f"name one of them, leave target= out, or ask the authors of {target!r}"
    then = _make_one(registry, op, lacking) or then + _remedy(registry)
    return OpNotAvailableError(
        f"{op}: target {target!r} does not serve it on {device}: {found}; "
        f"others that have something for {op}: {listed(others)}; {then}",
        op=op,
        target=target,
        backend=target if backend is not None else None,
    )


def nobody(
    registry: Registry, op: str, device: torch.device, *, builtin: bool, lacking: str = ""
) -> OpNotAvailableError:
    """No target claims the device and no kernel type runs on it.

    ``lacking``: what the op lacks to be served in-tree anywhere.
    """
    asked = (
        f"in-tree kernels were asked for (BUILTIN) and none runs on {device}"
        if builtin
        else f"nobody serves it on {device}: no target claims the device, and in-tree kernels do "
        f"not run on {device.type}"
    )
    lines = [f"{who}: {_needs(registry, who, op, device)}" for who in _others(registry)]
    lines += [str(failure) for failure in registry.load_failures()]
    lines += [
        f"backend {name!r} is skipped by TILEOPS_DISABLE_BACKENDS; unset it to have it back"
        for name in registry.disabled()
    ]
    installed = "".join(f"\n  {line}" for line in lines) or " nobody"
    then = f"a device that one of them needs, a backend for {device.type!r}{_remedy(registry)}"
    then = _make_one(registry, op, lacking) or then
    return OpNotAvailableError(
        f"{op}: {asked}. Installed:{installed}\nNext: {then}",
        op=op,
    )


def _make_one(registry: Registry, op: str, lacking: str) -> str:
    """What to do for an op that nobody has anything for, on any device; "" for others.

    Where a distribution registers the op's interfaces, kernels of it come from other ones.
    """
    somebody = any(entry_op == op for entry_op, _ in _ops_of(registry))
    if not lacking or somebody or registry.interfaces(op):
        return ""
    return f"{lacking}; a BuilderRegistration for {op!r} would do too"


def _needs(registry: Registry, who: Backend, op: str, device: torch.device) -> str:
    parts = []
    for name, target in registry.targets().items():
        if target.backend != who.name:
            continue
        claims, fault = target.claims(device)
        if registry.builder(op, name) is None:
            parts.append(
                f"target {name!r} {f'claims {device} but ' if claims else ''}has no builder of {op}"
            )
        else:
            why = fault or f"its detector {'claims' if claims else 'does not claim'} {device}"
            parts.append(
                f"target {name!r} has a builder of {op}, but {why}: ask with target={name!r}"
            )
    kernel_types = [entry for entry in registry.kernel_types(op) if entry.backend == who.name]
    working, dropped = _sorted_out(registry, kernel_types)
    if working:
        parts.append(f"serves {op} by {_types(working)}")
    parts += [f"kernel type {key!r} of {op} was dropped as broken, see below" for key in dropped]
    names = {who.name, *(name for name, t in registry.targets().items() if t.backend == who.name)}
    serves = {entry_op for entry_op, name in _ops_of(registry) if name in names}
    return ("; ".join(parts) or f"has nothing for {op}") + _misspelled(registry, op, serves)


def _misspelled(registry: Registry, op: str, serves: Iterable[str]) -> str:
    """A guess that somebody who serves ``op`` registered it under a wrong name."""
    # Who defines an op registers its interfaces; many real ops have names as close as these.
    nobodys = {
        name.casefold(): name for name in serves if name != op and not registry.interfaces(name)
    }
    close = difflib.get_close_matches(op.casefold(), nobodys, n=1, cutoff=0.85)
    return f" (does its {nobodys[close[0]]!r} mean {op!r}?)" if close else ""


def _sorted_out(
    registry: Registry, kernel_types: list[RegisteredKernelType]
) -> tuple[list[RegisteredKernelType], dict[str, str]]:
    """Kernel types that ops dispatch over, and by key what is wrong with each of the others."""
    dropped = {}
    for entry in kernel_types:
        # The registry is told what is wrong, by whoever checked, and not of which registration;
        # every such error begins with the op and the kernel type that it speaks of.
        start = f"kernel type {entry.key!r} "
        for failure in registry.load_failures():
            told = in_a_line(failure.error).partition(f": {entry.op}: ")[2]
            if failure.backend == entry.backend and told.startswith(start):
                dropped[entry.key] = told
    return [entry for entry in kernel_types if entry.key not in dropped], dropped


def _types(kernel_types: list[RegisteredKernelType]) -> str:
    return ", ".join(f"kernel type {entry.key!r} ({_devices(entry)})" for entry in kernel_types)


def _devices(entry: RegisteredKernelType) -> str:
    try:
        devices = getattr(entry.resolve(), "devices", None)
        if devices is None:
            return "any device"
        return f"needs {' or '.join(sorted(devices))}{unknown_to_torch(devices)}"
    except Exception as error:  # one that cannot even be imported; the reader wants to know
        return f"broken: {in_a_line(error)}"


def _others(registry: Registry) -> list[Backend]:
    return [who for who in registry.backends() if who.name != CORE]


def _ops_of(registry: Registry) -> set[tuple[str, str]]:
    """(op, target or backend name) for everything that serves an op."""
    tables = registry.snapshot()
    types = (entry for entries in tables.kernel_types.values() for entry in entries)
    return set(tables.builders) | {(entry.op, entry.backend) for entry in types}


def _remedy(registry: Registry) -> str:
    if GENERAL in registry.backend_names() or GENERAL in registry.disabled():
        return ""
    return f"; or `{INSTALL}`, which serves every op of the library that has a class, on any device"
