"""The text of a type as a kind: parameters' ``type``, ``forall`` kinds, family parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tileops_core.signature.dtypes import DTYPES, unknown_dtype
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.kinds import (
    ANY_DTYPE,
    BOOL,
    DIM,
    INT,
    SEQ,
    SHAPE,
    AdtKind,
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
    OpaqueKind,
    ScalarKind,
    SeqKind,
    ShapeKind,
    WordOrKind,
)
from tileops_core.spec.entries import AdtValue, plain_text

_NUMBER = ("int", "float", "bool")
_SCALARS = frozenset({"int", "float", "bool", "str", "complex"})
_FIXED = {f"tuple[{', '.join(['int'] * n)}]": n for n in range(1, 4)}
_HOLED = {f"tuple[{', '.join(['int | None'] * n)}]": n for n in range(1, 4)}

SharedKinds: TypeAlias = Callable[[str], "Kind | None"]
"""The kind of a type that entries share, by its name; None for a name that no type has."""


def no_shared_kinds(name: str) -> None:
    """Stands for a manifest in which entries share no type."""


class TypeTextError(Exception):
    """A type's text that the manifest does not know; says what it knows."""

    def told(self, message: str) -> tuple[str, str]:
        """A message that the text is no type, and a hint that says what would be."""
        return message, str(self)


class RepeatedError(TypeTextError):
    """A type that is one but for a member that stands twice; says which."""

    def told(self, message: str) -> tuple[str, str]:
        """The message that a member stands twice, whatever else is said of the text."""
        return str(self), "write each member once"


def _refuse_repeated(text: str, parts: Sequence[str]) -> None:
    same = [part.replace('"', "'") for part in parts]
    twice = next((part for part in same if same.count(part) > 1), None)
    if twice is not None:
        raise RepeatedError(f"{twice} stands twice in {text}")


def param_kind(text: str, shared: SharedKinds = no_shared_kinds) -> Kind:
    """The kind of a parameter by its ``type``.

    Args:
        text: The type.
        shared: The kinds of the types that entries share.

    Raises:
        TypeTextError: When the text is no type of a parameter.
    """
    parts = _alternatives(text)
    _refuse_repeated(text, parts)
    if set(parts) == {"torch.device", "str", "None"}:
        return DeviceKind()
    optional = "None" in parts
    rest = tuple(part for part in parts if part != "None")
    kind = _without_none(rest, optional)
    if kind is None and len(rest) == 1:
        kind = shared(rest[0])
    if kind is None:
        raise TypeTextError(
            "known are bool, int, float, str, Number and unions of them, dtype names, quoted "
            "words, torch.dtype, list[int] | tuple[int, ...], int | tuple[int, int] (or with "
            "quoted words beside), int | list[int] | tuple[int, ...], the types of types.yaml, "
            "each also with | None, and torch.device | str | None"
        )
    return MaybeKind(kind) if optional and not isinstance(kind, AxesKind) else kind


def _without_none(parts: tuple[str, ...], optional: bool) -> Kind | None:
    words = tuple(_word(part) for part in parts if part[0] in "'\"")
    parts = tuple(part for part in parts if part[0] not in "'\"")
    if not words:
        return _of_names(parts, optional)
    if not parts:
        return EnumKind(words)
    inner = _of_names(parts, optional)
    return WordOrKind(words, inner) if isinstance(inner, IntTupleKind) else None


def _of_names(parts: tuple[str, ...], optional: bool) -> Kind | None:
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
    if len(parts) == 3 and {"int", "list[int | None]"} < names and (holed := names & set(_HOLED)):
        return IntTupleKind(_HOLED[holed.pop()], holes=True)
    if parts and names <= set(DTYPES) - {"bool"}:
        return DTypeKind(parts)
    if names == {"Number"}:
        return ScalarKind(_NUMBER)
    if parts and names <= _SCALARS:
        return ScalarKind(parts)
    return None


def index_kind(text: str) -> Kind:
    """The kind of a ``forall`` index: ``Dim``, ``Shape``, ``Seq[Int]`` or ``DType[a | b]``.

    Raises:
        TypeTextError: When the text is none of them.
    """
    if text == "Dim":
        return DIM
    if text == "Shape":
        return SHAPE
    if text == "Seq[Int]":
        return SEQ
    if text.startswith("DType[") and text.endswith("]"):
        members = tuple(part.strip() for part in text[6:-1].split("|"))
        unknown = [member for member in members if member not in DTYPES]
        if unknown:
            raise TypeTextError(f"{unknown[0]!r} is no dtype; {unknown_dtype(unknown[0])}")
        _refuse_repeated(text, members)
        return DTypeKind(members)
    raise TypeTextError("the kinds of an index are Dim, Shape, Seq[Int] and DType[a | b]")


