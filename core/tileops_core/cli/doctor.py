"""``tileops doctor``: what is installed, what each backend claims here, and what failed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from typing import Any

import click
import torch

from tileops_core.backend.contract import (
    BuilderRegistration,
    DeviceFactsRegistration,
    InterfaceRegistration,
    LoadFailure,
    Registration,
    TargetRegistration,
    in_a_line,
)
from tileops_core.backend.device_types import unknown_to_torch
from tileops_core.backend.registrations import Backend
from tileops_core.backend.registry import REGISTRY
from tileops_core.cli.output import Page, json_option, print_json
from tileops_core.cli.survey import Survey
from tileops_core.op.definition import living_classes
from tileops_core.suggest import did_you_mean

DISTRIBUTIONS = ("tileops-core", "tileops-manifest", "tileops-reference", "tileops-tilelang")
NOT_INSTALLED = "not installed"


@click.command()
@click.option("--tracebacks", is_flag=True, help="Print the whole traceback of each failure.")
@json_option
def doctor(tracebacks: bool, as_json: bool) -> int:
    """Tell what is installed, what each backend claims on the devices here, and what failed.

    Exits with 1 if a backend, or a part of one, could not be used, or is for an op that nobody
    knows. What a backend finds missing on
    this machine is told and is no failure: others may serve. Nor is it one when two targets claim
    one device: each works when it is named. With --json the tracebacks are always there.
    """
    seen = Survey()
    seen.resolve_all()
    report: dict[str, Any] = {
        "versions": _versions(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("TILEOPS_")},
        "devices": [{"device": str(d), "is": _describe(d)} for d in seen.devices],
        "backends": [_backend(seen, backend) for backend in REGISTRY.backends()],
        "disabled": list(REGISTRY.disabled()),
        "ambiguous": _ambiguous(seen),
    }
    # Last, because looking at everything else is what finds some of them.
    report["failures"] = [_failure(failure) for failure in seen.failures]
    if as_json:
        print_json(report)
    else:
        _print(report, tracebacks)
    broken = report["failures"] or any(
        b["unknown_ops"] or any(t["faults"] for t in b["targets"]) for b in report["backends"]
    )
    return 1 if broken else 0


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = NOT_INSTALLED
    return found


def _describe(device: torch.device) -> str:
    if device.type == "cpu":
        return f"{os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}"
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return ""


def _backend(seen: Survey, backend: Backend) -> dict[str, Any]:
    mine = [entry.registration for entry in REGISTRY.registered_by(backend.name)]
    named = sorted({str(r.op) for r in mine if hasattr(r, "op")})
    served = [op for op in seen.entries if seen.kernel_types(op, backend.name)]
    known = {**seen.entries, **living_classes()}
    return {
        "name": backend.name,
        "distribution": backend.distribution,
        "version": backend.version,
        "interfaces_of": len({r.op for r in mine if isinstance(r, InterfaceRegistration)}),
        "kernel_types_of": len(served),
        "runs_on": {
            kind: sum(kind in seen.runs_on(op, backend.name) for op in served)
            for kind in seen.device_types
        },
        "diagnostics": [
            {"name": name, "finding": finding}
            for name, finding in seen.findings(backend.name).items()
        ],
        "unknown_devices": _unknown_devices(seen, backend.name, served, mine),
        "targets": [_target(seen, name, mine) for name in _targets_of(mine)],
        "unknown_ops": {
            op: did_you_mean(op, known).strip(" ()") for op in named if op not in known
        },
    }


def _unknown_devices(
    seen: Survey, backend: str, ops: list[str], mine: list[Registration]
) -> dict[str, str]:
    """What a backend declares for device types that torch does not know, each with a hint."""
    declared: dict[str, Iterable[str]] = {
        f"kernel type {candidate.key!r} of {op}": candidate.kernel_type.devices or ()
        for op in ops
        for candidate in seen.kernel_types(op, backend)
    }
    for registration in mine:
        if isinstance(registration, DeviceFactsRegistration):
            declared[registration.title] = (registration.device_type,)
    hints = {what: unknown_to_torch(types).strip("; ") for what, types in declared.items()}
    return {what: hint for what, hint in hints.items() if hint}


def _targets_of(mine: list[Registration]) -> list[str]:
    """The targets that a backend registers, or builds ops for."""
    names = {r.name for r in mine if isinstance(r, TargetRegistration)}
    return sorted(names | {r.target for r in mine if isinstance(r, BuilderRegistration)})


def _target(seen: Survey, name: str, mine: list[Registration]) -> dict[str, Any]:
    answers = {str(d): seen.claims(name, d) for d in seen.devices}
    its_own = any(isinstance(r, TargetRegistration) and r.name == name for r in mine)
    return {
        "name": name,
        "builders": sum(
            isinstance(r, BuilderRegistration) and r.target == name and r.op in seen.entries
            for r in mine
        ),
        "claims": [device for device, (claimed, _) in answers.items() if claimed],
        "faults": {device: fault for device, (_, fault) in answers.items() if fault and its_own},
    }


def _ambiguous(seen: Survey) -> list[dict[str, Any]]:
    """The ops that several targets build for one device, by device and targets."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for device in seen.devices:
        for op in seen.entries:
            targets = seen.claiming(op, device)
            if len(targets) > 1:
                found.setdefault((str(device), targets), []).append(op)
    return [
        {"device": device, "targets": list(targets), "ops": ops}
        for (device, targets), ops in found.items()
    ]


