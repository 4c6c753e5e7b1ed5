"""What kernel types must be before an op dispatches over them.

Everything is checked when an op is first constructed, so that a call never meets a broken
declaration. An op's own kernel types are its author's affair: their faults raise. A registered
one's fault drops that kernel type alone, and the op works with the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import attrs

from tileops_core.by_fields import EqualByFields, ShownByFields
from tileops_core.kernels.call_spec import CallSpec
from tileops_core.kernels.kernel import Kernel, KernelInterface
from tileops_core.suggest import did_you_mean, listed

_Subject = TypeVar("_Subject")


class RegisteredKernelType(Protocol):
    """What contracts read of a kernel type in the registry."""

    @property
    def key(self) -> str:
        """The key it was registered under."""

    @property
    def backend(self) -> str:
        """The backend that registered it."""

    @property
    def version(self) -> str | None:
        """The version of that backend's distribution."""

    def resolve(self) -> Any:
        """The class, imported if the registration named it as a string."""


@attrs.frozen(eq=False, slots=True, repr=False)
class Candidate(ShownByFields):
    """A kernel type that passed the checks, at its place in an op.

    ``backend`` is None for a kernel type of the op's own. ``beats`` holds the keys of all
    installed kernel types that this one is preferred over, directly or through others.
    ``source`` is what it was registered as.
    """

    key: str
    kernel_type: type[Kernel]
    backend: str | None
    interface: str
    beats: frozenset[str] = frozenset()
    source: RegisteredKernelType | None = attrs.field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.key!r} ({self.backend or 'of the op itself'})"


@attrs.frozen(eq=False, repr=False)
class Installed(ShownByFields):
    """The kernel types of one op class, checked, and those that were dropped.

    ``faults`` pairs each dropped registration with its exception.
    """

    interfaces: Mapping[str, type[KernelInterface]]
    faults: tuple[tuple[RegisteredKernelType, Exception], ...]
    _by_interface: Mapping[str, tuple[Candidate, ...]]

    def candidates(self, interface: str) -> tuple[Candidate, ...]:
        """The kernel types of one interface, by key; ``()`` for an interface that has none."""
        return self._by_interface.get(interface, ())

    def runs_on(self, device_type: str, backend: str | None = None) -> bool:
        """Whether some kernel type, of that backend if one is named, runs on a device type."""
        return any(
            devices is None or device_type in devices
            for candidates in self._by_interface.values()
            for candidate in candidates
            if backend is None or candidate.backend == backend
            for devices in (candidate.kernel_type.devices,)
        )

    def lacking(self) -> str:
        """What the op lacks to be served in-tree by anybody on any device, or ``""``."""
        if not self.interfaces:
            return (
                "its class has no `interfaces`, so a `forward` of its own is never run: give it "
                "`interfaces` and a kernel type"
            )
        bare = [name for name in self.interfaces if not self.candidates(name)]
        if len(bare) < len(self.interfaces):
            return ""
        return (
            f"no kernel type of its interface {listed(map(repr, bare))} is installed: put one into "
            "the class's `kernel_types`, or register one"
        )


def install(
    op: str,
    interfaces: Mapping[str, Any],
    own: Mapping[str, Any],
    registered: Iterable[RegisteredKernelType],
) -> Installed:
    """Check an op's kernel interfaces and kernel types and put each kernel type in its place.

    The outcome does not depend on the order of registration.

    Args:
        op: The op's name, for messages.
        interfaces: Interface name -> class.
        own: Key -> kernel type, as the op's class declares them.
        registered: The kernel types that backends registered for the op.

    Returns:
        What dispatch chooses from.

    Raises:
        TypeError: An interface, or a kernel type of the op's own, that is not what it must be.
        ValueError: Declarations of the op's own kernel types that contradict one another.
    """
    _check_interfaces(op, interfaces)
    faults: list[tuple[RegisteredKernelType, Exception]] = []
    placed = _place(op, interfaces, own, registered, faults)
    related = _passing(placed, lambda c, kept: _check_relations(op, c, placed, kept), faults)
    acyclic = _passing(related, lambda c, kept: _check_cycle(op, c, kept), faults)
    by_interface: dict[str, list[Candidate]] = {name: [] for name in interfaces}
    for key in sorted(acyclic):
        candidate = attrs.evolve(acyclic[key], beats=_beaten(acyclic[key], acyclic))
        by_interface[candidate.interface].append(candidate)
    return Installed(
        dict(interfaces),
        tuple(faults),
        {name: tuple(candidates) for name, candidates in by_interface.items()},
    )


