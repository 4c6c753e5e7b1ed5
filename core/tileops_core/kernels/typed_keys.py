"""Keys that keep apart what Python's equality merges.

``1 == True == 1.0`` and ``0.0 == -0.0`` with equal hashes, and a NaN differs from itself: a
dictionary keyed by plain values would hand the kernel of one to another, or grow with every NaN.
A *mark* stands next to a value in a key and says what equality does not.
"""

from __future__ import annotations

import dataclasses
import numbers
import re
from typing import Any

import attrs
import torch

NAN = float("nan")
"""The NaN that every key holds: tuples compare items by identity first, so it equals itself."""

_odd_nans: dict[tuple[type, str], Any] = {}

# Not a set: old versions of dynamo, which reads this in composites, cannot look up classes in one.
_PLAIN = (int, str, type(None))

_PLAIN_WORDS = frozenset(
    {"int", "bool", "str", "bytes", "None", "NoneType", "tuple", "Tuple", "Size", "frozenset"}
    | {"Optional", "Union", "Literal", "dtype", "device", "layout", "memory_format"}
)


def marked(value: Any) -> tuple[Any, Any]:
    """The value as a key should hold it, and its mark.

    Args:
        value: Anything; need not be hashable.

    Returns:
        ``(held, mark)``: equal ``held`` with equal marks are interchangeable. ``held`` is
        ``value``, but for a NaN the one NaN that all keys share.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value, kind
    if kind is float:
        if value != value:
            return NAN, "nan"
        return value, kind if value else repr(value)
    if kind is bool:
        return value, kind
    if isinstance(value, tuple):
        return _marked_tuple(value)
    if isinstance(value, numbers.Number):
        text = repr(value)
        if value != value:
            return _odd_nans.setdefault((kind, text), value), (kind, text)
        return value, (kind, text)
    if kind is frozenset:
        return value, (kind, frozenset((item, marked(item)[1]) for item in value))
    names = field_names(kind)
    if names is not None:
        return value, (kind, *(_mark_of(value, name) for name in names))
    return value, kind


def field_names(kind: type) -> list[str] | None:
    """The names of the fields of a class that attrs or dataclasses made; None of another one."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    return None


def _mark_of(holder: object, name: str) -> Any:
    return marked(getattr(holder, name, None))[1]


def _marked_tuple(value: tuple[Any, ...]) -> tuple[Any, Any]:
    kind = type(value)
    # A size is the same fact as a tuple of ints; a call spec carries its own marks inside.
    if kind.__name__ == "Size" or hasattr(kind, "states_facts"):
        return value, tuple
    pairs = [marked(item) for item in value]
    marks: Any = tuple
    if kind is not tuple or not all(mark in _PLAIN for _, mark in pairs):
        marks = (kind, *(mark for _, mark in pairs))
    if any(held is not item for (held, _), item in zip(pairs, value, strict=True)):
        held_items = (held for held, _ in pairs)
        value = tuple(held_items) if kind is tuple else tuple.__new__(kind, held_items)
    return value, marks


def settled(value: Any) -> Any:
    """The value with plain numbers for sizes that a graph keeps open, which no key can hold."""
    if isinstance(value, torch.SymInt):
        return int(value)
    if type(value) in (tuple, torch.Size):
        return tuple(map(settled, value))
    return value


def unhashable(value: object) -> str | None:
    """Why a value cannot be part of a key, with a way out; None where it can."""
    try:
        hash(value)
    except TypeError as error:
        return f"{error}; pass a tuple" if isinstance(value, list) else str(error)
    return None


def needs_mark(annotation: object) -> bool:
    """Whether values of a field so annotated can merge in a key.

    Args:
        annotation: A class, a typing construct, or the text of one.

    Returns:
        False where only ints, or only bools, words, dtypes, devices and tuples of these are
        declared; True for floats, unions of number types and everything unknown.
    """
    if isinstance(annotation, str):
        text = annotation
    elif type(annotation) is type:
        text = annotation.__qualname__
    else:
        text = str(annotation)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    words = {word.rsplit(".", 1)[-1] for word in re.findall(r"[A-Za-z_][\w.]*", text)}
    return not words <= _PLAIN_WORDS or words >= {"int", "bool"}
