from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Slice,
    Splice,
    TupleOf,
    Unary,
)
from tileops_core.spec.grammar import (
    MAX_NESTING,
    MAX_TOKENS,
    GrammarError,
    parse_expression,
    parse_shape,
)

NO = Span("text", 1)


def parse(text: str) -> Expr:
    return parse_expression(text, lambda offset, length: Span("text", 1, offset + 1, length, text))


def shape(text: str) -> Expr:
    return parse_shape(text, lambda offset, length: Span("text", 1, offset + 1, length, text))


def name(word: str) -> Name:
    return Name(id=word, span=NO)


def const(value: object) -> Const:
    return Const(value=value, span=NO)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("M", name("M")),
        ("7", const(7)),
        ("1.0e-6", const(1e-6)),
        ("inf", const(math.inf)),
        ("'tanh'", const("tanh")),
        ("True", const(True)),
        ("(1, 2)", TupleOf(items=(const(1), const(2)), span=NO)),
        ("-M", Unary(op="-", operand=name("M"), span=NO)),
        ("not a", Unary(op="not", operand=name("a"), span=NO)),
        ("M // 2", Binary(op="//", left=name("M"), right=const(2), span=NO)),
        ("M ** 2", Binary(op="**", left=name("M"), right=const(2), span=NO)),
        (
            "0 < M <= N",
            Compare(first=const(0), rest=(("<", name("M")), ("<=", name("N"))), span=NO),
        ),
        (
            "x not in ('a',)",
            Compare(
                first=name("x"), rest=(("not in", TupleOf(items=(const("a"),), span=NO)),), span=NO
            ),
        ),
        ("a and b", BoolOp(op="and", items=(name("a"), name("b")), span=NO)),
        (
            "a if c else b",
            IfElse(condition=name("c"), then=name("a"), otherwise=name("b"), span=NO),
        ),
        ("S[-1]", Index(value=name("S"), index=Unary(op="-", operand=const(1), span=NO), span=NO)),
        ("S[1:]", Slice(value=name("S"), start=const(1), stop=None, span=NO)),
        ("v.value", Field(value=name("v"), name="value", span=NO)),
        ("conv.out(M, 2)", Call(function="conv.out", args=(name("M"), const(2)), span=NO)),
        (
            "per_axis(v, fallback=1)",
            Call(
                function="per_axis", args=(name("v"),), keywords=(("fallback", const(1)),), span=NO
            ),
        ),
        (
            "sum(i for i in S)",
            Call(
                function="sum",
                args=(Each(element=name("i"), variable="i", sequence=name("S"), span=NO),),
                span=NO,
            ),
        ),
    ],
)
def test_every_form_of_the_language_has_its_node(text, node):
    assert parse(text) == node


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("[]", Axes(items=(), span=NO)),
        ("[M, *S]", Axes(items=(name("M"), Splice(value=name("S"), span=NO)), span=NO)),
        ("Mat[t, M]", FamilyUse(family="Mat", args=(name("t"), name("M")), span=NO)),
        ("Row[M]", FamilyUse(family="Row", args=(name("M"),), span=NO)),
    ],
)
def test_a_shape_is_axes_or_a_type_family(text, node):
    assert shape(text) == node


def test_precedence_is_pythons():
    assert parse("a or b and not c < 1 + 2 * 3") == parse("a or (b and (not (c < (1 + (2 * 3)))))")


@pytest.mark.parametrize("text", ["M", "(M)", "M, N", "M[:, N]", "sum(S)", "x if y else z"])
def test_what_is_no_shape_is_refused_as_one(text):
    with pytest.raises(GrammarError):
        shape(text)


