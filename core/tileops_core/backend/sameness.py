"""Tell a reload from a conflict: is this the same function again, or another one?"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def same_thing(old: Any, new: Any) -> bool:
    """Whether ``new`` is ``old``, or what ``old`` became when its module or cell ran again.

    A function or class at the top of a module is known by module and name, as is a
    ``"module:attr"`` string. One made inside a function, or a lambda, is known by its code and by
    what it closes over, since many of them can share a name.
    """
    if old is new:
        return True
    named = qualified_name(old)
    if named is not None:
        return named == qualified_name(new)
    code = getattr(old, "__code__", None)
    if code is not None and not _is_bound(old):
        return (
            code == getattr(new, "__code__", None)
            and getattr(old, "__module__", None) == getattr(new, "__module__", None)
            and _state(old) == _state(new)
        )
    if isinstance(old, type) or type(old) is not type(new):
        return False
    try:
        return bool(old == new)
    except Exception:  # a stranger's ``==``; what cannot be compared is not the same
        return False


def qualified_name(value: Any) -> str | None:
    """``"module:attr"`` for a string of that form or for what stands at a module's top level."""
    if isinstance(value, str):
        return value
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        return None
    if _is_bound(value):
        return None
    return f"{module}:{name}"


def module_of(value: Any) -> str:
    """The module that a referent comes from, for messages."""
    if isinstance(value, str):
        return value.partition(":")[0]
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _is_bound(value: Any) -> bool:
    """Whether this is a method of an object, which is another thing for every object."""
    owner = getattr(value, "__self__", None)
    return owner is not None and not isinstance(owner, (type, ModuleType))


def _state(function: Any) -> tuple[object, ...]:
    cells = tuple(_content(cell) for cell in getattr(function, "__closure__", None) or ())
    return cells, function.__defaults__, function.__kwdefaults__


def _content(cell: Any) -> int | None:
    try:
        # Identity: what was closed over may compare in any way it likes.
        return id(cell.cell_contents)
    except ValueError:  # not filled yet
        return None
