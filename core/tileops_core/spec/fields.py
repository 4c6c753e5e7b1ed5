"""Reading one YAML mapping key by key, noting everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileops_core.spans import Span
from tileops_core.spec.entries import AdtValue, Written
from tileops_core.spec.expressions import Expr, ShapeExpr
from tileops_core.spec.grammar import GrammarError, parse_expression, parse_shape
from tileops_core.spec.names import is_declared
from tileops_core.spec.problems import MOST_STRAYS, Problems, first_strays
from tileops_core.spec.yaml_nodes import (
    AnyNode,
    Mapping,
    Scalar,
    Sequence,
    TooLarge,
    Trap,
    value_of,
)
from tileops_core.suggest import did_you_mean


class Fields:
    """The values of a mapping's keys, each read as what it must be.

    A reader method returns None (or the stated default) for an absent key, and also for a wrong
    value, which it notes among the problems.
    """

    __slots__ = ("_entries", "left_out", "problems", "span", "what", "whole")

    def __init__(
        self, node: AnyNode | None, what: str, known: tuple[str, ...], problems: Problems
    ) -> None:
        self.what = what
        self.problems = problems
        self._entries: dict[str, tuple[Scalar, AnyNode]] = {}
        self.whole = isinstance(node, Mapping) and node.whole
        self.left_out: set[str] = set()
        """The keys below which something is there and was not taken in."""
        self.span: Span | None = node.span if node else None
        if isinstance(node, Mapping):
            self._entries = node.entries
        elif node is not None:
            problems.add(
                "wrong-value",
                f"{what} is {node.kind}, a mapping of {', '.join(known)} is due",
                node.span,
            )
        strays = ((name, key) for name, (key, _) in self._entries.items() if name not in known)
        for (name, key), more in first_strays(strays):
            message = f"{what} has no key {name!r}{did_you_mean(name, known)}"
            if more:
                message = f"{what} has {more} more keys that it does not know"
            hint = f"the keys here are {', '.join(known)}"
            problems.add("unknown-key", message, key.span, hint)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._entries

    def node(self, key: str) -> AnyNode | None:
        """The value's node."""
        found = self._entries.get(key)
        return found[1] if found else None

    def place(self, key: str) -> Span | None:
        """Where the key stands."""
        found = self._entries.get(key)
        return found[0].span if found else None

    def require(self, key: str, span: Span, hint: str = "") -> bool:
        """Whether the key is there; its absence is noted at ``span``.

        What is no mapping, or could not be read as a whole, is at fault itself and lacks nothing.
        """
        if key in self._entries:
            return True
        if self.whole:
            self.problems.add("missing-key", f"{self.what} has no {key!r}", span, hint)
        return False

    def text(self, key: str, among: tuple[str, ...] = ()) -> str | None:
        """Text, one of ``among`` when that is given."""
        written = self.written_text(key)
        if written is None:
            return None
        if among and written.value not in among:
            self.problems.add(
                "wrong-value",
                f"{self.what}: {key} is {written.value!r}, one of {', '.join(among)} is due"
                f"{did_you_mean(written.value, among)}",
                written.span,
            )
            return None
        return str(written.value)

    def written_text(self, key: str) -> Written | None:
        """Text and its place."""
        node = self.node(key)
        return None if node is None else text_of(node, f"{self.what}: {key}", self.problems)

    def flag(self, key: str) -> bool:
        """A boolean, False when absent."""
        node = self.node(key)
        if node is None:
            return False
        value = plain_value(node, f"{self.what}: {key}", self.problems)
        if value is None or isinstance(value.value, bool):
            return bool(value and value.value)
        self.problems.add(
            "wrong-value", f"{self.what}: {key} is {node.kind}, true or false is due", node.span
        )
        return False

    def condition(self, key: str) -> bool | Expr | None:
        """true, false or an expression; False when absent, None when it cannot be read."""
        node = self.node(key)
        if node is None:
            return False
        if isinstance(node, Scalar) and node.plain and node.text in ("true", "false"):
            return node.text == "true"
        return expression_of(node, f"{self.what}: {key}", self.problems)

    def expression(self, key: str) -> Expr | None:
        """An expression."""
        node = self.node(key)
        return None if node is None else expression_of(node, f"{self.what}: {key}", self.problems)

    def shape(self, key: str) -> ShapeExpr | None:
        """A shape, written as text."""
        node = self.node(key)
        return None if node is None else shape_of(node, f"{self.what}: {key}", self.problems)

    def is_empty_list(self, key: str) -> bool:
        """Whether the key is there with a list of nothing."""
        node = self.node(key)
        return isinstance(node, Sequence) and not node.items

    def items(self, key: str) -> tuple[AnyNode, ...]:
        """The items of a list."""
        node = self.node(key)
        if node is None:
            return ()
        if isinstance(node, Sequence):
            return tuple(node.items)
        self.problems.add(
            "wrong-value", f"{self.what}: {key} is {node.kind}, a list is due", node.span
        )
        return ()

    def named(self, key: str) -> Iterator[tuple[str, Span, AnyNode]]:
        """The name, its place and the node of each declaration below a key."""
        node = self.node(key)
        if node is None:
            self.left_out |= set() if self.whole else {key}
            return
        if not isinstance(node, Mapping) or not node.whole:
            self.left_out.add(key)
        if not isinstance(node, Mapping):
            self.problems.add(
                "wrong-value",
                f"{self.what}: {key} is {node.kind}, a mapping of names is due",
                node.span,
            )
            return
        misnamed = [scalar for name, (scalar, _) in node.entries.items() if not is_declared(name)]
        for scalar, more in first_strays(misnamed):
            self.left_out.add(key)
            self.problems.add(
                "bad-name",
                f"{key} has {more} more keys that are no names"
                if more
                else f"{scalar.text!r} is no name",
                scalar.span,
                "a name begins with a letter, has letters, digits and underscores, and is no "
                "keyword of Python",
            )
        for name, (scalar, value) in node.entries.items():
            if is_declared(name):
                yield name, scalar.span, value

    def mappings(self, key: str) -> Iterator[tuple[str, Span, AnyNode]]:
        """The same where each declaration is a mapping, but for very many that are none."""
        strays = 0
        left_out: list[tuple[Span, AnyNode]] = []
        for name, span, value in self.named(key):
            strays += not isinstance(value, Mapping)
            if isinstance(value, Mapping) or strays <= MOST_STRAYS:
                yield name, span, value
            else:
                left_out.append((span, value))
        if left_out:
            self.left_out.add(key)
            self.problems.add(
                "wrong-value",
                f"{key} has {len(left_out)} more names without a mapping",
                left_out[0][0],
            )


