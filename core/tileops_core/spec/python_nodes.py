"""An entry given in Python, as the nodes that a file's text would be.

What has no lines is shown by the path of keys that leads to it.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Iterable
from collections.abc import Mapping as AnyMapping
from typing import Any

from tileops_core.spans import Span
from tileops_core.spec.problems import Problems
from tileops_core.spec.yaml_nodes import MAX_DEPTH, AnyNode, Mapping, Scalar, Sequence

_MAX_VALUES = 1 << 15
_MAX_SHOWN = 6
_MAX_INT = 2**63
_PLAIN = "an entry has text, numbers, true and false, null, lists, and mappings with text as keys"
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class _GivenScalar(Scalar):
    """A value without parts."""

    __slots__ = ("_name", "_span")

    def __init__(self, text: str, plain: bool, name: str, span: Span) -> None:
        self.text = text
        self.plain = plain
        self._name = name
        self._span = span

    @property
    def span(self) -> Span:
        """The value's place."""
        return self._span

    def place(self, offset: int, length: int) -> Span:
        """The place of characters of the text, shown with the line of it that they stand in."""
        begin = self.text.rfind("\n", 0, offset) + 1
        line = self.text[begin:].partition("\n")[0]
        column = len(self._name) + 2 + offset - begin + 1
        keys, path = self._span.keys, self._span.path
        text = f"{self._name}: {line}"
        return Span(path, self._span.line, column, max(1, length), text, keys)


class _GivenSequence(Sequence):
    """A list or tuple."""

    __slots__ = ("_span",)

    def __init__(self, items: list[AnyNode], span: Span) -> None:
        self.items = items
        self._span = span

    @property
    def span(self) -> Span:
        """The list's place."""
        return self._span


class _GivenMapping(Mapping):
    """A mapping."""

    __slots__ = ("_span",)

    def __init__(self, entries: dict[str, tuple[Scalar, AnyNode]], span: Span, whole: bool) -> None:
        self.entries = entries
        self.whole = whole
        self._span = span

    @property
    def span(self) -> Span:
        """The mapping's place."""
        return self._span


def given_entry(
    op: str, entry: AnyMapping[Any, Any], problems: Problems
) -> tuple[AnyNode | None, Span]:
    """The node of an entry that is a mapping, and the place of the entry itself.

    Args:
        op: The op's name.
        entry: The entry.
        problems: Receives what is no value of an entry, which is left out.
    """
    reader = _Reader(f"<spec of {op}>", problems)
    span = reader.span("spec", op, entry, of_key=True)
    try:
        return reader.node(entry, "", op, ()), span
    except _TooManyError:
        problems.add("wrong-value", f"an entry has no more than {_MAX_VALUES} values", span)
        return None, span


class _TooManyError(Exception):
    pass


class _Reader:
    """One entry's values as nodes, numbered in the order of the entry."""

    def __init__(self, path: str, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._count = 0

    def span(self, keys: str, name: str, value: Any, *, of_key: bool = False) -> Span:
        """The place of a value, or of its key."""
        self._count += 1
        if self._count > 2 * _MAX_VALUES:
            raise _TooManyError
        shown = " ".join(_shown(value).split())
        text = f"{name}: {shown}" if name else shown
        if of_key:
            return Span(self._path, self._count, 1, max(1, len(name)), text, keys)
        before = len(name) + 2 if name else 0
        return Span(self._path, self._count, before + 1, max(1, len(shown)), text, keys)

    def node(self, value: Any, keys: str, name: str, inside: tuple[int, ...]) -> AnyNode | None:
        """A value's node; None for what is no value of an entry, or is in itself.

        Args:
            value: The value.
            keys: The path of keys to it.
            name: What its line begins with.
            inside: The ids of the values that hold it.
        """
        span = self.span(keys or "spec", name, value)
        if id(value) in inside:
            self._problems.add("wrong-value", f"{_called(keys)} contains itself", span, _PLAIN)
        elif len(inside) > MAX_DEPTH:
            self._problems.add("yaml-depth", f"{_called(keys)} is nested too deeply", span)
        elif isinstance(value, AnyMapping):
            return self._mapping(value, keys, span, (*inside, id(value)))
        elif type(value) in (list, tuple):
            items = [
                self.node(item, f"{keys}[{i}]", f"{name}[{i}]", (*inside, id(value)))
                for i, item in enumerate(value)
            ]
            return _GivenSequence([item for item in items if item is not None], span)
        else:
            return self._scalar(value, keys, name, span)
        return None

    def _mapping(
        self, value: AnyMapping[Any, Any], keys: str, span: Span, inside: tuple[int, ...]
    ) -> AnyNode:
        entries: dict[str, tuple[Scalar, AnyNode]] = {}
        for key, item in value.items():
            if type(key) is not str:
                message = f"{_called(keys)} has the key {_written(key)}, text is due"
                self._problems.add("wrong-value", message, span, _PLAIN)
                continue
            below = f"{keys}.{key}" if keys else key
            name = " ".join(key.split())
            place = self.span(below, name, item, of_key=True)
            node = self.node(item, below, name, inside)
            if node is not None:
                entries[key] = (_GivenScalar(key, False, "", place), node)
        return _GivenMapping(entries, span, len(entries) == len(value))

    def _scalar(self, value: Any, keys: str, name: str, span: Span) -> AnyNode | None:
        if type(value) is str:
            return _GivenScalar(value, False, name, span)
        text = _plain_text(value)
        if text is not None:
            return _GivenScalar(text, True, name, span)
        sort = type(value)
        code = "too-large" if sort is int else "wrong-value"
        if sort is int:
            message = f"{_called(keys)} is an int of more than 63 bits, which no entry has"
        elif sort is float:
            message = f"{_called(keys)} is not a number"
        else:
            of = sort.__qualname__ if sort.__module__ == "builtins" else _dotted(sort)
            message = f"{_called(keys)} is {_written(value)}, of type {of}"
        self._problems.add(code, message, span, _PLAIN)
        return None


def _plain_text(value: Any) -> str | None:
    """A number, a truth value or None as a file would have it; None for anything else."""
    if value is None:
        return "null"
    if type(value) is bool:
        return str(value).lower()
    if type(value) is int and abs(value) < _MAX_INT:
        return str(value)
    if type(value) is float and not math.isnan(value):
        text = repr(value)
        # A file's floats have a dot, and a sign before their exponent.
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return None


def _called(keys: str) -> str:
    return keys or "the entry"


def _dotted(sort: type) -> str:
    return f"{sort.__module__}.{sort.__qualname__}"


def _shown(value: Any) -> str:
    """A value in a few words; of one that holds others, the outermost of them."""
    if isinstance(value, AnyMapping):
        return f"{{{_listed(f'{_alone(key)}: {_alone(item)}' for key, item in value.items())}}}"
    if type(value) in (list, tuple):
        return f"[{_listed(map(_alone, value))}]"
    return _alone(value)


def _listed(items: Iterable[str]) -> str:
    first = list(itertools.islice(items, _MAX_SHOWN + 1))
    return ", ".join([*first[:_MAX_SHOWN], *["..."] * (len(first) > _MAX_SHOWN)])


def _alone(value: Any) -> str:
    if isinstance(value, AnyMapping) or type(value) in (list, tuple):
        return "..."
    if type(value) is str:
        return value
    return _plain_text(value) or _written(value)


def _written(value: Any) -> str:
    """How Python writes a value that is none of an entry."""
    huge = type(value) is int and abs(value) >= _MAX_INT  # Python refuses to write the longest
    return "a number" if huge else _SHORT.repr(value)