@pytest.mark.parametrize(
    ("text", "part", "code"),
    [
        ("__import__('os').getcwd() == ''", "__import__('os').getcwd", "not-in-language"),
        ("__import__('os')", "__import__", "not-in-language"),
        ("x.__class__", "x.__class__", "not-in-language"),
        ("[x for x in x.shape]", "[x for x in x.shape]", "not-in-language"),
        ("9**9**9", "9**9", "power"),
        ("M ** N", "N", "power"),
        ("M ** -1", "-1", "power"),
        ("M ** 9", "9", "power"),
        ("M ** True", "True", "power"),
        ("(M ** 8) ** 8", "M ** 8", "power"),
        ("lambda: 1", "lambda: 1", "not-in-language"),
        ("{x for x in S}", "{", "use-unique-axes"),
        ("x is None", "x is None", "use-present"),
        ("x == None", "None", "use-present"),
        ("isinstance(x, int)", "isinstance(x, int)", "use-per-axis"),
        ("(x := 1)", "x := 1", "not-in-language"),
        ("f'{x}'", "f", "not-in-language"),
        ("b'x'", "b", "not-in-language"),
        ("x @ y", "@", "not-in-language"),
        ("x; y", ";", "not-in-language"),
        ("x # y", "#", "not-in-language"),
        ("x << 2", "x << 2", "not-in-language"),
        ("é + 1", "é", "not-in-language"),
        ("x\\y", "\\", "not-in-language"),
        ("1_000", "1", "expression-syntax"),
        ("0x10", "0", "expression-syntax"),
        ("1e5j", "1", "expression-syntax"),
        ("99999999999999999999", "99999999999999999999", "too-large"),
        ("1.0e999", "1.0e999", "too-large"),
        ("'a' 'b'", "'", "expression-syntax"),
        ("'open", "'", "expression-syntax"),
        ("M + ", " ", "expression-syntax"),
        ("(M", "(", "expression-syntax"),
        ("M)", ")", "expression-syntax"),
        ("(M]", "]", "expression-syntax"),
        ("", "", "expression-syntax"),
        ("*S", "*", "expression-syntax"),
        ("f(*S)", "*S", "not-in-language"),
        ("f(**S)", "f(**S)", "not-in-language"),
        ("S[::2]", "2", "not-in-language"),
        ("S[1, 2]", "1, 2", "not-in-language"),
        ("f(x)(y)", "f(x)", "not-in-language"),
        ("len(i for i in S)", "(i for i in S)", "not-in-language"),
        ("sum(i for i in S if i)", "(i for i in S if i)", "not-in-language"),
        ("sum(i for i in S for j in S)", "(i for i in S for j in S)", "not-in-language"),
        ("sum(i for i, j in S)", "i, j", "not-in-language"),
        ("i for i in S", "i for i in S", "not-in-language"),
        ("+M", "+M", "not-in-language"),
        ("~M", "~", "not-in-language"),
        ("yield", "yield", "not-in-language"),
        ("None", "None", "use-present"),
        ("...", "...", "not-in-language"),
    ],
)
def test_what_is_outside_the_language_is_refused_where_it_stands(text, part, code):
    """MAN-11."""
    with pytest.raises(GrammarError) as caught:
        parse(text)
    error = caught.value
    assert error.code == code
    if part and code != "expression-syntax":
        start = error.span.column - 1
        shown = text[start : start + error.span.length]
        assert part in shown or shown in part


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "(" * (MAX_NESTING + 1) + "1" + ")" * (MAX_NESTING + 1),
        "[" * 30 + "]" * 30,
        "-" * 900 + "1",
        "not " * 400 + "a",
        "+".join(["1"] * (MAX_TOKENS // 2 + 1)),
        "M" * 3000,
        "sum(sum(sum(i for i in S) for j in S) for k in S)",
    ],
)
def test_text_of_a_size_that_no_entry_needs_is_refused(text):
    with pytest.raises(GrammarError) as caught:
        parse(text)
    assert caught.value.code == "expression-size"


def test_a_long_chain_of_attributes_or_subscripts_neither_crashes_nor_recurses_for_ever():
    for text in (
        "a" + ".b" * 290,
        "a" + "[0]" * 190,
        "a" + "(1)" * 190,
        "1 if a else " * 100 + "1",
    ):
        with contextlib.suppress(GrammarError):
            parse(text)


tokens = st.sampled_from(
    [
        *("M", "S", "x", "__class__", "os", "import", "lambda", "for", "in", "if", "else", "not"),
        *("and", "or", "is", "None", "True", "inf", "sum", "present", "value", "await", "yield"),
        *("0", "1", "9", "1.0e-6", "'a'", '"b"', "**", "//", "==", "<=", "(", ")", "[", "]", "{"),
        *("}", ",", ".", ":", "=", ":=", "*", "-", "+", "%", "/", "<", "@", ";", "#", "\\", "\n"),
    ]
)


@given(st.one_of(st.text(max_size=80), st.lists(tokens, max_size=40).map(" ".join)))
def test_random_text_is_parsed_or_refused_and_never_executed(text):
    """MAN-11."""
    for reader in (parse, shape):
        try:
            node = reader(text)
        except GrammarError:
            continue
        assert all(isinstance(part, Expr) for part in node.walk())


@pytest.mark.parametrize("text", ["M,", "M, N", " M ,"])
def test_a_tuple_stands_in_parentheses(text):
    with pytest.raises(GrammarError, match="a tuple stands in parentheses") as caught:
        parse(text)
    assert caught.value.span.column >= 1


@given(st.lists(tokens, min_size=1, max_size=30).map(" ".join))
def test_every_node_stands_inside_the_text(text):
    try:
        node = parse(text)
    except GrammarError:
        return
    for part in node.walk():
        start = part.span.column - 1
        assert start >= 0
        assert start + part.span.length <= len(text)


def test_a_tree_that_pythons_parser_gives_up_on_is_a_grammar_error(monkeypatch):
    def give_up(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ast.parse", give_up)
    with pytest.raises(GrammarError, match="too deeply"):
        parse("a + b")
