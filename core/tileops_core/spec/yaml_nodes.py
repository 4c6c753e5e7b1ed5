"""YAML text as nodes that know where they stand, with YAML 1.1's traps refused.

Scalars are read by our own rules and not by YAML's implicit typing: what is a number, a boolean
or null must look like one to every reader of the file, and everything else is text.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeAlias

import yaml

from tileops_core.spans import Span
from tileops_core.spec.problems import Problem, Problems

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH = 24
_MAX_INT = 2**63


class Source:
    """A text and what to call it.

    Args:
        path: What messages call it.
        text: The text. A byte order mark before it is left out, as YAML has it.
        first: The 0-based number that the first line has in the whole file.
    """

    __slots__ = ("first", "lines", "path", "text")

    def __init__(self, path: str, text: str, first: int = 0) -> None:
        self.path = path
        self.text = text.removeprefix("\ufeff")
        self.lines = self.text.splitlines() or [""]
        self.first = first

    def line(self, number: int) -> str:
        """The line with this 0-based number in the text, or ``""`` past the end."""
        return self.lines[number] if number < len(self.lines) else ""

    def span(self, line: int, column: int, length: int) -> Span:
        """A place by its 0-based line and column in the text."""
        text = self.line(line)
        return Span(self.path, self.first + line + 1, column + 1, max(1, length), text)


class Node:
    """A value in a file. Positions are 0-based; :attr:`span` is what messages show."""

    __slots__ = ("_raw", "source")

    def __init__(self, source: Source, raw: Any) -> None:
        self.source = source
        self._raw = raw

    @property
    def span(self) -> Span:
        """The node's place; of a node of many lines, the rest of its first line."""
        start, end = self._raw.start_mark, self._raw.end_mark
        text = self.source.line(start.line)
        stop = end.column if end.line == start.line else len(text.rstrip())
        return self.source.span(start.line, start.column, stop - start.column)

    @property
    def kind(self) -> str:
        """What to call this sort of value in a message."""
        return "a value"


class Scalar(Node):
    """A single value: ``text`` as YAML unfolds it, and whether it stands without quotes."""

    __slots__ = ("_places", "plain", "text")

    def __init__(self, source: Source, raw: yaml.ScalarNode) -> None:
        super().__init__(source, raw)
        self.text: str = raw.value
        self.plain = not raw.style
        self._places: list[tuple[int, int]] | tuple[int, int] | None = None

    @property
    def kind(self) -> str:
        """What to call it in a message."""
        return "text" if not self.plain else f"{self.text!r}"

    def place(self, offset: int, length: int) -> Span:
        """The place of ``length`` characters of :attr:`text`, beginning at ``offset``."""
        places = self._places
        if places is None:
            places = self._places = self._find_places()
        if isinstance(places, tuple):
            line, column = places[0], places[1] + offset
        elif places:
            line, column = places[min(offset, len(places) - 1)]
        else:
            return self.span
        return self.source.span(line, column, length)

    def _find_places(self) -> list[tuple[int, int]] | tuple[int, int]:
        """Where the characters of the text stand in the file.

        A (line, column) when all stand in one row as they are, else one pair for each character,
        else (when escapes make the two differ) an empty list.
        """
        start, end = self._raw.start_mark, self._raw.end_mark
        line, column = start.line, start.column + (0 if self.plain else 1)
        if self.source.line(line).startswith(self.text, column):
            return line, column
        written = [
            (char, (row, place))
            for row in range(line, min(end.line + 1, len(self.source.lines)))
            for place, char in enumerate(self.source.lines[row])
            if not char.isspace() and (row, place) >= (line, column)
        ]
        if self._raw.style in ("|", ">"):  # the indicators stand on the first line
            written = [item for item in written if item[1][0] > line]
        places: list[tuple[int, int]] = []
        following = iter(written)
        for char in self.text:
            if char.isspace():
                places.append(places[-1] if places else (line, column))
                continue
            found, where = next(following, ("", (0, 0)))
            if found != char:
                return []
            places.append(where)
        return places


