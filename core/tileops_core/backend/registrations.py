"""A registration inside the registry: who brought it, and its referent once it is needed."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tileops_core.backend.blame import blame
from tileops_core.backend.contract import (
    BuilderRegistration,
    DeviceFactsRegistration,
    DiagnosticRegistration,
    InterfaceRegistration,
    KernelTypeRegistration,
    ManifestPath,
    OracleRegistration,
    Registration,
    TargetRegistration,
    in_a_line,
    one_line,
)
from tileops_core.errors import BackendError

if TYPE_CHECKING:
    import torch

LOGGER = logging.getLogger("tileops.backend")

R = TypeVar("R", bound=Registration)
T = TypeVar("T")


class Backend:
    """Who brought registrations: a distribution's entry point, or code of this process.

    Args:
        name: the backend's name.
        distribution: the distribution's name; None for registrations made at run time.
        read_version: reads the distribution's version; called when somebody asks for it.
        entry_point: the entry point's value.
        skip: what ``TILEOPS_DISABLE_BACKENDS`` has to be to leave out this backend and none of
            another distribution; None if nothing does.
    """

    __slots__ = ("_read_version", "distribution", "entry_point", "name", "skip")

    def __init__(
        self,
        name: str,
        distribution: str | None = None,
        read_version: Callable[[], str | None] | None = None,
        entry_point: str = "",
        skip: str | None = None,
    ) -> None:
        self.name = name
        self.skip = skip
        self.distribution = distribution
        self.entry_point = entry_point
        self._read_version = read_version

    @property
    def version(self) -> str | None:
        """The distribution's version, None if it has none."""
        return self._read_version() if self._read_version is not None else None

    def __str__(self) -> str:
        if self.distribution is None:
            return f"backend {self.name!r} (registered at run time)"
        return f"backend {self.name!r} ({self.distribution} {self.version or '?'})"

    def __repr__(self) -> str:
        return f"<{self}>"


class Registered(Generic[R, T]):
    """One registration and its backend. Compares by identity."""

    __slots__ = ("_found", "origin", "registration")

    def __init__(self, registration: R, origin: Backend) -> None:
        self.registration = registration
        self.origin = origin
        self._found: dict[None, T] = {}

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self.origin.name

    @property
    def distribution(self) -> str | None:
        """The backend's distribution, None for one made at run time."""
        return self.origin.distribution

    @property
    def version(self) -> str | None:
        """The distribution's version."""
        return self.origin.version

    def resolve(self) -> T:
        """The referent itself; a ``"module:attr"`` string is imported at the first use, once.

        Raises:
            BackendError: the string leads nowhere, or to the wrong kind of thing. The error names
                backend, distribution and string, and has the original as its cause.
        """
        found = self._found.get(None, self)
        if found is not self:
            return found  # type: ignore[return-value]
        referent = self.registration.referent
        value = self._imported(referent) if isinstance(referent, str) else referent
        # No lock is held across an import, so no two imports can wait for each other; setdefault
        # lets the first of several threads decide what all of them get.
        return self._found.setdefault(None, value)

    def _imported(self, reference: str) -> Any:
        module, _, path = reference.partition(":")
        try:
            value: object = importlib.import_module(module)
            for part in path.split("."):
                value = getattr(value, part)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._broken(reference, in_a_line(error)) from error
        problem = self.registration.problem(value)
        if problem is not None:
            raise self._broken(reference, f"{value!r} {problem}")
        return value

    def _broken(self, reference: str, why: str) -> BackendError:
        registration = self.registration
        skip = self.origin.skip
        skipping = f", or skip it with TILEOPS_DISABLE_BACKENDS={skip}" if skip else ""
        remedy = (
            f"reinstall or report it{skipping}"
            if self.distribution
            else "register what can be imported"
        )
        return BackendError(
            f"{getattr(registration, 'op', 'tileops')}: {registration.title} is {reference!r}, "
            f"which does not resolve ({why}); {self.origin} registered it: {remedy}",
            backend=self.backend,
            op=getattr(registration, "op", None),
            target=getattr(registration, "target", None),
        )

    def __repr__(self) -> str:
        return f"<{self.registration.title} of {self.origin}>"


