"""The frozen facts of a call that choose and build a kernel."""

from __future__ import annotations

import inspect
import itertools
import keyword
import linecache
import re
import weakref
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs
import torch
from typing_extensions import Self, dataclass_transform

from tileops_core.by_fields import EqualByFields
from tileops_core.kernels.device_facts import DeviceFacts, facts_of
from tileops_core.kernels.typed_keys import marked, needs_mark, unhashable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileops_core.kernels.kernel import KernelInterface

    # To type checkers a call spec is an object with fields; that it is a tuple is our affair.
    _Storage = object
else:
    _Storage = tuple

_FACTS = tuple(field.name for field in attrs.fields(DeviceFacts))

_known_devices: set[torch.device] = set()
"""Devices in normal form, so that making a call spec asks one set and no property of the device."""

_serial = itertools.count()

_Spec = TypeVar("_Spec", bound="CallSpec")


@dataclass_transform(frozen_default=True)
class _Fields:
    """What makes type checkers read a subclass's annotations as constructor arguments."""

    __slots__ = ()


@attrs.frozen(slots=True, eq=False, repr=False)
class _Stated(EqualByFields):
    """Stands at a call spec's end when facts were stated: over what it hides, and the facts."""

    mark: Any
    facts: Mapping[str, int | None] = attrs.field(hash=False)


class _FieldProperty(property):
    """A field as an attribute: a C function reads it, and ``help`` and Sphinx see its type."""

    def __init__(self, spec: type[CallSpec], name: str, index: int) -> None:
        default = ""
        if name in spec._defaults:
            default = f"; ``{spec._defaults[name]!r}`` where the call spec is made without it"
        what = "where the call runs" if name == "device" else f"a field of {spec.__name__}"
        super().__init__(itemgetter(index))
        self.__doc__ = f"{what[0].upper()}{what[1:]}{default}."
        self._told = name, spec._annotations[name]

    @property
    def fget(self) -> Callable[[Any], Any]:  # type: ignore[override]
        """A function that says what the C function cannot: the field's name and type."""
        name, annotation = self._told

        def field(call: Any) -> Any:
            return getattr(call, name)

        field.__name__ = field.__qualname__ = name
        field.__annotations__ = {"return": annotation}
        return field