def _failure(failure: LoadFailure) -> dict[str, Any]:
    return {
        "backend": failure.backend,
        "distribution": failure.distribution,
        "version": failure.version,
        "entry_point": failure.entry_point,
        "error": in_a_line(failure.error),
        "fix": _fix(failure),
        "traceback": failure.traceback,
    }


def _fix(failure: LoadFailure) -> str:
    """What to do about a failure, in one sentence."""
    skip = f", or skip it: TILEOPS_DISABLE_BACKENDS={failure.skip}" if failure.skip else ""
    if failure.distribution is None:
        return "it was registered by this process; fix it there"
    # A string that leads nowhere has what its import raised as its cause.
    cause = failure.error.__cause__ or failure.error
    module = cause.name if isinstance(cause, ModuleNotFoundError) else None
    if module and module.split(".")[0] == failure.entry_point.split(".")[0].split(":")[0]:
        return (
            f"{failure.distribution} has no module {module}: it names the module wrongly, or is "
            f"only half installed; report it, pip install --force-reinstall "
            f"{failure.distribution}, or pip uninstall {failure.distribution}{skip}"
        )
    if module:
        # A distribution may have another name than its modules, so there is none to guess at.
        return f"module {module} is missing: install the distribution that brings it{skip}"
    return f"update or report {failure.distribution} {failure.version or ''}".rstrip() + skip


def _print(report: dict[str, Any], tracebacks: bool) -> None:
    page = Page()
    page.table(["what", "version"], [list(item) for item in report["versions"].items()])
    if report["environment"]:
        page.heading("Environment")
        for name, value in report["environment"].items():
            page.line(f"{name}={value}")
    page.heading("Devices")
    page.table(["device", "is"], [list(row.values()) for row in report["devices"]])
    page.heading("Backends")
    page.table(
        ["backend", "distribution", "version", "brings"],
        [
            [
                backend["name"],
                backend["distribution"] or "registered by this process",
                backend["version"] or "",
                _brings(backend),
            ]
            for backend in report["backends"]
        ],
    )
    if report["disabled"]:
        page.line(f"Skipped by TILEOPS_DISABLE_BACKENDS: {', '.join(report['disabled'])}")
    for backend in report["backends"]:
        for diagnostic in backend["diagnostics"]:
            if diagnostic["finding"] is not None:
                page.line(
                    f"{backend['name']}: {diagnostic['name']}: {diagnostic['finding']}",
                    style="yellow",
                )
        for op, guess in backend["unknown_ops"].items():
            page.line(
                f"backend {backend['name']!r} registers something for {op!r}, which no manifest "
                f"knows{f' ({guess})' if guess else ''}: no call will ever use it; correct the "
                f"name, or, if {op} is yours, return the path of its entry's file from the hook "
                f"tileops_manifest_paths",
                style="red",
            )
        for what, hint in backend["unknown_devices"].items():
            page.line(f"backend {backend['name']!r}: {what}: {hint}", style="yellow")
        for target in backend["targets"]:
            for device, fault in target["faults"].items():
                page.line(f"target {target['name']!r} on {device}: {fault}", style="red")
    for case in report["ambiguous"]:
        first = case["targets"][0]
        page.line(
            f"targets {', '.join(map(repr, case['targets']))} all claim {case['device']} and "
            f"build {', '.join(case['ops'])}: a call there that names none is refused; choose "
            f"with target={first!r}, set_default_target({first!r}) or target=BUILTIN, or uninstall "
            f"the others",
            style="yellow",
        )
    if report["failures"]:
        page.heading("Failures")
    for failure in report["failures"]:
        who = " ".join(filter(None, (failure["distribution"], failure["version"])))
        page.line(f"backend {failure['backend']!r}{f' ({who})' if who else ''}", style="red")
        page.line(f"  {failure['error']}")
        page.line(f"  fix: {failure['fix']}")
        for line in failure["traceback"].splitlines() if tracebacks else ():
            page.line(f"    {line}", style="dim")


def _brings(backend: dict[str, Any]) -> str:
    parts = []
    if backend["interfaces_of"]:
        parts.append(f"the kernel interfaces of {_ops(backend['interfaces_of'])}")
    if backend["kernel_types_of"]:
        here = ", ".join(f"{count} on {kind}" for kind, count in backend["runs_on"].items())
        parts.append(f"kernels of {_ops(backend['kernel_types_of'])} ({here})")
    for target in backend["targets"]:
        claimed = ", ".join(target["claims"]) or "no device here"
        if target["name"] not in REGISTRY.targets():
            claimed = "no device, because it has no detector"
        parts.append(f"target {target['name']} of {_ops(target['builders'])}, claims {claimed}")
    return "; ".join(parts) or "nothing"


def _ops(count: int) -> str:
    return f"{count} op" if count == 1 else f"{count} ops"
