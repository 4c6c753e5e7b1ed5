"""Text of the manifest's expression language as nodes.

A lexer admits the tokens of the closed language and bounds their number and nesting before
Python's parser sees the text; the parser's tree is then copied node by node, and what is not
listed here is refused where it stands. Nothing is ever compiled or evaluated.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Callable
from typing import TypeAlias

from tileops_core.spans import Span
from tileops_core.spec.expressions import (
    Axes,
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    FamilyUse,
    Field,
    IfElse,
    Index,
    Name,
    ShapeExpr,
    Slice,
    Splice,
    TupleOf,
    Unary,
)

Place: TypeAlias = Callable[[int, int], Span]
"""Where ``length`` characters from ``offset`` of the text stand."""

MAX_LENGTH = 2000
MAX_TOKENS = 600
MAX_NESTING = 24
MAX_EXPONENT = 8
_MAX_INT = 2**63
_MAX_EACH = 2

REDUCERS = frozenset({"sum", "all", "max", "min", "prod"})
"""The primitives that take ``element for variable in sequence``."""

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
_COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_TOKEN = re.compile(
    r"""[ ]*(?:
    (?P<name>[A-Za-z_][A-Za-z_0-9]*)(?!['"])
    | (?P<number>(?:0|[1-9][0-9]*|[0-9]+\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(?![A-Za-z_0-9.])
    | (?P<string>'[^'\\]*'|"[^"\\]*")(?![ ]*['"])
    | (?P<op>\*\*|//|==|!=|<=|>=|[-+*/%<>()\[\],.:=])
    )""",
    re.VERBOSE | re.ASCII,
)
_NAME = re.compile(r"[A-Za-z][A-Za-z_0-9]{0,63}", re.ASCII)
_HARMLESS = frozenset({"and", "or", "not", "if", "else", "in", "for"})
_PREFIXES = frozenset({"-", "+", "not", "*"})
_NOUNS: dict[type[ast.AST], str] = {
    ast.Lambda: "a lambda",
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dictionary comprehension",
    ast.List: "a list",
    ast.Set: "a set",
    ast.Dict: "a dictionary",
    ast.JoinedStr: "a formatted string",
    ast.NamedExpr: "an assignment",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Starred: "a starred value",
    ast.GeneratorExp: "a generator expression",
}


class GrammarError(Exception):
    """Text outside the language: a problem code, a sentence, the place, and what to write."""

    def __init__(self, code: str, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.span = span
        self.hint = hint


def parse_expression(text: str, place: Place) -> Expr:
    """Text as an expression.

    Args:
        text: The expression, in Python's syntax and precedence.
        place: Tells where a part of the text stands in its file.

    Raises:
        GrammarError: When the text is not in the language.
    """
    if _NAME.fullmatch(text) and not keyword.iskeyword(text) and text != "inf":
        return Name(id=text, span=place(0, len(text)))
    return _Reader(text, place).expression(_tree(text, place))


def parse_shape(text: str, place: Place) -> ShapeExpr:
    """Text as a shape: ``[axis, ...]`` or ``Family[argument, ...]``.

    Raises:
        GrammarError: When the text is neither.
    """
    return _Reader(text, place).shape(_tree(text, place))


def _tree(text: str, place: Place) -> ast.expr:
    _lex(text, place)
    lead = len(text) - len(text.lstrip(" \n"))
    try:
        # Parentheses in the text are balanced, so those added here cannot be closed by it; they
        # take the line ends of folded YAML text.
        return ast.parse(f"({text[lead:]})", mode="eval").body
    except SyntaxError as error:
        offset = min(max(0, _offset_of(error, text[lead:]) + lead - 1), max(0, len(text) - 1))
        raise GrammarError(
            "expression-syntax", f"this is no expression: {error.msg}", place(offset, 1)
        ) from None
    except (MemoryError, RecursionError, ValueError):
        raise GrammarError(
            "expression-size", "the expression is nested too deeply", place(0, len(text))
        ) from None


def _offset_of(error: SyntaxError, text: str) -> int:
    """The 0-based offset in ``(text)`` of the place a SyntaxError names."""
    rows = f"({text})".split("\n")
    row = max(0, min((error.lineno or 1) - 1, len(rows) - 1))
    return sum(len(line) + 1 for line in rows[:row]) + max(0, (error.offset or 1) - 1)


def _lex(text: str, place: Place) -> None:
    """Refuse characters outside the language, and sizes that no entry needs."""
    if len(text) > MAX_LENGTH:
        raise GrammarError(
            "expression-size",
            f"the expression has {len(text)} characters, at most {MAX_LENGTH} are allowed",
            place(0, 1),
            "name its parts in let",
        )
    open_at: list[int] = []
    tokens = prefixes = position = 0
    text = text.replace("\n", " ").rstrip(" ")
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _bad_character(text, position, place)
        token = match[match.lastgroup]  # type: ignore[index]
        start, position = match.start(match.lastgroup), match.end()  # type: ignore[arg-type]
        tokens += 1
        prefixes = prefixes + 1 if token in _PREFIXES else 0
        if token in "([":
            open_at.append(start)
        elif token in ")]" and (
            not open_at or text[open_at.pop()] != ("(" if token == ")" else "[")
        ):
            raise GrammarError("expression-syntax", f"{token!r} closes nothing", place(start, 1))
        if len(open_at) > MAX_NESTING or tokens > MAX_TOKENS or prefixes > 4:
            raise GrammarError(
                "expression-size",
                "the expression is longer or nested deeper than the language allows",
                place(start, len(token)),
                "name its parts in let",
            )
    if open_at:
        start = open_at[-1]
        raise GrammarError("expression-syntax", f"{text[start]!r} is never closed", place(start, 1))
    if not tokens:
        raise GrammarError(
            "expression-syntax", "an expression is due, the text is empty", place(0, 1)
        )


def _bad_character(text: str, position: int, place: Place) -> GrammarError:
    start = position + len(text[position:]) - len(text[position:].lstrip(" "))
    span = place(start, 1)
    if text[start] == "{":
        return GrammarError(
            "use-unique-axes",
            "sets and dictionaries are not part of the expression language",
            span,
            "to ask whether axes repeat, write unique_axes(shape, dim)",
        )
    if text[start].isdigit() or text[start] == ".":
        return GrammarError(
            "expression-syntax",
            "this is no number of the expression language",
            span,
            "write decimal digits without leading zero or underscore, a float as 0.5 or 1.0e-6",
        )
    if text[start] in "'\"":
        return GrammarError(
            "expression-syntax", "a word in quotes has an end and no backslash", span
        )
    if text[start].isascii() and (text[start].isalpha() or text[start] == "_"):
        return GrammarError(
            "not-in-language", "prefixed strings are not part of the expression language", span
        )
    return GrammarError(
        "not-in-language", f"{text[start]!r} is not part of the expression language", span
    )


class _Reader:
    """Copies Python's tree into ours."""

    def __init__(self, text: str, place: Place) -> None:
        self.place = place
        self.lead = len(text) - len(text.lstrip(" \n"))
        self.rows = [0]
        for index, char in enumerate(text[self.lead :]):
            if char == "\n":
                self.rows.append(index + 2)
        self.each = 0

    def offset(self, line: int, column: int) -> int:
        """The offset in the text of a place in the tree, which has one parenthesis more."""
        return self.rows[line - 1] + column - 1 + self.lead

    def span(self, node: ast.expr) -> Span:
        """The place of a node."""
        # A generator expression takes in the parentheses around it, which may be those added.
        start = max(self.lead, self.offset(node.lineno, node.col_offset))
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self.place(start, max(1, end - start))

    def refuse(
        self, node: ast.expr, noun: str, hint: str = "", code: str = "not-in-language"
    ) -> GrammarError:
        """The error for a node that the language lacks."""
        message = f"{noun} is not part of the expression language"
        return GrammarError(code, message, self.span(node), hint)

    def shape(self, node: ast.expr) -> ShapeExpr:
        """A whole shape."""
        if isinstance(node, ast.List):
            return Axes(items=tuple(map(self.axis, node.elts)), span=self.span(node))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            inner = node.slice
            args = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return FamilyUse(
                family=node.value.id, args=tuple(map(self.expression, args)), span=self.span(node)
            )
        raise GrammarError(
            "expression-syntax",
            "a shape is [axis, ...] or Family[argument, ...]",
            self.span(node),
            "a 0-d tensor has the shape []",
        )

    def axis(self, node: ast.expr) -> Expr:
        """One item among the axes of a shape."""
        if isinstance(node, ast.Starred):
            return Splice(value=self.expression(node.value), span=self.span(node))
        return self.expression(node)

    def expression(self, node: ast.expr) -> Expr:
        """Any expression."""
        method = _METHODS.get(type(node))
        if method is None:
            noun = _NOUNS.get(type(node), "this")
            raise self.refuse(node, noun, *_advice(node))
        return method(self, node)

    def constant(self, node: ast.Constant) -> Expr:
        """A number, a word or a boolean."""
        value, span = node.value, self.span(node)
        if value is None:
            raise self.refuse(
                node,
                "None",
                "ask present(x), and read the value of what may be None as x.value",
                "use-present",
            )
        if not isinstance(value, (int, float, str)):
            raise self.refuse(node, f"a value like {value!r}")
        if isinstance(value, int) and value >= _MAX_INT:
            raise GrammarError(
                "too-large", "no number of an expression has more than 63 bits", span
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise GrammarError("too-large", "this float is too large", span, "write inf")
        return Const(value=value, span=span)

    def name(self, node: ast.Name) -> Expr:
        """A name, or ``inf``."""
        span = self.span(node)
        if node.id == "inf":
            return Const(value=math.inf, span=span)
        if node.id.startswith("_"):
            raise self.refuse(node, f"the name {node.id}", "declared names begin with a letter")
        return Name(id=node.id, span=span)

    def tuple(self, node: ast.Tuple) -> Expr:
        """A tuple as a value."""
        if self.offset(node.lineno, node.col_offset) < self.lead:
            raise GrammarError(
                "expression-syntax",
                "a tuple stands in parentheses",
                self.span(node),
                "write (a, b)",
            )
        return TupleOf(items=tuple(map(self.expression, node.elts)), span=self.span(node))

    def unary(self, node: ast.UnaryOp) -> Expr:
        """``-x`` or ``not x``."""
        if isinstance(node.op, (ast.USub, ast.Not)):
            op = "-" if isinstance(node.op, ast.USub) else "not"
            return Unary(op=op, operand=self.expression(node.operand), span=self.span(node))
        raise self.refuse(node, "this prefix")

    def binary(self, node: ast.BinOp) -> Expr:
        """Arithmetic."""
        op = _BINARY.get(type(node.op))
        if op is None:
            raise self.refuse(node, "this operator")
        left, right = self.expression(node.left), self.expression(node.right)
        if op == "**":
            literal = right.value if isinstance(right, Const) else None
            if type(literal) is not int or not 0 <= literal <= MAX_EXPONENT:
                raise GrammarError(
                    "power",
                    f"an exponent is a literal from 0 to {MAX_EXPONENT}",
                    self.span(node.right),
                )
            if any(isinstance(part, Binary) and part.op == "**" for part in left.walk()):
                raise GrammarError("power", "powers do not nest", self.span(node.left))
        return Binary(op=op, left=left, right=right, span=self.span(node))

    def compare(self, node: ast.Compare) -> Expr:
        """A chain of comparisons."""
        rest = []
        for op, item in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _COMPARE:
                raise self.refuse(
                    node, "is", "ask present(x) whether a tensor or value is there", "use-present"
                )
            rest.append((_COMPARE[type(op)], self.expression(item)))
        return Compare(first=self.expression(node.left), rest=tuple(rest), span=self.span(node))

    def bool_op(self, node: ast.BoolOp) -> Expr:
        """``and`` or ``or``."""
        op = "and" if isinstance(node.op, ast.And) else "or"
        return BoolOp(op=op, items=tuple(map(self.expression, node.values)), span=self.span(node))

    def if_else(self, node: ast.IfExp) -> Expr:
        """``x if c else y``."""
        return IfElse(
            condition=self.expression(node.test),
            then=self.expression(node.body),
            otherwise=self.expression(node.orelse),
            span=self.span(node),
        )

    def attribute(self, node: ast.Attribute) -> Expr:
        """``v.value`` or a field."""
        if node.attr.startswith("_"):
            raise self.refuse(node, f"the attribute {node.attr}")
        return Field(value=self.expression(node.value), name=node.attr, span=self.span(node))

    def subscript(self, node: ast.Subscript) -> Expr:
        """``v[i]`` or ``v[a:b]``."""
        value, index, span = self.expression(node.value), node.slice, self.span(node)
        if isinstance(index, ast.Slice):
            if index.step is not None:
                raise self.refuse(index.step, "a step in a slice")
            start = self.expression(index.lower) if index.lower else None
            stop = self.expression(index.upper) if index.upper else None
            return Slice(value=value, start=start, stop=stop, span=span)
        if isinstance(index, ast.Tuple):
            raise self.refuse(index, "more than one subscript")
        return Index(value=value, index=self.expression(index), span=span)

    def call(self, node: ast.Call) -> Expr:
        """A primitive's call."""
        function = _dotted(node.func)
        if function is None:
            raise self.refuse(node.func, "calling a computed value")
        if function == "isinstance":
            raise self.refuse(
                node,
                "isinstance",
                "a value per axis, or one for all axes, is read with per_axis(v, i, n)",
                "use-per-axis",
            )
        if any(keyword.arg is None for keyword in node.keywords):
            raise self.refuse(node, "**")
        if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            if function not in REDUCERS:
                raise self.refuse(
                    node.args[0],
                    f"a generator expression as the argument of {function}",
                    "only sum, all, max, min and prod take one",
                )
            args: tuple[Expr, ...] = (self.each_of(node.args[0]),)
        else:
            args = tuple(map(self.expression, node.args))
        return Call(
            function=function,
            args=args,
            keywords=tuple((k.arg or "", self.expression(k.value)) for k in node.keywords),
            span=self.span(node),
        )

    def each_of(self, node: ast.GeneratorExp) -> Expr:
        """``element for variable in sequence``."""
        clause = node.generators[0]
        if len(node.generators) > 1 or clause.ifs or clause.is_async:
            raise self.refuse(node, "more than one for, or an if, in a generator expression")
        if not isinstance(clause.target, ast.Name) or clause.target.id.startswith("_"):
            raise self.refuse(clause.target, "this target of for", "write one name")
        self.each += 1
        if self.each > _MAX_EACH:
            raise GrammarError(
                "expression-size", "generator expressions nest at most twice", self.span(node)
            )
        each = Each(
            element=self.expression(node.elt),
            variable=clause.target.id,
            sequence=self.expression(clause.iter),
            span=self.span(node),
        )
        self.each -= 1
        return each


def _dotted(node: ast.expr) -> str | None:
    """``conv.out`` of a name or a chain of attributes; None for anything else."""
    if isinstance(node, ast.Name) and not node.id.startswith("_"):
        return node.id
    if isinstance(node, ast.Attribute) and not node.attr.startswith("_"):
        prefix = _dotted(node.value)
        return None if prefix is None else f"{prefix}.{node.attr}"
    return None


def _advice(node: ast.expr) -> tuple[str, str]:
    """The rewrite of a refused node, and its code."""
    if isinstance(node, ast.List):
        return "write a tuple: (a, b)", "not-in-language"
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return "write it as the argument of sum, all, max, min or prod", "not-in-language"
    if isinstance(node, ast.Starred):
        return "* splices a shape among the axes of a shape only", "not-in-language"
    return "", "not-in-language"


_METHODS: dict[type[ast.expr], Callable[..., Expr]] = {
    ast.Constant: _Reader.constant,
    ast.Name: _Reader.name,
    ast.Tuple: _Reader.tuple,
    ast.UnaryOp: _Reader.unary,
    ast.BinOp: _Reader.binary,
    ast.Compare: _Reader.compare,
    ast.BoolOp: _Reader.bool_op,
    ast.IfExp: _Reader.if_else,
    ast.Attribute: _Reader.attribute,
    ast.Subscript: _Reader.subscript,
    ast.Call: _Reader.call,
}