def _place(
    op: str,
    interfaces: Mapping[str, type[KernelInterface]],
    own: Mapping[str, Any],
    registered: Iterable[RegisteredKernelType],
    faults: list[tuple[RegisteredKernelType, Exception]],
) -> dict[str, Candidate]:
    """Check each kernel type by itself; own ones first, then by backend and key."""
    placed: dict[str, Candidate] = {}
    for key in sorted(own):
        who = _Who(op, key, own[key], None)
        placed[key] = Candidate(key, own[key], None, _check_alone(who, interfaces))

    def place(item: RegisteredKernelType) -> None:
        kernel_type = item.resolve()
        who = _Who(op, item.key, kernel_type, item.backend)
        if holder := placed.get(item.key):
            by = f"backend {holder.backend!r} registered" if holder.backend else "the op itself has"
            raise who.wrong(f"the key is taken: {by} {holder.kernel_type.__qualname__}")
        interface = _check_alone(who, interfaces)
        placed[item.key] = Candidate(item.key, kernel_type, item.backend, interface, source=item)

    for item in sorted(registered, key=lambda item: (item.backend, item.key)):
        _file_fault(item, place, item, faults)
    return placed


def _passing(
    candidates: Mapping[str, Candidate],
    check: Callable[[Candidate, Mapping[str, Candidate]], None],
    faults: list[tuple[RegisteredKernelType, Exception]],
) -> dict[str, Candidate]:
    """Those that pass a check against the ones kept so far."""
    kept: dict[str, Candidate] = {}

    def keep(candidate: Candidate) -> None:
        check(candidate, kept)
        kept[candidate.key] = candidate

    for candidate in candidates.values():
        _file_fault(candidate.source, keep, candidate, faults)
    return kept


def _file_fault(
    source: RegisteredKernelType | None,
    step: Callable[[_Subject], None],
    subject: _Subject,
    faults: list[tuple[RegisteredKernelType, Exception]],
) -> None:
    """Take a step; whatever it raises is filed against a registration, raised for an own one."""
    try:
        step(subject)
    except Exception as error:
        if source is None:
            raise
        faults.append((source, error))


@attrs.frozen(slots=True, eq=False, repr=False)
class _Who(EqualByFields):
    """Names a kernel type in messages."""

    op: str
    key: str
    kernel_type: Any
    backend: str | None

    def __str__(self) -> str:
        name = getattr(self.kernel_type, "__qualname__", None) or repr(self.kernel_type)
        backend = f" of backend {self.backend!r}" if self.backend else ""
        return f"{self.op}: kernel type {self.key!r} ({name}){backend}"

    def unfit(self, text: str) -> TypeError:
        return TypeError(f"{self} {text}")

    def wrong(self, text: str) -> ValueError:
        return ValueError(f"{self}: {text}")


def _check_interfaces(op: str, interfaces: Mapping[str, Any]) -> None:
    names_by_class: dict[type, str] = {}
    for name, interface in interfaces.items():
        who = f"{op}: kernel interface {name!r}"
        if not (isinstance(interface, type) and issubclass(interface, KernelInterface)):
            raise TypeError(f"{who} is {interface!r}, not a subclass of KernelInterface")
        who = f"{who} ({interface.__qualname__})"
        if issubclass(interface, Kernel):
            raise TypeError(f"{who} is itself a kernel type; an interface only declares the call")
        if not getattr(interface.forward, "__isabstractmethod__", False):
            raise TypeError(f"{who} must declare `forward` as an abstract method")
        if interface.forward is KernelInterface.forward:
            raise TypeError(f"{who} must declare its own `forward`: it is the call contract")
        request = getattr(interface, "request", None)
        if not (isinstance(request, type) and issubclass(request, CallSpec)):
            raise TypeError(f"{who} has request {request!r}; it must name a subclass of CallSpec")
        if interface in names_by_class:
            raise ValueError(f"{who} is also {names_by_class[interface]!r}; one class, one name")
        names_by_class[interface] = name