def family_param_kind(text: str, shared: SharedKinds = no_shared_kinds) -> Kind:
    """The kind of a type family's parameter.

    Args:
        text: The kind.
        shared: The kinds of the types that entries share.

    Raises:
        TypeTextError: When the text is no such kind.
    """
    plain: dict[str, Kind] = {"Bool": BOOL, "Dim": DIM, "Int": INT, "Shape": SHAPE}
    if text in plain:
        return plain[text]
    parts = _alternatives(text)
    _refuse_repeated(text, parts)
    kind = _without_none(tuple(parts), optional=False) or shared(text)
    if isinstance(kind, EnumKind | AdtKind):
        return kind
    words = tuple(part for part in parts if part != "None")
    if words != tuple(parts) and isinstance(_without_none(words, optional=False), EnumKind):
        raise TypeTextError(
            "what may be None is no discriminant; let the family have a word more, and apply it "
            "to v.value if present(v) else 'none'"
        )
    raise TypeTextError(
        "the kinds here are Bool, Dim, Int, Shape, a union of quoted words, and the sealed sums "
        "of types.yaml"
    )


def field_kind(text: str) -> Kind:
    """The kind of a field of a sealed sum.

    Raises:
        TypeTextError: When the text is no such kind.
    """
    parts = _alternatives(text)
    _refuse_repeated(text, parts)
    kind = _without_none(tuple(parts), optional=False)
    if isinstance(kind, BoolKind | IntKind | EnumKind):
        return kind
    raise TypeTextError("a field is of type bool, int, or a union of quoted words")


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
        return f"an int or {kind.length} ints" + (", each may be None" if kind.holes else "")
    if isinstance(kind, WordOrKind):
        return f"{describe(kind.of)}, or one of {', '.join(map(repr, kind.words))}"
    if isinstance(kind, AdtKind):
        return f"a {kind.name}: {' or '.join(c.name for c in kind.constructors)}"
    if isinstance(kind, OpaqueKind):
        return f"a {kind.name}, which expressions cannot read"
    for sort, noun in _NOUNS:
        if isinstance(kind, sort):
            return noun
    return "a tuple"


_NOUNS: tuple[tuple[type[Kind], str], ...] = (
    (DimKind, "a length (an int of 0 or more)"),
    (IntKind, "an int"),
    (BoolKind, "a truth value"),
    (ShapeKind, "a shape"),
    (SeqKind, "a list of ints"),
    (DeviceKind, "a device"),
)


def misfit(value: Any, kind: Kind) -> str | None:
    """Why a manifest's value is not of a kind; None when it is.

    Stricter than Python: a bool is no int, an int no float.
    """
    if isinstance(kind, MaybeKind) and value is None:
        return None
    if isinstance(kind, MaybeKind):
        kind = kind.of
    if isinstance(kind, AdtKind):
        return why_no_value(value, kind)
    if isinstance(kind, OpaqueKind):
        return f"an entry cannot write a {kind.name}, only null"
    if _fits(value, kind):
        return None
    if isinstance(kind, ScalarKind) and type(value) is int and "float" in kind.types:
        return f"{value} is an int, write {value}.0"
    return f"{value!r} is not {describe(kind)}"


def _fits(value: Any, kind: Kind) -> bool:
    sort = type(value)
    match kind:
        case DimKind():
            return sort is int and value >= 0
        case IntKind():
            return sort is int
        case BoolKind():
            return sort is bool
        case EnumKind(words=words):
            return sort is str and value in words
        case DTypeKind(members=members):
            return sort is str and value in (DTYPES if members is None else members)
        case ShapeKind():
            return sort is tuple and all(type(item) is int and item >= 0 for item in value)
        case SeqKind():
            return sort is tuple and all(type(item) is int for item in value)
        case AxesKind(optional=optional):
            ints = sort is tuple and all(type(item) is int for item in value)
            return sort is int or ints or (value is None and optional)
        case IntTupleKind(length=length, holes=holes):
            items = value if sort is tuple else (value,)
            right = sort is int or (sort is tuple and len(value) == length)
            return right and all(type(i) is int or (i is None and holes) for i in items)
        case WordOrKind(words=words, of=inner):
            return value in words if sort is str else _fits(value, inner)
        case AdtKind():
            return why_no_value(value, kind) is None
        case ScalarKind(types=types):
            return sort.__name__ in types
        case DeviceKind():
            return value is None or sort is str
    return False


def why_no_value(value: Any, kind: AdtKind) -> str | None:
    """Why a manifest's value is none of a sealed sum; None when it is one."""
    form = next((c for c in kind.constructors if c.name == getattr(value, "kind", None)), None)
    if not isinstance(value, AdtValue) or form is None:
        names = ", ".join(f"{{{c.name}: {{...}}}}" for c in kind.constructors)
        return f"{plain_text(value)} is no {kind.name}, write one of {names}"
    given = dict(value.fields)
    for name, due in form.fields:
        if name not in given:
            return f"{value} lacks {name}"
        if not _fits(given.pop(name), due):
            return f"{value}: {name} is not {describe(due)}"
    if given:
        return f"{value}: {form.name} has no field {next(iter(given))!r}"
    broken = [text for text, expr in form.invariant if not evaluate(expr, dict(value.fields))]
    return f"{value} does not meet {broken[0]}" if broken else None
