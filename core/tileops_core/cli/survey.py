"""What is installed and who serves what on this machine: the facts that several commands show."""

from __future__ import annotations

import warnings
from typing import Any

import attrs
import click
import torch

from tileops_core import ops
from tileops_core.backend.contract import LoadFailure, ManifestPath
from tileops_core.backend.loader import failure_of
from tileops_core.backend.registrations import Backend, Registered, RegisteredDiagnostic
from tileops_core.backend.registry import REGISTRY
from tileops_core.backend.targets import BUILTIN, select_target
from tileops_core.cached import cached_property
from tileops_core.errors import (
    AmbiguousTargetError,
    BackendError,
    ManifestError,
    OpNotAvailableError,
    TileOpsError,
)
from tileops_core.kernels.contracts import Candidate, Installed, install
from tileops_core.op import Op
from tileops_core.op.definition import living_classes
from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.spec import catalogue
from tileops_core.spec.entries import Spec
from tileops_core.spec.problems import manifest_error
from tileops_core.spec.text_files import UnreadableFileError, read_text

NOBODY = "nobody"
"""Who serves an op that no one serves."""


@attrs.frozen
class Entry:
    """An op that some manifest knows. ``path`` is None for the library's own."""

    op: str
    family: str
    status: str
    path: str | None = None

    def signature(self) -> Signature:
        """The op's signature.

        Raises:
            ManifestError: the entry is wrong; all problems.
        """
        return build_signature(self.spec())

    def spec(self) -> Spec:
        """What the entry says, whether it is right or not."""
        if self.path is None:
            return catalogue.load_spec(self.op)
        return catalogue.load_spec_from(self.path, self.op)