class CallSpec(_Fields, _Storage):
    """Base of call specs: what chooses and builds a kernel for a call, and nothing else.

    A subclass lists its fields as annotations, with defaults if it likes, and gets a constructor
    that takes them by position or by name::

        class RMSNormCall(CallSpec):
            dtype: torch.dtype
            rows: int
            eps: float | None = None

        RMSNormCall(x.device, x.dtype, rows=4096)

    ``device`` is every call spec's first field. It is kept in one form: ``"cuda"`` becomes the
    current CUDA device with its index, and None (a call without tensors) the current CUDA device
    if there is one, else the CPU.

    Instances are frozen and cheap. They are equal when their classes and fields are, and values
    that Python takes for equal but that mean different programs (``1``, ``True``, ``1.0``;
    ``0.0``, ``-0.0``) keep them apart. ``arch``, ``sm_count`` and ``smem_budget`` are asked of
    the device when read and take no part in equality.
    """

    _fields: ClassVar[tuple[str, ...]] = ("device",)
    _annotations: ClassVar[Mapping[str, object]] = {"device": "torch.device"}
    _defaults: ClassVar[Mapping[str, object]] = {}

    device: torch.device

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        annotations: dict[str, object] = {}
        defaults: dict[str, object] = {}
        for base in reversed(cls.__mro__[1:]):
            annotations.update(base.__dict__.get("_annotations", {}))
            defaults.update(base.__dict__.get("_defaults", {}))
        for name, annotation in inspect.get_annotations(cls).items():
            if not _is_class_variable(annotation):
                _check_field_name(cls, name)
                annotations[name] = annotation
                defaults.pop(name, None)
                if name in cls.__dict__:
                    defaults[name] = cls.__dict__[name]
        if "__new__" in cls.__dict__ or "__init__" in cls.__dict__:
            raise TypeError(f"{cls.__name__}: a call spec's constructor is generated; remove yours")
        cls._annotations = annotations
        cls._defaults = defaults
        cls._fields = tuple(annotations)
        type.__setattr__(cls, "__match_args__", cls._fields)
        for index, name in enumerate(annotations):
            setattr(cls, name, _FieldProperty(cls, name, index))
        cls.__new__ = _constructor(cls, annotations, defaults)  # type: ignore[method-assign]

    @property
    def arch(self) -> int | None:
        """The device's architecture number, or the stated one."""
        return self._fact("arch")

    @property
    def sm_count(self) -> int | None:
        """The device's number of multiprocessors, or the stated one."""
        return self._fact("sm_count")

    @property
    def smem_budget(self) -> int | None:
        """The bytes of on-chip memory one block may use on the device, or the stated ones."""
        return self._fact("smem_budget")

    @property
    def states_facts(self) -> bool:
        """Whether facts of the device were stated, so that this call spec builds nothing."""
        return type(_mark(self)) is _Stated

    def stating(self, **facts: int | None) -> Self:
        """A copy for which device facts are as stated, to ask what another device would choose.

        Args:
            **facts: Any of ``arch``, ``sm_count``, ``smem_budget``.

        Returns:
            The copy; only ``key_for`` takes it.

        Raises:
            TypeError: A fact of another name.
        """
        for name in facts:
            if name not in _FACTS:
                raise TypeError(
                    f"{type(self).__name__}: {name!r} is not a device fact; "
                    f"there are {', '.join(_FACTS)}"
                )
        mark = _mark(self)
        if type(mark) is _Stated:
            facts = {**mark.facts, **facts}
            mark = mark.mark
        return _remade(type(self), _values(self), _Stated(mark, facts))

    def _fact(self, name: str) -> int | None:
        mark = _mark(self)
        if type(mark) is _Stated and name in mark.facts:
            return mark.facts[name]
        fact: int | None = getattr(facts_of(self.device), name)
        return fact

    def __repr__(self) -> str:
        pairs = zip(self._fields, _values(self), strict=True)
        fields = [f"{name}={_shown(value)}" for name, value in pairs]
        mark = _mark(self)
        if type(mark) is _Stated:
            fields += [f"stated {name}={value}" for name, value in mark.facts.items()]
        return f"{type(self).__name__}({', '.join(fields)})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        mark = _mark(self)
        facts = dict(mark.facts) if type(mark) is _Stated else None
        return _from_parts, (type(self), _values(self), facts)


def check_type(interface: type[KernelInterface], call: object, *, op: str = "") -> CallSpec:
    """Check that a call spec is of the type that an interface is asked with.

    Args:
        interface: The kernel interface that is about to be called.
        call: What stands as its call spec.
        op: The op's name, for the message.

    Returns:
        The call spec.

    Raises:
        TypeError: It is not of the interface's ``request`` type.
    """
    if isinstance(call, interface.request):
        return call
    who = f"{op}: " if op else ""
    raise TypeError(
        f"{who}{interface.__name__} is asked for with a {interface.request.__name__}, "
        f"got {call!r} of type {type(call).__name__}"
    )


def check_request(interface: type[KernelInterface], call: object, *, op: str = "") -> None:
    """Check that a call spec is one for which a kernel of an interface can be got.

    Args:
        interface: The kernel interface that is about to be called.
        call: What stands as its call spec.
        op: The op's name, for the message.

    Raises:
        TypeError: It is not of the interface's ``request`` type, holds something unhashable (the
            field is named), or states facts of the device.
    """
    spec = check_type(interface, call, op=op)
    who = f"{op}: " if op else ""
    for name, value in zip(spec._fields, _values(spec), strict=True):
        if fault := unhashable(value):
            raise TypeError(
                f"{who}{type(spec).__name__}.{name} is {value!r}, which cannot be part of a key: "
                f"{fault}"
            )
    if spec.states_facts:
        raise TypeError(
            f"{who}{spec!r} states facts of the device, so no kernel can be built from it; "
            "ask key_for, or leave the facts to the device"
        )