def plain_value(node: AnyNode, what: str, problems: Problems) -> Written | None:
    """A scalar's value and place, or a list of such values as a tuple.

    ``{constructor: {field: value}}`` is a value of a sealed sum.
    """
    if isinstance(node, Sequence):
        parts = [plain_value(item, what, problems) for item in node.items]
        if any(part is None for part in parts):
            return None
        return Written(tuple(part.value for part in parts if part), node.span)
    if isinstance(node, Mapping) and len(node.entries) == 1:
        ((constructor, (_, inner)),) = node.entries.items()
        if isinstance(inner, Mapping):
            fields = bindings(inner, f"{what}: {constructor}", problems)
            return Written(
                AdtValue(constructor, tuple((n, w.value) for n, w in fields.items())), node.span
            )
    if not isinstance(node, Scalar):
        problems.add("wrong-value", f"{what} is {node.kind}, a plain value is due", node.span)
        return None
    try:
        return Written(value_of(node), node.span)
    except TooLarge as error:
        problems.add("too-large", f"{what}: {error}", node.span)
        return None
    except Trap as trap:
        problems.add(
            "yaml-trap", f"{what}: {node.text!r} is not a safe value", node.span, str(trap)
        )
        return None


def text_of(node: AnyNode, what: str, problems: Problems) -> Written | None:
    """A node's text; its place is that of the text, without quotes."""
    if isinstance(node, Scalar):
        value = plain_value(node, what, problems)
        if value is None:
            return None
        if isinstance(value.value, str):
            return Written(value.value, node.place(0, max(1, len(node.text))))
        hint = f"quote it to make it text: '{node.text}'"
    else:
        hint = (
            f"write it as text, in quotes: {_as_text(node)}" if isinstance(node, Sequence) else ""
        )
    problems.add("wrong-value", f"{what} is {node.kind}, text is due", node.span, hint)
    return None


def _as_text(node: Sequence) -> str:
    """A YAML list as the text its writer may have meant."""
    return '"[' + ", ".join(i.text if isinstance(i, Scalar) else "..." for i in node.items) + ']"'


def expression_of(node: AnyNode, what: str, problems: Problems) -> Expr | None:
    """A node's text as an expression; a bare integer is one too."""
    if isinstance(node, Scalar):
        if node.plain and node.text in ("true", "false"):
            problems.add(
                "wrong-value",
                f"{what}: {node.text} is no expression here",
                node.span,
                f"write {node.text.title()} inside an expression, or leave the key out",
            )
            return None
        value = plain_value(node, what, problems)
        if value is None:
            return None
        if value.value is not None:
            try:
                return parse_expression(node.text, node.place)
            except GrammarError as error:
                problems.add(error.code, f"{what}: {error.message}", error.span, error.hint)
                return None
    problems.add("wrong-value", f"{what} is {node.kind}, an expression is due", node.span)
    return None


def shape_of(node: AnyNode, what: str, problems: Problems) -> ShapeExpr | None:
    """A node's text as a shape. A YAML list is refused: it would be read by other rules."""
    written = text_of(node, what, problems)
    if written is None or not isinstance(node, Scalar):
        return None
    try:
        return parse_shape(node.text, node.place)
    except GrammarError as error:
        problems.add(error.code, f"{what}: {error.message}", error.span, error.hint)
        return None


def bindings(
    node: AnyNode, what: str, problems: Problems, without: tuple[str, ...] = ()
) -> dict[str, Written]:
    """Names and plain values of a mapping."""
    if not isinstance(node, Mapping):
        problems.add("wrong-value", f"{what} is {node.kind}, a mapping is due", node.span)
        return {}
    return {
        name: written
        for name, (_, value) in node.entries.items()
        if name not in without
        and (written := plain_value(value, f"{what}: {name}", problems)) is not None
    }


def text_or_empty(fields: Fields, key: str) -> str:
    """The raw text of a scalar, for display."""
    node: Any = fields.node(key)
    return node.text if isinstance(node, Scalar) else ""
