"""What a class statement sets off: find the entry, generate from it, install the results."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Collection, Mapping
from importlib import import_module
from inspect import getattr_static
from typing import Any

from tileops_core.backend.registry import REGISTRY
from tileops_core.call.torch_operators import LIBRARY
from tileops_core.errors import ManifestError, StaleGraphError
from tileops_core.kernels.contracts import Installed, install
from tileops_core.op import boundary, hosts
from tileops_core.op.composite import check_delegate_types
from tileops_core.op.keys import name_of_class
from tileops_core.op.parameters import ParameterAttribute, emit_init
from tileops_core.plan.build import build_plan
from tileops_core.plan.model import Plan
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import family_of, load_spec, load_spec_from, status_of
from tileops_core.spec.entries import Spec

_CLASSES: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()


def define(cls: Any, base: Any) -> None:
    """Give an op class what follows from its entry; a class without an entry gets nothing.

    An entry of the manifest that is wrong makes its own class one that cannot be constructed, and
    breaks the import of no other op of its family.

    Args:
        cls: the new class.
        base: ``Op`` itself.

    Raises:
        ManifestError: the class's own ``spec`` is wrong.
        TypeError: another living class of another module is this op already, or its sub-ops are
            not those of the entry.
    """
    name = cls.__name__
    spec = cls.__dict__.get("spec")
    if spec is not None:
        if not isinstance(spec, Mapping | str | os.PathLike):
            raise TypeError(
                f"{name}: spec must be a mapping (the entry) or the path of a YAML file, got "
                f"{type(spec).__name__}"
            )
        loaded = load_spec_from(spec, name)
        _check_name(cls)
        _install(cls, base, loaded)
    elif family_of(name) is not None:
        _check_name(cls)
        try:
            _install(cls, base, load_spec(name))
        except ManifestError as error:
            cls.__init__ = _refusal(error)
    else:  # no op, but maybe the base of some, or one that changes some
        cls._changes = _changes(cls)
        _keep_form(cls, base)
        return
    _keep_form(cls, base)
    # Last: threads that run graphs find it from here on, and need all of it.
    _publish(cls)


def _refusal(error: ManifestError) -> Any:
    """A constructor that tells what is wrong with the entry."""

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        # Each time anew: an error holds the frames that it has passed, and so the caller's tensors.
        raise ManifestError(str(error), problems=error.problems)

    return __init__


def _install(cls: Any, base: Any, loaded: Spec) -> None:
    """Everything that is made from an entry."""
    signature = build_signature(loaded)
    check_delegate_types(cls, signature)
    plan = build_plan(signature, (cls.__module__, cls.__qualname__))
    code = boundary.install(cls, plan, own=cls.__module__.startswith(f"{LIBRARY}.ops."))
    cls._plan, cls._changes = plan, None
    cls.__call__, cls._traced, cls._node = code.call, code.traced, boundary.Node(cls, code)
    cls._call_code = code
    for param in plan.signature.params:
        setattr(cls, param.name, ParameterAttribute(param.name))
    if not any("__init__" in c.__dict__ for c in _between(cls, base)):
        cls.__init__ = emit_init(plan.signature, base.__init__)


def _between(cls: type, base: type) -> list[type]:
    """The classes from ``cls`` up to, and without, the base."""
    mro = cls.__mro__
    return list(mro[: mro.index(base)])


def _changes(cls: Any) -> str | None:
    """A name for what a class changes of the op that it derives from; None where it is nothing.

    What it adds changes nothing, and neither does a constructor, which only sets parameters.
    """
    op = next((c for c in cls.__mro__ if "_plan" in c.__dict__), None)
    if op is None:
        return None
    parent: Any = next(c for c in cls.__mro__[1:] if issubclass(c, op))
    names = (n for n in dir(op) if not n.startswith("__") and n not in _OF_CLASSES)
    if any(getattr_static(cls, name) is not getattr_static(parent, name) for name in names):
        return name_of_class(cls)
    inherited: str | None = parent._changes
    return inherited


_OF_CLASSES = frozenset({"_changes", "_writes_call_spec", "_installed_at"})
"""What is noted of each class when it is defined or first used, and follows from the others."""


def _keep_form(cls: Any, base: type) -> None:
    """Note which body the class has: the nearest of ``forward`` and ``call_spec`` counts."""
    for c in _between(cls, base):
        if "forward" in c.__dict__:
            cls._writes_call_spec = False
            return
        if "call_spec" in c.__dict__:
            cls._writes_call_spec = True
            return


def _publish(cls: type) -> None:
    """Take the op's name. A module that runs again takes its own name over."""
    _CLASSES[cls.__name__] = cls
    # Whoever had the name before may be gone, and hosts of theirs be left.
    hosts.forget_op(cls.__name__)