def normal_device(device: object) -> torch.device:
    """A device in the one form that call specs keep.

    Args:
        device: What ``torch.device`` takes, or None for "no device of its own".

    Returns:
        The device with its index where its type has several: the current one where none was
        given. For None the current CUDA device if there is one, else the CPU.

    Raises:
        TypeError: Something that names no device.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if not isinstance(device, (str, int, torch.device)):
        raise TypeError(f"device is {device!r}; it must be a torch.device, its name, or None")
    found = torch.device(device)
    if found.type in ("cpu", "meta"):
        found = torch.device(found.type)
    elif str(found) == found.type:  # no index given
        found = torch.device(found.type, _current_index(found.type))
    _known_devices.add(found)
    return found


def _current_index(device_type: str) -> int:
    # Index 0 where the machine has none: a test may ask what a CUDA device would choose.
    try:
        current = torch.accelerator.current_accelerator()
    except RuntimeError:  # torch 2.6 raises where there is none
        current = None
    if current is None or current.type != device_type:
        return 0
    return torch.accelerator.current_device_index()


def _constructor(
    cls: type, annotations: Mapping[str, object], defaults: Mapping[str, object]
) -> Callable[..., Any]:
    """Generate ``__new__`` for these fields: one check of the device, one tuple."""
    namespace: dict[str, Any] = {
        "_new": tuple.__new__,
        "_known": _known_devices,
        "_device": normal_device,
        "_marked": marked,
    }
    parameters: list[str] = []
    first_default = None
    for name in annotations:
        if name in defaults:
            first_default = first_default or name
            namespace[f"_default_{name}"] = defaults[name]
            parameters.append(f"{name}=_default_{name}")
        elif first_default is not None:
            raise TypeError(
                f"{cls.__name__}: the field {name!r} has no default but follows "
                f"{first_default!r}, which has one"
            )
        else:
            parameters.append(name)
    lines = [
        f"def __new__(_cls, {', '.join(parameters)}):",
        "    if device not in _known:",
        "        device = _device(device)",
    ]
    marks = []
    for name, annotation in annotations.items():
        if needs_mark(annotation):
            marks.append(f"_mark_{name}")
            lines += [
                f"    if {name}.__class__ is float and ({name} > 0 or {name} < 0):",
                f"        _mark_{name} = float",
                "    else:",
                f"        {name}, _mark_{name} = _marked({name})",
            ]
    mark = f"(_cls, {', '.join(marks)})" if marks else "_cls"
    lines.append(f"    return _new(_cls, ({', '.join(annotations)}, {mark}))\n")
    source = "\n".join(lines)
    filename = f"<tileops call spec {cls.__module__}.{cls.__qualname__} {next(_serial)}>"
    exec(compile(source, filename, "exec"), namespace)
    # Registered, so that tracebacks and debuggers show the generated lines.
    entry = linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    weakref.finalize(cls, _forget_lines, filename, entry).atexit = False
    made: Callable[..., Any] = namespace["__new__"]
    made.__qualname__ = f"{cls.__qualname__}.__new__"
    made.__module__ = cls.__module__
    made.__annotations__ = dict(annotations)
    return made


def _forget_lines(filename: str, entry: object) -> None:
    """The lines of a class that is gone, unless somebody has cleared or filled the cache since."""
    if linecache.cache.get(filename) is entry:
        linecache.cache.pop(filename, None)


def _is_class_variable(annotation: object) -> bool:
    return re.match(r"(typing\.|t\.)?ClassVar\b", str(annotation)) is not None


def _check_field_name(cls: type, name: str) -> None:
    if name.startswith("_") or keyword.iskeyword(name):
        raise TypeError(f"{cls.__name__}: {name!r} cannot be a field: fields are public names")
    if name != "device" and name in CallSpec.__dict__:
        raise TypeError(f"{cls.__name__}: {name!r} cannot be a field: every call spec has it")


def _mark(call: Any) -> Any:
    """What stands after the fields: the class, the class with marks, or stated facts."""
    return call[-1]


def _values(call: Any) -> tuple[Any, ...]:
    return tuple.__getitem__(call, slice(0, -1))


def _shown(value: object) -> str:
    # A device's repr names its parts; its text is what people write.
    return str(value) if isinstance(value, torch.device) else repr(value)


def _remade(cls: type[_Spec], values: tuple[Any, ...], mark: object) -> _Spec:
    made: Any = tuple.__new__
    remade: _Spec = made(cls, (*values, mark))
    return remade


def _from_parts(
    cls: type[CallSpec], values: tuple[Any, ...], facts: Mapping[str, int | None] | None
) -> CallSpec:
    made = cls(*values)
    return made if facts is None else made.stating(**facts)
