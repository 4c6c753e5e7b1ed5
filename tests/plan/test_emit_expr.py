"""Generated expressions have the value that their nodes say, whatever nodes they are made of."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from plan_support import plan, signature, solved, spec, statics

from tileops_core.plan.emit_expr import ExpressionWriter
from tileops_core.plan.source import SourceWriter, compile_source
from tileops_core.signature.primitives import PRIMITIVES
from tileops_core.spans import NOWHERE
from tileops_core.spec import expressions as nodes
from tileops_core.spec.expressions import (
    Axes,
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    Field,
    IfElse,
    Index,
    Name,
    Slice,
    Splice,
    TupleOf,
    Unary,
)

PROFILE = settings(max_examples=300, derandomize=True, database=None, deadline=None)

SIGNATURE = signature(
    {"M": "Dim", "N": "Dim", "S": "Shape", "U": "DType[float16 | float32]"},
    {
        "x": "[M, N, *S]",
        "u": {"dtype": "U", "shape": "[]"},
        "w": {"dtype": "T", "shape": "[]", "optional": True},
    },
    params={
        "flag": "bool",
        "eps": "float",
        "mode": {"type": "'a' | 'b'", "default": "a"},
        "p": {"type": "int | None", "default": None},
        "dim": {"type": "int | list[int] | tuple[int, ...] | None", "default": None},
    },
)

# -- the oracle ---------------------------------------------------------------------------

_ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}
_RELATIONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: any(a == item for item in b),
    "not in": lambda a, b: not any(a == item for item in b),
}


def value_of(expr: Expr, env: dict[str, Any]) -> Any:
    """The value of an expression by walking its nodes."""
    match expr:
        case Const(value=value):
            return value
        case Name(id=name):
            return env[name] if name in env else getattr(torch, name)
        case TupleOf(items=items) | Axes(items=items):
            found: list[Any] = []
            for item in items:
                if isinstance(item, Splice):
                    found.extend(value_of(item.value, env))
                else:
                    found.append(value_of(item, env))
            return tuple(found)
        case Unary(op="-", operand=operand):
            return 0 - value_of(operand, env)
        case Unary(op="not", operand=operand):
            return value_of(operand, env) is False
        case Binary(op=op, left=left, right=right):
            return _ARITHMETIC[op](value_of(left, env), value_of(right, env))
        case Compare(first=first, rest=rest):
            left = value_of(first, env)
            for op, item in rest:
                right = value_of(item, env)
                if not _RELATIONS[op](left, right):
                    return False
                left = right
            return True
        case BoolOp(op=op, items=items):
            for item in items:
                if value_of(item, env) is (op == "or"):
                    return op == "or"
            return op == "and"
        case IfElse(condition=condition, then=then, otherwise=otherwise):
            return value_of(then if value_of(condition, env) else otherwise, env)
        case Index(value=value, index=index):
            return value_of(value, env)[value_of(index, env)]
        case Slice(value=value, start=start, stop=stop):
            bounds = (None if b is None else value_of(b, env) for b in (start, stop))
            return value_of(value, env)[slice(*bounds)]
        case Field(value=value, name="value"):
            return value_of(value, env)
        case Each(element=element, variable=variable, sequence=sequence):
            items = value_of(sequence, env)
            return [value_of(element, {**env, variable: item}) for item in items]
        case Call(function="bytes", args=(Name(id=name),)):
            return env[f"bytes of {name}"]
        case Call(function="present", args=(Name(id=name),)):
            return env[name] is not None
        case Call(function=function, args=args, keywords=keywords):
            values = [value_of(arg, env) for arg in args]
            named = {key: value_of(value, env) for key, value in keywords}
            return PRIMITIVES[function].run(*values, **named)
    raise AssertionError(expr)


# -- the written ones ---------------------------------------------------------------------


def written(expr: Expr, env: dict[str, Any]) -> Any:
    """The value of an expression by the source that is written for it."""
    writer = SourceWriter()
    writer.use("_inf", math.inf)
    source = ExpressionWriter(SIGNATURE, writer).write(expr)
    note(source)
    names = [name for name in env if name.isidentifier()]
    with writer.block(f"def run({', '.join(names)}, _has_w, _bytes_x, _bytes_y):"):
        writer.line(f"return {source}")
    run = compile_source(writer, "<test of an expression>")["run"]
    given = {name: env[name] for name in names}
    sizes = {f"_bytes_{name}": env[f"bytes of {name}"] for name in "xy"}
    return run(**given, _has_w=env["w"] is not None, **sizes)


def outcome(evaluate: Any, expr: Expr, env: dict[str, Any]) -> Any:
    """A value and its type, or the type of the error."""
    try:
        value = evaluate(expr, env)
    except (ArithmeticError, LookupError, ValueError) as error:
        return type(error)
    return type(value), repr(value)


# -- random expressions -------------------------------------------------------------------


def node(sort: type[Expr], **fields: Any) -> Any:
    return sort(span=NOWHERE, **fields)


def name(text: str) -> Any:
    return node(Name, id=text)


@st.composite
def integers(draw: Any, depth: int = 2, names: tuple[str, ...] = ("M", "N")) -> Any:
    """An expression that is an int."""
    leaf = st.sampled_from(names).map(name) | st.integers(0, 5).map(lambda v: node(Const, value=v))
    if depth == 0:
        return draw(leaf)
    inner = integers(depth - 1, names)
    shape = shapes(depth - 1, names)
    way = draw(st.integers(0, 11))
    if way == 0:
        return node(Unary, op="-", operand=draw(inner))
    if way in (1, 2):
        op = draw(st.sampled_from(["+", "-", "*", "//", "%"]))
        return node(Binary, op=op, left=draw(inner), right=draw(inner))
    if way == 3:
        return node(
            Binary, op="**", left=draw(inner), right=node(Const, value=draw(st.integers(0, 3)))
        )
    if way == 4:
        condition = draw(booleans(depth - 1, names))
        return node(IfElse, condition=condition, then=draw(inner), otherwise=draw(inner))
    if way == 5:
        return node(Index, value=draw(shape), index=draw(inner))
    if way == 6:
        each = _each(draw, integers, depth, names)
        function = draw(st.sampled_from(["sum", "prod", "max", "min"]))
        return node(Call, function=function, args=(each,))
    if way == 7:
        function = draw(st.sampled_from(["len", "sum", "prod", "max", "min"]))
        return node(Call, function=function, args=(draw(shape),))
    if way == 8:
        function = draw(st.sampled_from(["max", "min", "ceil_div"]))
        return node(Call, function=function, args=(draw(inner), draw(inner)))
    if way == 9:
        field = node(Field, value=name("p"), name="value")
        condition = node(Call, function="present", args=(name("p"),))
        return node(IfElse, condition=condition, then=field, otherwise=draw(inner))
    if way == 10:
        keyword = (("fallback", draw(inner)),)
        args = (draw(shape), node(Const, value=0), node(Call, function="len", args=(draw(shape),)))
        return node(Call, function="per_axis", args=args, keywords=keyword)
    return node(Call, function="bytes", args=(name(draw(st.sampled_from("xy"))),))


def _each(draw: Any, kind: Any, depth: int, names: tuple[str, ...]) -> Any:
    """``element for variable in shape``, of an element that may read the variable."""
    variable = f"i{depth}"
    element = draw(kind(depth - 1, (*names, variable)))
    sequence = draw(shapes(depth - 1, names))
    return node(Each, element=element, variable=variable, sequence=sequence)


@st.composite
def shapes(draw: Any, depth: int = 2, names: tuple[str, ...] = ("M", "N")) -> Any:
    """An expression that is a tuple of ints."""
    way = draw(st.integers(0, 6)) if depth else draw(st.integers(0, 1))
    if way == 0:
        return name("S")
    inner = integers(max(depth - 1, 0), names)
    if way == 1:
        return node(TupleOf, items=tuple(draw(st.lists(inner, max_size=3))))
    shape = shapes(depth - 1, names)
    if way == 2:
        bounds = [draw(st.none() | inner) for _ in range(2)]
        return node(Slice, value=name("S"), start=bounds[0], stop=bounds[1])
    if way == 3:
        items = st.lists(inner | shape.map(lambda s: node(Splice, value=s)), max_size=3)
        return node(Axes, items=tuple(draw(items)))
    if way == 4:
        return node(
            Call, function="broadcast", args=tuple(draw(st.lists(shape, min_size=1, max_size=2)))
        )
    if way == 5:
        mode = node(Const, value=draw(st.sampled_from(["full", "noop", "reject"])))
        args = (draw(shape), name("dim"), draw(booleans(depth - 1, names)), mode)
        return node(Call, function="reduced", args=args)
    condition = draw(booleans(depth - 1, names))
    return node(IfElse, condition=condition, then=draw(shape), otherwise=draw(shape))


@st.composite
def floats(draw: Any, depth: int, names: tuple[str, ...]) -> Any:
    """An expression that is a float."""
    way = draw(st.integers(0, 3 if depth else 1))
    if way == 0:
        value = draw(st.sampled_from([0.0, 0.5, 1e-30, 1e300, math.inf]))
        return node(Const, value=value)
    if way == 1:
        return name("eps")
    if way == 2:
        return node(Unary, op="-", operand=draw(floats(depth - 1, names)))
    left, right = (draw(integers(depth - 1, names)) for _ in range(2))
    return node(Binary, op="/", left=left, right=right)


@st.composite
def dtypes(draw: Any) -> Any:
    """An expression that is a dtype."""
    way = draw(st.integers(0, 2))
    if way == 0:
        return name("U")
    constant = name(draw(st.sampled_from(["float16", "float32", "int8", "float8_e4m3fn"])))
    if way == 1:
        return constant
    return node(Call, function="promote_int_to_float", args=(constant,))


@st.composite
def booleans(draw: Any, depth: int = 2, names: tuple[str, ...] = ("M", "N")) -> Any:
    """An expression that is true or false."""
    if depth == 0:
        return draw(st.just(name("flag")) | st.booleans().map(lambda v: node(Const, value=v)))
    inner = booleans(depth - 1, names)
    way = draw(st.integers(0, 10))
    if way == 0:
        return node(Unary, op="not", operand=draw(inner))
    if way in (1, 2):
        items = tuple(draw(st.lists(inner, min_size=2, max_size=3)))
        return node(BoolOp, op=draw(st.sampled_from(["and", "or"])), items=items)
    if way in (3, 4):
        number = integers(depth - 1, names) | floats(depth - 1, names)
        relation = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
        rest = draw(st.lists(st.tuples(relation, number), min_size=1, max_size=3))
        return node(Compare, first=draw(number), rest=tuple(rest))
    if way == 5:
        words = st.sampled_from("abc").map(lambda v: node(Const, value=v))
        items = node(TupleOf, items=tuple(draw(st.lists(words, min_size=1, max_size=2))))
        op = draw(st.sampled_from(["in", "not in"]))
        return node(Compare, first=name("mode"), rest=((op, items),))
    if way == 6:
        op = draw(st.sampled_from(["==", "!="]))
        return node(Compare, first=draw(dtypes()), rest=((op, draw(dtypes())),))
    if way == 7:
        op = draw(st.sampled_from(["==", "!="]))
        sides = [draw(shapes(depth - 1, names)) for _ in range(2)]
        return node(Compare, first=sides[0], rest=((op, sides[1]),))
    if way == 8:
        subject = draw(st.sampled_from(["w", "p", "dim"]))
        return node(Call, function="present", args=(name(subject),))
    if way == 9:
        return node(Call, function="all", args=(_each(draw, booleans, depth, names),))
    function = draw(st.sampled_from(["valid_axes", "unique_axes"]))
    return node(Call, function=function, args=(draw(shapes(depth - 1, names)), name("dim")))


LENGTH = st.integers(0, 6)
ENVIRONMENTS = st.fixed_dictionaries(
    {
        "M": LENGTH,
        "N": LENGTH,
        "S": st.lists(LENGTH, max_size=3).map(tuple),
        "U": st.sampled_from([torch.float16, torch.float32]),
        "flag": st.booleans(),
        "mode": st.sampled_from("ab"),
        "eps": st.sampled_from([0.0, 1e-5, -2.5, math.inf]),
        "p": st.none() | LENGTH,
        "dim": st.none() | st.integers(-3, 3) | st.lists(st.integers(-3, 3), max_size=2).map(tuple),
        "w": st.none() | st.just(spec()),
        "bytes of x": LENGTH,
        "bytes of y": LENGTH,
    }
)


@PROFILE
@given(integers() | booleans() | shapes(), st.lists(ENVIRONMENTS, min_size=3, max_size=3))
def test_an_expression_has_the_value_that_its_nodes_say(expr, environments):
    for env in environments:
        assert outcome(written, expr, env) == outcome(value_of, expr, env)


def test_random_expressions_are_made_of_every_node():
    """But FamilyUse, which is expanded before anything is written."""
    met: set[type[Expr]] = set()

    @settings(PROFILE, max_examples=200)
    @given(integers() | booleans() | shapes())
    def collect(expr: Expr) -> None:
        met.update(type(part) for part in expr.walk())

    collect()
    known = {sort for sort in vars(nodes).values() if isinstance(sort, type)}
    every = {sort for sort in known if issubclass(sort, Expr)} - {Expr, nodes.FamilyUse}
    assert met == every


# -- spelling -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 - 3 - 4", -5),
        ("2 - (3 - 4)", 3),
        ("-M ** 2", -9),
        ("(-M) ** 2", 9),
        ("-7 // 2", -4),
        ("-(7 // 2)", -3),
        ("-7 % 3", 2),
        ("M * N + 1 if M > N else 0", 7),
        ("(1 if M > N else 2) * 3", 3),
        ("1 if M < N else 2 if M < 2 else 3", 3),
        ("sum(i for i in (M, N, 4))", 9),
        ("sum(i * M for i in (M, N))", 15),
        ("max(i % 2 for i in (M, N))", 1),
        ("len(S[0:1] if M > 0 else S)", 1),
        ("S[0] + S[-1]", 13),
        ("prod(S[1:]) + prod(S[:0])", 9),
        ("(M, N)[1]", 2),
    ],
)
def test_precedence_is_pythons(text, value):
    checks = plan("M N *S", {"x": "[M, N, *S]"}, let={"L": text})
    known = dict(zip(checks.static_names, statics(checks), strict=True))
    assert {**known, **solved(checks, {"x": spec(3, 2, 5, 8)})}["L"] == value


def test_a_generators_variable_is_its_own():
    checks = plan(
        "M", {"x": "[M]"}, let={"L": "sum(i + sum(j * i for j in (1, 2)) for i in (M, 1))"}
    )
    assert solved(checks, {"x": spec(5)})["L"] == 5 + 15 + 1 + 3


def test_a_float_keeps_all_its_digits():
    checks = plan("M", {"x": "[M]"}, let={"L": "0.1 + 1e-30 if M > 1 else 1e300"})
    assert solved(checks, {"x": spec(5)})["L"] == 0.1 + 1e-30
    assert solved(checks, {"x": spec(1)})["L"] == 1e300


def test_infinity_is_written_as_a_value():
    checks = plan("M", {"x": "[M]"}, shape_rules=["-inf < M < inf"])
    assert "_inf" in checks.source
    solved(checks, {"x": spec(5)})
