"""What a backend registers: frozen data, checked when it is made.

A registration names what it is for and holds one *referent*: the callable or class that does the
work, or a ``"module:attr"`` string that is imported when the referent is first needed.
"""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from tileops_core.by_fields import EqualByFields, ShownByFields
from tileops_core.tensor_spec import TensorSpec

if TYPE_CHECKING:
    import torch

__all__ = [
    "BuilderRegistration",
    "DeviceFactsRegistration",
    "DiagnosticRegistration",
    "InterfaceRegistration",
    "KernelTypeRegistration",
    "LoadFailure",
    "ManifestPath",
    "OracleRegistration",
    "Registration",
    "TargetRegistration",
    "TensorSpec",
]


_PATH = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(f"{_PATH}:{_PATH}")


def is_name(text: object) -> bool:
    """Whether ``text`` may name an op, a target, a key or a backend."""
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def is_builtin(text: str) -> bool:
    """Whether ``text`` reads like ``BUILTIN``, the object that asks for in-tree kernels.

    As the name of a target or a backend it would make errors and records say one and mean the
    other.
    """
    return text.casefold() == "builtin"


def near_name(text: str) -> str:
    """``" (did you mean 'my_target'?)"`` where other characters can become underscores."""
    candidate = "".join(sign if sign.isalnum() else "_" for sign in text.strip())
    candidate = f"_{candidate}" if candidate[:1].isdigit() else candidate
    candidate = f"{candidate}_" if keyword.iskeyword(candidate) else candidate
    return f" (did you mean {candidate!r}?)" if candidate != text and is_name(candidate) else ""


def is_reference(text: str) -> bool:
    """Whether ``text`` has the form ``"module:attr"``, both sides dotted names."""
    return _REFERENCE.fullmatch(text) is not None