def _check_alone(who: _Who, interfaces: Mapping[str, type[KernelInterface]]) -> str:
    """Check what needs no other kernel type; the interface it implements is returned."""
    kernel_type = who.kernel_type
    if not isinstance(kernel_type, type):
        raise who.unfit("is not a class")
    if not issubclass(kernel_type, Kernel):
        raise who.unfit("does not inherit Kernel; a kernel type inherits Kernel and one interface")
    name = _interface_of(who, interfaces)
    missing = sorted(getattr(kernel_type, "__abstractmethods__", ()))
    if missing:
        raise who.unfit(f"does not implement {listed(missing)} of {interfaces[name].__qualname__}")
    for method in ("entry_for", "refusal", "defers"):
        found = inspect.getattr_static(kernel_type, method)
        if not isinstance(found, classmethod):
            raise who.unfit(
                f"has {method} as {found!r}; it is asked of the class, so it must be a classmethod"
            )
    _check_forward(who, interfaces[name])
    _check_words(who, "devices", kernel_type.devices, str, optional=True)
    _check_words(who, "supported_archs", kernel_type.supported_archs, int, optional=True)
    _check_words(who, "preferred_over", kernel_type.preferred_over, str, optional=False)
    _check_configs(who)
    devices = kernel_type.devices
    for one in sorted(name for name in devices or () if ":" in name):
        kind = one.partition(":")[0]
        raise who.wrong(f"devices has {one!r}, which is one device and no type: write {kind!r}")
    if kernel_type.supported_archs is not None and (devices is None or len(devices) != 1):
        types = "any device" if devices is None else listed(devices, "no device")
        raise who.wrong(f"supported_archs are numbers of one device type, but devices are: {types}")
    return name


def _check_configs(who: _Who) -> None:
    """Check that configurations can be chosen from: there is one, and a way to build with it."""
    configs = who.kernel_type.autotune_configs
    if configs is None:
        return
    if not isinstance(configs, Sequence) or not all(isinstance(c, Mapping) for c in configs):
        raise who.unfit(f"has autotune_configs = {configs!r}; it must be a sequence of mappings")
    if not configs:
        raise who.wrong("autotune_configs is empty; leave it out where there is no choice")
    own_way = who.kernel_type.request_tune is not Kernel.request_tune
    if who.kernel_type.with_config is Kernel.with_config and not own_way:
        raise who.unfit(
            "has autotune_configs, but neither with_config, which builds with one of them, nor "
            "a request_tune of its own"
        )


def _interface_of(who: _Who, interfaces: Mapping[str, type[KernelInterface]]) -> str:
    kernel_type = who.kernel_type
    found = [name for name, interface in interfaces.items() if issubclass(kernel_type, interface)]
    # One that refines another interface of the op belongs to the finer one.
    found = [
        name
        for name in found
        if not any(
            other != name and issubclass(interfaces[other], interfaces[name]) for other in found
        )
    ]
    if len(found) == 1:
        return found[0]
    have = ", ".join(f"{name!r} ({i.__qualname__})" for name, i in sorted(interfaces.items()))
    if found:
        names = listed(repr(name) for name in found)
        raise who.wrong(f"it implements several interfaces ({names}); a kernel type has one")
    implemented = [
        base.__qualname__
        for base in kernel_type.__mro__
        if issubclass(base, KernelInterface)
        and base is not KernelInterface
        and not issubclass(base, Kernel)
    ]
    guesses = "".join(
        did_you_mean(name, (i.__qualname__ for i in interfaces.values())) for name in implemented
    )
    raise who.unfit(
        f"implements no interface of the op: it has {listed(implemented)}, "
        f"the op has {have or 'none'}{guesses}"
    )