class Survey:
    """The loaded registry as a command sees it.

    What cannot be used is kept in ``failures`` and never warned about: a command says it in its
    own words. Kernel types are imported and checked op by op, when a command asks for that op.
    """

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self._failures = list(REGISTRY.load_failures())
        self._installed: dict[str, Installed] = {}
        self._answers: dict[tuple[str, torch.device], tuple[bool, str | None]] = {}

    @property
    def failures(self) -> tuple[LoadFailure, ...]:
        """What of a backend could not be used, as far as this survey has looked."""
        return tuple(self._failures)

    def resolve_all(self) -> None:
        """Import all that registrations name by strings; what leads nowhere is a failure.

        Calls would find each of them too, the first one that needs it.
        """
        for backend in REGISTRY.backends():
            for registered in REGISTRY.registered_by(backend.name):
                # The string of a spec file is a path, and ``entries`` reads those.
                if not isinstance(registered.registration, ManifestPath):
                    self._resolves(registered)

    def _resolves(self, registered: Registered[Any, Any]) -> bool:
        try:
            registered.resolve()
        except BackendError as error:
            self._fail(registered.origin, error)
            return False
        return True

    def findings(self, backend: str) -> dict[str, str | None]:
        """What each diagnostic of a backend found on this machine, None for nothing.

        One that is faulty has found neither; it is a failure of its backend.
        """
        found = {}
        for registered in REGISTRY.registered_by(backend):
            if isinstance(registered, RegisteredDiagnostic):
                try:
                    found[registered.name] = registered.ask()
                except BackendError as error:
                    self._fail(registered.origin, error)
        return found

    def _fail(self, backend: Backend, error: Exception) -> None:
        failure = failure_of(backend, error)
        if all(str(failure) != str(known) for known in self._failures):
            self._failures.append(failure)

    @cached_property
    def devices(self) -> tuple[torch.device, ...]:
        """The devices of this machine, the CPU first."""
        found = [torch.device("cpu")]
        if torch.accelerator.is_available():
            kind = torch.accelerator.current_accelerator()
            assert kind is not None
            found += [torch.device(kind.type, i) for i in range(torch.accelerator.device_count())]
        return tuple(found)

    @property
    def device_types(self) -> list[str]:
        """The types of the devices, each once."""
        return list(dict.fromkeys(device.type for device in self.devices))

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every op of the installed manifest and of the spec files that backends name.

        Ordered by family, then by name.
        """
        found = {
            op: Entry(op, catalogue.family_of(op) or "", catalogue.status_of(op) or "")
            for op in catalogue.known_ops()
        }
        for backend in REGISTRY.backends():
            for registered in REGISTRY.registered_by(backend.name):
                if isinstance(registered.registration, ManifestPath):
                    for entry in self._entries_of(backend, registered.registration.path):
                        found.setdefault(entry.op, entry)
        return dict(sorted(found.items(), key=lambda item: (item[1].family, item[0])))

    def _entries_of(self, backend: Backend, path: str) -> list[Entry]:
        try:
            specs = _specs_in(path)
        except TileOpsError as error:
            self._fail(backend, error)
            return []
        return [Entry(spec.op, spec.family, spec.status, path) for spec in specs]

    def op_class(self, op: str) -> type[Op] | None:
        """The class of an op that has one: the library's, or that of a backend's module."""
        own = self.entries[op].path is None
        found = getattr(ops, op, None) if own else living_classes().get(op)
        return found if isinstance(found, type) else None

    def kernel_types(self, op: str, backend: str | None = None) -> list[Candidate]:
        """The kernel types of an op, of one backend if it is named."""
        installed = self._install(op)
        found = [c for name in installed.interfaces for c in installed.candidates(name)]
        return [c for c in found if backend is None or c.backend == backend]

    def runs_on(self, op: str, backend: str | None) -> list[str]:
        """The device types of this machine that in-tree kernels of an op run on.

        Of a composite op, those that all its stages run on.
        """
        installed = [self._install(part) for part in self._parts(op)]
        kinds = self.device_types
        return [kind for kind in kinds if all(i.runs_on(kind, backend) for i in installed)]

    def _parts(self, op: str) -> list[str]:
        """The ops whose kernels do an op's work: itself, or those that its stages come down to."""
        stages = getattr(self.op_class(op), "delegate_types", {}).values()
        found = [part for stage in stages for part in self._parts(stage.__name__)]
        return list(dict.fromkeys(found)) or [op]

    def serves(self, op: str, target: str) -> list[str] | None:
        """Where a target serves an op: the device types here that it is for.

        Empty for a whole-op target that claims no device here but runs when it is named; None
        where naming it is an error.
        """
        if REGISTRY.builder(op, target) is not None:
            claimed = [device.type for device in self.devices if self.claims(target, device)[0]]
            return list(dict.fromkeys(claimed))
        return self.runs_on(op, target) or None

    def by_default(self, op: str, device: torch.device) -> str:
        """Who serves an op on a device when nobody is named, in a few words."""
        installed, parts = self._install(op), self._parts(op)
        try:
            chosen = select_target(
                op,
                None,
                device,
                in_tree=lambda backend: installed.runs_on(device.type, backend),
                composite=parts != [op],
                own_kernels=bool(installed.interfaces),
            )
        except AmbiguousTargetError:
            return f"ambiguous: {', '.join(self.claiming(op, device))}"
        except OpNotAvailableError:
            return NOBODY
        if chosen.name is not BUILTIN:
            return str(chosen.name)
        if device.type not in self.runs_on(op, None):
            return "nobody"  # a composite, whose stages have no kernels there
        backends = {
            c.backend or "the op itself"
            for part in parts
            for c in self.kernel_types(part)
            if c.kernel_type.devices is None or device.type in c.kernel_type.devices
        }
        return f"in-tree: {', '.join(sorted(backends))}"

    def claims(self, target: str, device: torch.device) -> tuple[bool, str | None]:
        """Whether a target's detector claims a device, and what is wrong with the detector.

        One whose string leads nowhere claims nothing and is a failure of its backend already.
        """
        registered = REGISTRY.targets().get(target)
        if registered is None:  # a backend's own name, which has no detector
            return False, None
        if (target, device) not in self._answers:
            resolves = self._resolves(registered)
            self._answers[target, device] = registered.claims(device) if resolves else (False, None)
        return self._answers[target, device]

    def claiming(self, op: str, device: torch.device) -> tuple[str, ...]:
        """The targets that build an op and claim a device, sorted."""
        return tuple(t for t in REGISTRY.targets_of(op) if self.claims(t, device)[0])

    def _install(self, op: str) -> Installed:
        """Import and check an op's kernel types as a first construction would."""
        if op not in self._installed:
            self._installed[op] = self._checked(op)
        return self._installed[op]

    def _checked(self, op: str) -> Installed:
        op_class = self.op_class(op)
        interfaces = dict(getattr(op_class, "interfaces", {}))
        for name, registered in REGISTRY.interfaces(op).items():
            if self._resolves(registered):
                interfaces[name] = registered.resolve()
        kernel_types = REGISTRY.kernel_types(op)
        own = getattr(op_class, "kernel_types", {})
        try:
            installed = install(op, interfaces, own, kernel_types if interfaces else ())
        except (TypeError, ValueError) as error:
            # Only who defines an op registers interfaces of it, so they are all of one backend.
            definer = next(iter(REGISTRY.interfaces(op).values()), None)
            if definer is None:
                raise
            self._fail(definer.origin, error)
            return install(op, {}, {}, ())
        origins = {id(kernel_type): kernel_type.origin for kernel_type in kernel_types}
        for source, fault in installed.faults:
            self._fail(origins[id(source)], fault)
        return installed


def tell_failures(seen: Survey) -> None:
    """Say on stderr, in one line, that backends are missing from what a command shows."""
    if seen.failures:
        names = ", ".join(sorted({failure.backend for failure in seen.failures}))
        click.echo(f"tileops: not all of {names} could be used; see `tileops doctor`", err=True)


def _specs_in(path: str) -> list[Spec]:
    try:
        entries = catalogue.ManifestFile(path, read_text(path))
    except UnreadableFileError as error:
        raise ManifestError(f"the spec file {path} cannot be read: {error}") from error
    if entries.problems:
        raise manifest_error(path, entries.problems)
    return [entries.load(op) for op in entries.ops]
