"""Equality, hash and text of an attrs class by its fields, without code of its own.

attrs writes and compiles these methods for each class. Of more than a hundred classes, that is a
quarter of what the import of an op takes. A class that wants them from here says so in two places::

    @attrs.frozen(slots=True, eq=False, repr=False)
    class Point(EqualByFields):
        x: int
        y: int = attrs.field(eq=False)  # honored, as are ``hash=`` and ``repr=``
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, cast

import attrs

_Read = Callable[[Any], Any]


class ShownByFields:
    """``repr`` as attrs writes it: ``Point(x=1, y=2)``."""

    __slots__ = ()

    def __repr__(self) -> str:
        cls = type(self)
        shown = (f.name for f in _fields(cls) if f.repr)
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{cls.__qualname__.rpartition('>.')[2]}({parts})"


class EqualByFields(ShownByFields):
    """Equal to another of exactly its class whose fields are equal; hashed by the same fields.

    What reads the fields is kept by the class itself, so that it goes when the class goes.
    """

    __slots__ = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # Each class has its own, not its base's, which may have fewer fields. These are found at
        # the first use: attrs adds them after the class statement.
        cls._compared = _first_compared
        cls._hashed = _first_hashed

    def __eq__(self, other: object) -> bool:
        cls = self.__class__
        if other.__class__ is not cls:
            return NotImplemented
        read = cls._compared
        return cast("bool", read(self) == read(other))

    def __hash__(self) -> int:
        cls = self.__class__
        return hash((cls, cls._hashed(self)))

    _compared: ClassVar[_Read]
    _hashed: ClassVar[_Read]


def _first_compared(self: Any) -> Any:
    cls = self.__class__
    cls._compared = read = _reader([f.name for f in _fields(cls) if f.eq])
    return read(self)


def _first_hashed(self: Any) -> Any:
    cls = self.__class__
    hashed = [f.name for f in _fields(cls) if (f.eq if f.hash is None else f.hash)]
    cls._hashed = read = _reader(hashed)
    return read(self)


def _fields(cls: type) -> tuple[attrs.Attribute[Any], ...]:
    return cast("tuple[attrs.Attribute[Any], ...]", attrs.fields(cast("Any", cls)))


def _reader(names: list[str]) -> _Read:
    return attrgetter(*names) if names else _nothing


def _nothing(_: object) -> tuple[()]:
    return ()