def _check_name(cls: type) -> None:
    """Refuse a name that another class has.

    The library's own ops have theirs whether they are imported yet or not: else whoever came
    first would decide, and could break the import of a whole family.
    """
    name, holder = cls.__name__, None
    if _other_module(name, cls) and (other := held_classes([name]).get(name)) is not None:
        holder = f"{other.__module__}.{other.__qualname__}"
    elif status_of(name) == "implemented":
        home = f"tileops_core.ops.{family_of(name)}"
        holder = None if cls.__module__ == home else f"{home}.{name}"
    if holder is not None:
        raise TypeError(
            f"op {name} is defined twice: by {holder} and by {cls.__module__}.{cls.__qualname__}; "
            "an op's name means one thing in a process, so rename one, or add a backend for the "
            "op instead of a second class"
        )


def _other_module(name: str, cls: type) -> bool:
    """Whether the class that has the name is another module's. Keeps no hold of it."""
    other = _CLASSES.get(name)
    return other is not None and other.__module__ != cls.__module__


def installed_for(cls: Any, plan: Plan) -> Installed:
    """The kernel types that instances of a class made now dispatch over; checked once per state
    of the registry. Registered ones that break their contract are dropped and reported.
    """
    generation = REGISTRY.generation
    cached: tuple[int, Installed] | None = cls.__dict__.get("_installed_at")
    if cached is not None and cached[0] == generation:
        return cached[1]
    op = plan.op
    interfaces = {name: r.resolve() for name, r in REGISTRY.interfaces(op).items()}
    interfaces |= cls.interfaces
    installed = install(op, interfaces, cls.kernel_types, REGISTRY.kernel_types(op))
    if cls._writes_call_spec and len(interfaces) > 1:
        raise TypeError(
            f"{op}: call_spec stands for one kernel interface, the op has "
            f"{', '.join(sorted(interfaces))}; write forward instead"
        )
    for registered, error in installed.faults:
        REGISTRY.record_failure(registered.backend, error)
    cls._installed_at = (generation, installed)
    return installed


def living_classes() -> dict[str, type]:
    """The op classes of this process, by name; dropped ones too, until the collector finds them."""
    # Copied in one step: other threads may define classes meanwhile.
    found = ((ref.key, ref()) for ref in _CLASSES.valuerefs())
    return {name: cls for name, cls in found if cls is not None}


def held_classes(ops: Collection[str] | None = None) -> dict[str, type]:
    """Those classes of some ops that somebody holds, by name; of all ops where none are named.

    A class refers to itself, so one that was dropped stays until the collector finds it. Where
    there is one that its module does not show, the collector is run first, over everything.

    Args:
        ops: names alone. What refers to the classes too, as :func:`living_classes` does, would
            hold them meanwhile.
    """
    names = [ref.key for ref in _CLASSES.valuerefs()] if ops is None else ops
    if not all(map(_is_shown, names)):
        gc.collect()
    return {op: cls for op in names if (cls := _CLASSES.get(op)) is not None}


def _is_shown(op: str) -> bool:
    """Whether an op's class, if it has one, is held by its module under its own name."""
    cls = _CLASSES.get(op)
    if cls is None:
        return True
    module = sys.modules.get(cls.__module__)
    return module is not None and vars(module).get(op) is cls


def _class_of(op: str) -> Any:
    """The class of an op that a graph names; the library's own is imported, if it has to be.

    Raises:
        StaleGraphError: no such class is defined.
    """
    found: Any = _CLASSES.get(op)
    if found is None and status_of(op) == "implemented":
        found = getattr(import_module(f"tileops_core.ops.{family_of(op)}"), op)
    if found is None:
        raise StaleGraphError(
            f"{op}: this graph calls an op of which no class is defined; import the module that "
            "defines it first",
            op=op,
        )
    return found


hosts.find_classes_by(_class_of)
