"""The text of a type as a kind: parameters' ``type``, ``forall`` kinds, family parameters."""

from __future__ import annotations

from typing import Any

from tileops_core.signature.dtypes import DTYPES
from tileops_core.signature.kinds import (
    ANY_DTYPE,
    BOOL,
    DIM,
    INT,
    SHAPE,
    AxesKind,
    BoolKind,
    DeviceKind,
    DimKind,
    DTypeKind,
    EnumKind,
    IntKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    ScalarKind,
    ShapeKind,
)

_NUMBER = ("int", "float", "bool")
_SCALARS = frozenset({"int", "float", "bool", "str", "complex"})
_FIXED = {f"tuple[{', '.join(['int'] * n)}]": n for n in range(1, 5)}


class TypeTextError(Exception):
    """A type's text that the manifest does not know; says what it knows."""


def param_kind(text: str) -> Kind:
    """The kind of a parameter by its ``type``.

    Raises:
        TypeTextError: When the text is no type of a parameter.
    """
    parts = _alternatives(text)
    if len(set(parts)) < len(parts) or not parts:
        raise TypeTextError("a type is a union of different alternatives")
    if set(parts) == {"torch.device", "str", "None"}:
        return DeviceKind()
    optional = "None" in parts
    kind = _without_none(tuple(part for part in parts if part != "None"), optional)
    if kind is None:
        raise TypeTextError(
            "known are bool, int, float, str, Number and unions of them, dtype names, quoted "
            "words, torch.dtype, list[int] | tuple[int, ...], int | tuple[int, int], "
            "int | list[int] | tuple[int, ...], each also with | None, and "
            "torch.device | str | None"
        )
    return MaybeKind(kind) if optional and not isinstance(kind, AxesKind) else kind


def _without_none(parts: tuple[str, ...], optional: bool) -> Kind | None:
    names = set(parts)
    if names == {"bool"}:
        return BOOL
    if names == {"int"}:
        return INT
    if names == {"torch.dtype"}:
        return ANY_DTYPE
    if names == {"list[int]", "tuple[int, ...]"}:
        return SHAPE
    if names == {"int", "list[int]", "tuple[int, ...]"}:
        return AxesKind(optional)
    if len(parts) == 2 and "int" in names and (fixed := names & set(_FIXED)):
        return IntTupleKind(_FIXED[fixed.pop()])
    if parts and all(part[0] in "'\"" for part in parts):
        return EnumKind(tuple(_word(part) for part in parts))
    if parts and names <= set(DTYPES) - {"bool"}:
        return DTypeKind(parts)
    if names == {"Number"}:
        return ScalarKind(_NUMBER)
    if parts and names <= _SCALARS:
        return ScalarKind(parts)
    return None


def index_kind(text: str) -> Kind:
    """The kind of a ``forall`` index: ``Dim``, ``Shape`` or ``DType[a | b]``.

    Raises:
        TypeTextError: When the text is none of them.
    """
    if text == "Dim":
        return DIM
    if text == "Shape":
        return SHAPE
    if text.startswith("DType[") and text.endswith("]"):
        members = tuple(part.strip() for part in text[6:-1].split("|"))
        unknown = [member for member in members if member not in DTYPES]
        if unknown:
            raise TypeTextError(f"{unknown[0]!r} is no dtype; known are {', '.join(DTYPES)}")
        if len(set(members)) < len(members):
            raise TypeTextError("a dtype stands twice in the union")
        return DTypeKind(members)
    raise TypeTextError("the kinds of an index are Dim, Shape and DType[a | b]")


def family_param_kind(text: str) -> Kind:
    """The kind of a type family's parameter.

    Raises:
        TypeTextError: When the text is no such kind.
    """
    plain: dict[str, Kind] = {"Bool": BOOL, "Dim": DIM, "Int": INT, "Shape": SHAPE}
    if text in plain:
        return plain[text]
    kind = _without_none(tuple(_alternatives(text)), optional=False)
    if isinstance(kind, EnumKind):
        return kind
    raise TypeTextError("the kinds here are Bool, Dim, Int, Shape, and a union of quoted words")