def _name(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    owner = type(instance).__name__
    if not isinstance(value, str):
        raise TypeError(f"{owner}: {attribute.name} must be a str, got {value!r}")
    if not is_name(value):
        raise ValueError(
            f"{owner}: {attribute.name}={value!r} is not a name; "
            f"use letters, digits and underscores, and no Python keyword{near_name(value)}"
        )


def _words(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    owner = type(instance).__name__
    if not isinstance(value, str):
        raise TypeError(f"{owner}: {attribute.name} must be a str, got {value!r}")
    if not value or value != value.strip() or not value.isprintable():
        raise ValueError(
            f"{owner}: {attribute.name}={value!r} is not a few words in one line, with nothing "
            f"around them, for example 'C compiler'"
        )


def _no_builtin(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if is_builtin(value):
        raise ValueError(
            f"{type(instance).__name__}: {attribute.name}={value!r} is kept for in-tree kernels, "
            f"which target=BUILTIN asks for; choose another name"
        )


def _reference(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not is_reference(value):
        raise ValueError(
            f"{type(instance).__name__}: {attribute.name}={value!r} is not of the form "
            f"'module:attr', for example 'tileops_acme.norm:build_rms_norm'"
        )


def _callable(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, str):
        _reference(instance, attribute, value)
    elif not callable(value):
        raise TypeError(
            f"{type(instance).__name__}: {attribute.name} must be callable or a 'module:attr' "
            f"string, got {value!r}"
        )


def _class(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, str):
        _reference(instance, attribute, value)
    elif not isinstance(value, type):
        raise TypeError(
            f"{type(instance).__name__}: {attribute.name} must be a class or a 'module:attr' "
            f"string, got {value!r}"
        )


class Registration(EqualByFields):
    """Base of all registrations: what one fills, and with what.

    Two registrations of one class with equal ``slot`` exclude each other; where the class is
    ``per_backend``, two of one backend do.
    """

    __slots__ = ()
    per_backend: ClassVar[bool] = False

    @property
    def slot(self) -> Hashable:
        """What this registration fills, within its class."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The slot in words, for messages."""
        raise NotImplementedError

    @property
    def referent(self) -> Any:
        """The callable, class or ``"module:attr"`` string."""
        raise NotImplementedError

    def problem(self, value: object) -> str | None:
        """Why ``value``, which the referent's string led to, cannot stand here, or None."""
        return None if callable(value) else "is not callable"


@attrs.frozen(eq=False, repr=False)
class TargetRegistration(Registration):
    """A target: the name that ``target=`` takes, and the devices that its kernels are for.

    Args:
        name: an identifier.
        detect: ``detect(device: torch.device) -> bool``, whether the device is what the kernels
            are for. It looks at nothing but the device, and answers False for foreign ones.
    """

    name: str = attrs.field(validator=[_name, _no_builtin])
    detect: Callable[[torch.device], bool] | str = attrs.field(validator=_callable)

    @property
    def slot(self) -> Hashable:
        """The target's name."""
        return self.name

    @property
    def title(self) -> str:
        """``target 'acme'``."""
        return f"target {self.name!r}"

    @property
    def referent(self) -> Any:
        """The detector."""
        return self.detect


@attrs.frozen(eq=False, repr=False)
class BuilderRegistration(Registration):
    """How a target serves one whole op.

    Args:
        op: the op's class name.
        target: the target's name.
        build_kernel: takes one ``TensorSpec`` (``None`` for an optional input not passed) per
            input of the op and the op's parameters by name; returns the kernel, a callable.
    """

    op: str = attrs.field(validator=_name)
    target: str = attrs.field(validator=_name)
    build_kernel: Callable[..., Any] | str = attrs.field(validator=_callable)

    @property
    def slot(self) -> Hashable:
        """The op and the target."""
        return (self.op, self.target)

    @property
    def title(self) -> str:
        """``the builder of RMSNormFwdOp for target 'acme'``."""
        return f"the builder of {self.op} for target {self.target!r}"

    @property
    def referent(self) -> Any:
        """The builder."""
        return self.build_kernel


@attrs.frozen(eq=False, repr=False)
class InterfaceRegistration(Registration):
    """A kernel interface of an op that this distribution defines.

    Args:
        op: the op's class name.
        name: the interface's name, unique within the op.
        interface: the ``KernelInterface`` class.
    """

    op: str = attrs.field(validator=_name)
    name: str = attrs.field(validator=_name)
    interface: type | str = attrs.field(validator=_class)

    @property
    def slot(self) -> Hashable:
        """The op and the interface's name."""
        return (self.op, self.name)

    @property
    def title(self) -> str:
        """``interface 'rms_norm' of RMSNormFwdOp``."""
        return f"interface {self.name!r} of {self.op}"

    @property
    def referent(self) -> Any:
        """The interface class."""
        return self.interface

    def problem(self, value: object) -> str | None:
        """An interface is a class."""
        return None if isinstance(value, type) else "is not a class"


@attrs.frozen(eq=False, repr=False)
class KernelTypeRegistration(Registration):
    """An implementation that a backend adds to an op's kernel interface.

    Args:
        op: the op's class name.
        key: the implementation's name, unique within the op.
        kernel_type: the class; it inherits ``Kernel`` and the interface it implements.
    """

    op: str = attrs.field(validator=_name)
    key: str = attrs.field(validator=_name)
    kernel_type: type | str = attrs.field(validator=_class)

    @property
    def slot(self) -> Hashable:
        """The op and the key."""
        return (self.op, self.key)

    @property
    def title(self) -> str:
        """``kernel type 'reference' of RMSNormFwdOp``."""
        return f"kernel type {self.key!r} of {self.op}"

    @property
    def referent(self) -> Any:
        """The kernel class."""
        return self.kernel_type

    def problem(self, value: object) -> str | None:
        """A kernel type is a class."""
        return None if isinstance(value, type) else "is not a class"


def _foreign(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if value == "cuda":
        raise ValueError(
            f"{type(instance).__name__}: the core reads the facts of 'cuda' devices itself"
        )


@attrs.frozen(eq=False, repr=False)
class DeviceFactsRegistration(Registration):
    """How to read the facts of a device type that the core does not know.

    Args:
        device_type: ``torch.device.type``, for example ``"acme"``.
        read: takes a ``torch.device``, returns its facts.
    """

    device_type: str = attrs.field(validator=[_name, _foreign])
    read: Callable[..., Any] | str = attrs.field(validator=_callable)

    @property
    def slot(self) -> Hashable:
        """The device type."""
        return self.device_type

    @property
    def title(self) -> str:
        """``the device facts of 'acme'``."""
        return f"the device facts of {self.device_type!r}"

    @property
    def referent(self) -> Any:
        """The reader."""
        return self.read


@attrs.frozen(eq=False, repr=False)
class OracleRegistration(Registration):
    """A function that computes an op as its entry says, for the conformance suite to compare with.

    Args:
        op: the op's class name.
        function: takes the op's inputs in order and its parameters by name, any float dtype.
    """

    op: str = attrs.field(validator=_name)
    function: Callable[..., Any] | str = attrs.field(validator=_callable)

    @property
    def slot(self) -> Hashable:
        """The op."""
        return self.op

    @property
    def title(self) -> str:
        """``the oracle of RMSNormFwdOp``."""
        return f"the oracle of {self.op}"

    @property
    def referent(self) -> Any:
        """The function."""
        return self.function


@attrs.frozen(eq=False, repr=False)
class DiagnosticRegistration(Registration):
    """A look at the machine for what this backend needs, on behalf of ``tileops doctor``.

    Args:
        name: what is looked at, in a few words, for example ``"C compiler"``; unique within the
            backend.
        find: ``find() -> str | None``, what on this machine keeps the backend, or a part of it,
            from working, and what to do about it, in one or two sentences; None if nothing does.
            Called, and imported, by that command only.
    """

    per_backend: ClassVar[bool] = True

    name: str = attrs.field(validator=_words)
    find: Callable[[], str | None] | str = attrs.field(validator=_callable)

    @property
    def slot(self) -> Hashable:
        """The name."""
        return self.name

    @property
    def title(self) -> str:
        """``diagnostic 'C compiler'``."""
        return f"diagnostic {self.name!r}"

    @property
    def referent(self) -> Any:
        """The function."""
        return self.find


@attrs.frozen(eq=False, repr=False)
class ManifestPath(Registration):
    """A spec file of ops that a distribution defines; made from what the hook returns.

    Args:
        path: a ``str`` or ``os.PathLike``.
    """

    path: str = attrs.field(converter=os.fspath, validator=attrs.validators.instance_of(str))

    @property
    def slot(self) -> Hashable:
        """The path."""
        return self.path

    @property
    def title(self) -> str:
        """``spec file 'x.yaml'``."""
        return f"spec file {self.path!r}"

    @property
    def referent(self) -> Any:
        """The path."""
        return self.path


@attrs.frozen(eq=False, repr=False)
class LoadFailure(ShownByFields):
    """A backend, or one kernel type of it, that could not be used.

    Args:
        backend: the backend's name.
        distribution: who brought it; None for one made at run time.
        version: that distribution's version, None if unknown.
        error: what was raised.
        traceback: its traceback as text.
        entry_point: what the distribution's entry point says, or "".
        skip: what ``TILEOPS_DISABLE_BACKENDS`` has to be to leave out this backend and none of
            another distribution; None if nothing does.
    """

    backend: str
    distribution: str | None
    version: str | None
    error: BaseException
    traceback: str
    entry_point: str = ""
    skip: str | None = None

    def __str__(self) -> str:
        point = f", entry point {self.entry_point!r}" if self.entry_point else ""
        owner = f" ({self.distribution} {self.version or '?'}{point})" if self.distribution else ""
        return f"backend {self.backend!r}{owner} failed: {in_a_line(self.error)}"


_LONGEST = 1_000
"""Characters of a message in one line: room for our own messages, none for a compiler's log."""


def in_a_line(error: BaseException) -> str:
    """An exception's type and message in one line, whatever its ``__str__`` does.

    Of a message that is too long the middle is left out: what was asked stands at the beginning,
    what to do, or why a compiler gave up, at the end.
    """
    try:
        text = one_line(str(error))
    except Exception:  # a stranger's exception may fail even at being printed
        text = "<no message>"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def one_line(text: str) -> str:
    """A text in one line, without its middle if it is too long."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