class RegisteredTarget(Registered[TargetRegistration, Callable[[Any], bool]]):
    """A target in the registry."""

    __slots__ = ("_reported",)

    def __init__(self, registration: TargetRegistration, origin: Backend) -> None:
        super().__init__(registration, origin)
        self._reported: dict[str, object] = {}

    @property
    def name(self) -> str:
        """The target's name."""
        return self.registration.name

    def claims(self, device: torch.device) -> tuple[bool, str | None]:
        """Ask the detector whether ``device`` is what the target's kernels are for.

        Returns:
            Its answer and None; or False and what is wrong with the detector, which is also
            reported, once for each kind of fault.
        """
        try:
            answer: object = self.resolve()(device)
            # A coroutine or a match object is true as well, and means a mistake.
            if answer is None or answer == 0 or answer == 1:
                return bool(answer), None
            fault = f"its detector returned {answer!r} instead of a bool"
            kind = type(answer).__name__
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            blame(error, target=self.name, backend=self.backend, version=self.version)
            fault = f"its detector raised {in_a_line(error)}"
            kind = type(error).__name__
        mark = object()
        if self._reported.setdefault(kind, mark) is mark:
            LOGGER.warning(
                "target %r does not claim %s: %s; %s is responsible",
                self.name,
                device,
                fault,
                self.origin,
            )
        return False, fault


class RegisteredBuilder(Registered[BuilderRegistration, Callable[..., Any]]):
    """A whole-op builder in the registry."""

    __slots__ = ()

    @property
    def op(self) -> str:
        """The op's class name."""
        return self.registration.op

    @property
    def target(self) -> str:
        """The target's name."""
        return self.registration.target


class RegisteredInterface(Registered[InterfaceRegistration, type[Any]]):
    """A kernel interface in the registry."""

    __slots__ = ()

    @property
    def op(self) -> str:
        """The op's class name."""
        return self.registration.op

    @property
    def name(self) -> str:
        """The interface's name."""
        return self.registration.name


class RegisteredKernelType(Registered[KernelTypeRegistration, type[Any]]):
    """A kernel type in the registry."""

    __slots__ = ()

    @property
    def op(self) -> str:
        """The op's class name."""
        return self.registration.op

    @property
    def key(self) -> str:
        """The kernel type's key."""
        return self.registration.key


class RegisteredDeviceFacts(Registered[DeviceFactsRegistration, Callable[..., Any]]):
    """A reader of device facts in the registry."""

    __slots__ = ()


class RegisteredOracle(Registered[OracleRegistration, Callable[..., Any]]):
    """An oracle in the registry."""

    __slots__ = ()


class RegisteredDiagnostic(Registered[DiagnosticRegistration, Callable[[], str | None]]):
    """A diagnostic in the registry."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """What it looks at."""
        return self.registration.name

    def ask(self) -> str | None:
        """What on this machine keeps the backend from working, in one line; None if nothing does.

        Raises:
            BackendError: it cannot be imported, raised, or returned something else than text or
                None; the error has the original as its cause.
        """
        find = self.resolve()
        try:
            answer: object = find()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._faulty(f"raised {in_a_line(error)}") from error
        if answer is None:
            return None
        if not isinstance(answer, str):
            raise self._faulty(f"returned {type(answer).__name__}; it must return text or None")
        line = one_line(answer)
        if not line:
            raise self._faulty("returned an empty text; where there is nothing to say it is None")
        return line

    def _faulty(self, what: str) -> BackendError:
        return BackendError(f"{self.registration.title} {what}", backend=self.backend)


class RegisteredPath(Registered[ManifestPath, str]):
    """A spec file in the registry."""

    __slots__ = ()


CLASSES: dict[type[Registration], type[Registered[Any, Any]]] = {
    TargetRegistration: RegisteredTarget,
    BuilderRegistration: RegisteredBuilder,
    InterfaceRegistration: RegisteredInterface,
    KernelTypeRegistration: RegisteredKernelType,
    DeviceFactsRegistration: RegisteredDeviceFacts,
    OracleRegistration: RegisteredOracle,
    DiagnosticRegistration: RegisteredDiagnostic,
    ManifestPath: RegisteredPath,
}


def enter(registration: Registration, origin: Backend) -> Registered[Any, Any]:
    """Wrap a registration in the class that its kind has in the registry."""
    return CLASSES[kind_of(registration)](registration, origin)


def kind_of(registration: object) -> type[Registration]:
    """The registration class that ``registration`` is an instance of.

    Raises:
        TypeError: it is no registration at all.
    """
    if type(registration) in CLASSES:
        return type(registration)  # type: ignore[return-value]
    for kind in CLASSES:
        if isinstance(registration, kind):
            return kind
    known = ", ".join(kind.__name__ for kind in CLASSES if kind is not ManifestPath)
    raise TypeError(f"{registration!r} is no registration; make one of {known}")