def _alternatives(text: str) -> list[str]:
    """The alternatives of a union; ``|`` and ``,`` inside quotes or brackets do not separate."""
    parts, depth, quote, current = [], 0, "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "[]":
            depth += 1 if char == "[" else -1
        elif char == "|" and not depth:
            parts.append(current.strip())
            current = ""
            continue
        current += char
    parts.append(current.strip())
    if quote or depth:
        raise TypeTextError("a quote or bracket is not closed")
    if not all(parts):
        raise TypeTextError("an alternative of the union is empty")
    return parts


def _word(part: str) -> str:
    word = part[1:-1]
    if len(part) < 3 or part[0] != part[-1] or part[0] in word:
        raise TypeTextError(f"{part} is no quoted word")
    return word


def describe(kind: Kind) -> str:
    """A kind in the words of a message."""
    if isinstance(kind, MaybeKind):
        return f"{describe(kind.of)} or None"
    if isinstance(kind, EnumKind):
        return "one of " + ", ".join(repr(word) for word in kind.words)
    if isinstance(kind, DTypeKind):
        return "a dtype" if kind.members is None else "a dtype of " + ", ".join(kind.members)
    if isinstance(kind, ScalarKind):
        return "a value of type " + " or ".join(kind.types)
    if isinstance(kind, AxesKind):
        return "axes (an int, ints" + (" or None)" if kind.optional else ")")
    if isinstance(kind, IntTupleKind):
        return f"an int or {kind.length} ints"
    for sort, noun in _NOUNS:
        if isinstance(kind, sort):
            return noun
    return "a tuple"


_NOUNS: tuple[tuple[type[Kind], str], ...] = (
    (DimKind, "a length (an int of 0 or more)"),
    (IntKind, "an int"),
    (BoolKind, "a truth value"),
    (ShapeKind, "a shape"),
    (DeviceKind, "a device"),
)


def python_annotation(kind: Kind) -> str:
    """A parameter's annotation in a stub or a generated ``__init__``."""
    if isinstance(kind, MaybeKind):
        return f"{python_annotation(kind.of)} | None"
    if isinstance(kind, EnumKind):
        return f"Literal[{', '.join(repr(word) for word in kind.words)}]"
    if isinstance(kind, DTypeKind):
        return "torch.dtype | str"
    if isinstance(kind, ScalarKind):
        return " | ".join(kind.types)
    if isinstance(kind, AxesKind):
        return "int | Sequence[int]" + (" | None" if kind.optional else "")
    if isinstance(kind, IntTupleKind):
        return "int | Sequence[int]"
    if isinstance(kind, ShapeKind):
        return "Sequence[int]"
    if isinstance(kind, DeviceKind):
        return "torch.device | str | None"
    return "bool" if isinstance(kind, BoolKind) else "int"


def misfit(value: Any, kind: Kind) -> str | None:
    """Why a manifest's value is not of a kind; None when it is.

    Stricter than Python: a bool is no int, an int no float.
    """
    if isinstance(kind, MaybeKind) and value is None:
        return None
    if isinstance(kind, MaybeKind):
        kind = kind.of
    if _fits(value, kind):
        return None
    if isinstance(kind, ScalarKind) and type(value) is int and "float" in kind.types:
        return f"{value} is an int, write {value}.0"
    return f"{value!r} is not {describe(kind)}"


def _fits(value: Any, kind: Kind) -> bool:
    sort = type(value)
    if isinstance(kind, DimKind):
        return sort is int and value >= 0
    if isinstance(kind, IntKind):
        return sort is int
    if isinstance(kind, BoolKind):
        return sort is bool
    if isinstance(kind, EnumKind):
        return value in kind.words
    if isinstance(kind, DTypeKind):
        return sort is str and value in (DTYPES if kind.members is None else kind.members)
    if isinstance(kind, ShapeKind):
        return sort is tuple and all(type(item) is int and item >= 0 for item in value)
    if isinstance(kind, AxesKind):
        return (
            sort is int
            or (value is None and kind.optional)
            or (sort is tuple and all(type(item) is int for item in value))
        )
    if isinstance(kind, IntTupleKind):
        return sort is int or (
            sort is tuple and len(value) == kind.length and all(type(i) is int for i in value)
        )
    if isinstance(kind, ScalarKind):
        return sort.__name__ in kind.types
    return isinstance(kind, DeviceKind) and (value is None or sort is str)