class Sequence(Node):
    """A list of nodes."""

    __slots__ = ("items",)

    def __init__(self, source: Source, raw: Any, items: list[AnyNode]) -> None:
        super().__init__(source, raw)
        self.items = items

    @property
    def kind(self) -> str:
        """What to call it in a message."""
        return "a list"


class Mapping(Node):
    """Keys and values in the order of the text; keys are unique."""

    __slots__ = ("entries",)

    def __init__(self, source: Source, raw: Any, entries: dict[str, tuple[Scalar, AnyNode]]):
        super().__init__(source, raw)
        self.entries = entries

    @property
    def kind(self) -> str:
        """What to call it in a message."""
        return "a mapping"


AnyNode: TypeAlias = "Scalar | Sequence | Mapping"


class Trap(Exception):
    """A plain scalar that does not mean what it looks like; says what to write."""


_INT = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+([eE][-+][0-9]+)?", re.ASCII)
_NUMBER_LIKE = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+"
    r"|([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?)",
    re.ASCII,
)
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-9]+)+(\.[0-9_]*)?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?", re.ASCII)
_NOT_FINITE = re.compile(r"([-+]?\.inf|\.nan)", re.IGNORECASE)
_BOOLEANS = frozenset({"yes", "no", "on", "off", "true", "false"})
_NULLS = frozenset({"", "~", "None", "Null", "NULL"})
_VALUES: dict[str, Any] = {
    "true": True, "false": False, "null": None, "inf": math.inf, "-inf": -math.inf,
}  # fmt: skip


def value_of(scalar: Scalar) -> bool | int | float | str | None:
    """What a scalar says: text when quoted, else a boolean, null, a number or text.

    Raises:
        Trap: When YAML 1.1, YAML 1.2 and a human reader would not agree on it.
    """
    text = scalar.text
    if not scalar.plain:
        return text
    if text in _VALUES:
        return _VALUES[text]  # type: ignore[no-any-return]
    if text[:1].isalpha() and text not in _NULLS and text.lower() not in _BOOLEANS:
        return text
    if _INT.fullmatch(text):
        if len(text) > 20 or abs(int(text)) >= _MAX_INT:
            raise Trap("no number of an entry has more than 63 bits")
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text.lower() in _BOOLEANS:
        raise Trap(f"YAML 1.1 reads {text} as a boolean; write true or false, or quote the word")
    if text in _NULLS:
        raise Trap("write null for no value, or quote the word if it is text")
    if _NUMBER_LIKE.fullmatch(text):
        raise Trap(
            f"YAML 1.1 does not read {text} as the decimal number it looks like; write digits "
            "without leading zero or underscore, floats with a dot and a signed exponent (1.0e-6)"
        )
    if _SEXAGESIMAL.fullmatch(text):
        raise Trap(f"YAML 1.1 reads {text} as a number of base 60; quote it if it is text")
    if _DATE.fullmatch(text):
        raise Trap(f"YAML 1.1 reads {text} as a date; quote it if it is text")
    if _NOT_FINITE.fullmatch(text):
        raise Trap(f"YAML 1.1 reads {text} as a float that is not finite; write inf or -inf")
    if text in ("=", "<<"):
        raise Trap(f"{text} has a special meaning in YAML 1.1; quote it if it is text")
    return text


def compose(source: Source) -> Any:
    """The text's root in PyYAML's own nodes, or None for an empty text.

    Raises:
        yaml.YAMLError: When the text is not YAML. ValueError and RecursionError too, from
            characters or a nesting that PyYAML does not take.
    """
    return yaml.compose(source.text, Loader=_LOADER)


NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""What :func:`compose` raises."""


def syntax_problem(error: Exception, source: Source, line: int = 0) -> Problem:
    """Why a text is not YAML, where it stops being YAML.

    Args:
        error: What :func:`compose` raised.
        source: The text.
        line: The 0-based line to show when the error knows no place.
    """
    mark, character = getattr(error, "problem_mark", None), _refused_character(error)
    if mark is not None:
        message, hint = _at_mark(error, source.line(mark.line), mark.column)
        span = source.span(mark.line, mark.column, 1)
    elif character is not None and character in source.text:
        before = (source.text.partition(character)[0] + "|").splitlines()
        span = source.span(len(before) - 1, len(before[-1]) - 1, 1)
        message = f"the text has the character U+{ord(character):04X}, which YAML does not allow"
        hint = "leave it out"
    else:
        deep = isinstance(error, RecursionError)
        said = "values are nested too deeply" if deep else " ".join(str(error).split())
        message, hint = f"the text is not YAML: {said}", ""
        span = source.span(line, 0, len(source.line(line)))
    return Problem("yaml-syntax", message, span, hint)


def _at_mark(error: Any, line: str, column: int) -> tuple[str, str]:
    """What is wrong at a place that PyYAML knows, and what to do."""
    if error.problem == "but found another document" or "<document start>" in error.problem:
        message = "a second document begins here, and a manifest file is one document"
        return message, "leave out the mark before it, or make a second file"
    if line[column : column + 1] == "\t":
        return "a tab stands where YAML takes only spaces", "indent with spaces"
    if "\ufeff" in line:
        message = "the line has a byte order mark (U+FEFF), which nobody sees"
        return message, "leave it out; it may stand before the whole text only"
    return f"the text is not YAML: {error.problem}", ""


def _refused_character(error: Exception) -> str | None:
    """The character that made PyYAML refuse a text."""
    if isinstance(error, UnicodeEncodeError):
        return str(error.object[error.start])
    code = getattr(error, "character", None)
    return chr(code) if isinstance(code, int) else None


def convert(source: Source, raw: Any, problems: Problems, depth: int = 0) -> AnyNode | None:
    """A PyYAML node and all below it as ours; what cannot be kept is reported and left out."""
    if refuse_mark(source, raw, problems):
        return None
    if isinstance(raw, yaml.ScalarNode):
        return Scalar(source, raw)
    if depth >= MAX_DEPTH:
        problems.add(
            "yaml-depth", "values are nested too deeply to be an entry", Node(source, raw).span
        )
        return None
    if isinstance(raw, yaml.SequenceNode):
        items = [convert(source, item, problems, depth + 1) for item in raw.value]
        return Sequence(source, raw, [item for item in items if item is not None])
    entries: dict[str, tuple[Scalar, AnyNode]] = {}
    for raw_key, raw_value in raw.value:
        key = key_of(source, raw_key, problems)
        if key is None:
            continue
        value = convert(source, raw_value, problems, depth + 1)
        if key.text in entries:
            first = entries[key.text][0].span.line
            problems.add(
                "duplicate-key",
                f"{key.text!r} stands twice, first on line {first}",
                key.span,
                "YAML would silently keep the last one; remove one of them",
            )
        elif value is not None:
            entries[key.text] = (key, value)
    return Mapping(source, raw, entries)


def key_of(source: Source, raw: Any, problems: Problems) -> Scalar | None:
    """A mapping's key, which must be text in every YAML."""
    if refuse_mark(source, raw, problems):
        return None
    if not isinstance(raw, yaml.ScalarNode):
        problems.add("wrong-value", "a key must be a plain word", Node(source, raw).span)
        return None
    key = Scalar(source, raw)
    try:
        value = value_of(key)
    except Trap as trap:
        problems.add("yaml-trap", f"the key {key.text!r} is not plain text", key.span, str(trap))
        return None
    if not isinstance(value, str):
        problems.add(
            "wrong-value", f"the key {key.text!r} is not text", key.span, "quote it to make it text"
        )
        return None
    return key


def refuse_mark(source: Source, raw: Any, problems: Problems) -> bool:
    """Whether a tag, an anchor or an alias stands before the node's value, which is reported."""
    mark = raw.start_mark
    if source.line(mark.line)[mark.column : mark.column + 1] not in ("!", "&", "*"):
        return False
    problems.add(
        "yaml-tag",
        "tags, anchors and aliases are not part of the manifest's format",
        Node(source, raw).span,
        "write the value out",
    )
    return True