def _check_words(who: _Who, name: str, value: object, of: type, *, optional: bool) -> None:
    if value is None and optional:
        return
    if not isinstance(value, (frozenset, set)) or not all(type(item) is of for item in value):
        none = " or None" if optional else ""
        raise who.unfit(f"has {name} = {value!r}; it must be a frozenset of {of.__name__}{none}")


def _check_forward(who: _Who, interface: type[KernelInterface]) -> None:
    """Check that every call which the interface allows fits the kernel type's ``forward``."""
    found = inspect.getattr_static(who.kernel_type, "forward")
    if not callable(found):
        raise who.unfit(f"has forward as {found!r}; it must be a method")
    takes_self = hasattr(found, "__get__") and not isinstance(found, staticmethod)
    try:
        theirs = inspect.signature(found.__func__ if isinstance(found, staticmethod) else found)
    except ValueError:  # Some builtins do not tell their arguments.
        return
    contract = inspect.signature(interface.forward)
    declared = list(contract.parameters.values())[1:]
    for form in (declared, [p for p in declared if p.default is p.empty]):
        # A caller's buffer is always passed by name.
        by_name = {p.name: None for p in form if p.kind is p.KEYWORD_ONLY or p.name == "out"}
        by_position = [
            p
            for p in form
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in by_name
        ]
        receiver = (None,) if takes_self else ()
        try:
            theirs.bind(*receiver, *(None for _ in by_position), **by_name)
        except TypeError as error:
            raise who.unfit(
                f"has forward{theirs}, but {interface.__qualname__} is called as "
                f"forward{contract}: {error}"
            ) from None


def _check_relations(
    op: str, candidate: Candidate, placed: Mapping[str, Candidate], kept: Mapping[str, Candidate]
) -> None:
    who = _Who(op, candidate.key, candidate.kernel_type, candidate.backend)
    preferred_over = candidate.kernel_type.preferred_over
    if candidate.kernel_type.general:
        if preferred_over:
            raise who.wrong(
                "a general kernel type ranks below all others and can have no preferred_over"
            )
        for other in kept.values():
            if (
                other.kernel_type.general
                and other.backend == candidate.backend
                and other.interface == candidate.interface
            ):
                raise who.wrong(
                    f"{other.key!r} is general for {other.interface!r} too; one backend, one"
                )
    if candidate.key in preferred_over:
        raise who.wrong("preferred_over names the kernel type itself")
    for key in sorted(preferred_over):
        # What a backend registers is no fault of the op's own kernel types.
        known = key in placed and (candidate.backend is not None or placed[key].backend is None)
        if known and placed[key].interface != candidate.interface:
            raise who.wrong(
                f"preferred_over names {key!r}, which implements {placed[key].interface!r}, "
                f"not {candidate.interface!r}"
            )


def _check_cycle(op: str, candidate: Candidate, kept: Mapping[str, Candidate]) -> None:
    known = {**kept, candidate.key: candidate}
    if candidate.key in _beaten(candidate, known):
        others = (other for other in kept.values() if candidate.key in _beaten(other, known))
        circle = sorted(other.key for other in others if other.key in _beaten(candidate, known))
        who = _Who(op, candidate.key, candidate.kernel_type, candidate.backend)
        raise who.wrong(f"preferred_over goes in a circle through {listed(map(repr, circle))}")


def _beaten(candidate: Candidate, known: Mapping[str, Candidate]) -> frozenset[str]:
    """The installed keys that a kernel type is preferred over, through others too."""
    beaten: set[str] = set()
    ahead = [candidate]
    while ahead:
        for key in ahead.pop().kernel_type.preferred_over:
            other = known.get(key)
            if other and other.interface == candidate.interface and key not in beaten:
                beaten.add(key)
                ahead.append(other)
    return frozenset(beaten)
