"""What everything in the language means: the page of the docs, and ``--explain``, are made of it.

The meanings stand where the words are defined: keys in :mod:`tileops_core.spec.keys`, functions in
their docstrings, the rest in :mod:`tileops_core.validate.words`. Examples are in the language and
are evaluated here, with the few names of :data:`SAMPLES`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import attrs

from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.generators import GENERATORS, Generator
from tileops_core.signature.kinds import (
    ANY_DTYPE,
    DIM,
    FLOAT,
    INT,
    SEQ,
    SHAPE,
    TENSOR,
    DTypeKind,
    EnumKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    TupleKind,
    is_int,
)
from tileops_core.signature.metadata import ROW_FUNCTIONS
from tileops_core.signature.predicates import PREDICATES, Predicate
from tileops_core.signature.primitives import (
    PRIMITIVES,
    Primitive,
    PrimitiveError,
    joined_number,
)
from tileops_core.signature.problems import Problems
from tileops_core.signature.shared_kinds import kind_of
from tileops_core.signature.types import describe
from tileops_core.signature.values import LISTS
from tileops_core.spans import NOWHERE
from tileops_core.spec import keys
from tileops_core.spec.catalogue import shared_types
from tileops_core.spec.entries import AdtValue
from tileops_core.spec.expressions import Call, Expr
from tileops_core.spec.grammar import parse_expression
from tileops_core.validate import words

_SEED = "docs"
_LAYOUT = "MGroupedLayout"
_ALIGNED = (("packing", "aligned"), ("metadata_kind", "physical_psum"), ("alignment", 4))


@attrs.frozen
class Sample:
    """A name of the examples: what it is in words, its kind, and its value."""

    said: str
    kind: Kind | str
    value: Any


SAMPLES: Mapping[str, Sample] = {
    "M": Sample("the length 6", DIM, 6),
    "S": Sample("the shape (2, 3)", SHAPE, (2, 3)),
    "T": Sample("the dtype float16", DTypeKind(("float16", "float32")), "float16"),
    "mode": Sample("the word 'a'", EnumKind(("a", "b", "c")), "a"),
    "cap": Sample("a parameter that may be None, and is 5", MaybeKind(INT), 5),
    "dtype": Sample("a dtype parameter that is None", MaybeKind(ANY_DTYPE), None),
    "stride": Sample("a parameter per axis that is None", MaybeKind(IntTupleKind(2)), None),
    "x": Sample("a tensor of float16 and shape [2, 3]", TENSOR, ("float16", (2, 3))),
    "w": Sample("an optional tensor that is not passed", TENSOR, None),
    "lengths": Sample("the list [2, 0, 3]", SEQ, (2, 0, 3)),
    "cached": Sample("the list [4, 5]", SEQ, (4, 5)),
    "sizes": Sample("a tensor that holds [2, 0, 3]", TENSOR, [2, 0, 3]),
    "offsets": Sample("a tensor that holds [0, 2, 2, 5]", TENSOR, [0, 2, 2, 5]),
    "masked": Sample("{masked: {max_m: 8}}", _LAYOUT, AdtValue("masked", (("max_m", 8),))),
    "aligned": Sample(
        "{contiguous: {packing: aligned, metadata_kind: physical_psum, alignment: 4}}",
        _LAYOUT,
        AdtValue("contiguous", _ALIGNED),
    ),
}
"""The names that examples read."""

_OPTIONAL = frozenset({"w"})


@attrs.frozen
class Topic:
    """One word of the language.

    Args:
        group: what sort of word it is.
        name: the word.
        meaning: what it means, paragraph by paragraph; the first begins with one sentence.
        examples: texts in the language, each with its value.
        signature: of a function: how it is called, with the kinds of what it takes and gives.
    """

    group: str
    name: str
    meaning: tuple[str, ...]
    examples: tuple[tuple[str, str], ...] = ()
    signature: str = ""

    @property
    def brief(self) -> str:
        """The first sentence."""
        return re.split(r"(?<=\.)\s", self.meaning[0], maxsplit=1)[0]


_WORDS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("key of the entry", keys.ENTRY),
    ("key of the signature", keys.SIGNATURE),
    ("key of the parameter", keys.PARAM),
    ("key of the parameter that is a tensor", keys.TENSOR_PARAM),
    ("key of the input", keys.INPUT),
    ("key of the output", keys.OUTPUT),
    ("key of the type family", keys.FAMILY),
    ("key of the case", keys.CASE),
    ("key of the roofline", keys.ROOFLINE),
    ("key of the composition", keys.COMPOSITION),
    ("key of the stage", keys.STAGE),
    ("key of the row", keys.ROW),
    ("condition", words.CONDITIONS),
    ("kind of an index", words.INDEX_KINDS),
    ("type of a parameter", words.PARAMETER_TYPES),
    ("key of the form in types.yaml", keys.CONSTRUCTOR),
    ("case of a type family", words.CASES),
    ("expression", words.EXPRESSIONS),
    ("operator", words.OPERATORS),
)

FUNCTIONS: Mapping[str, Mapping[str, Primitive] | Mapping[str, Generator] | Mapping[str, Predicate]]
FUNCTIONS = {
    "primitive": PRIMITIVES,
    "generator": GENERATORS,
    "predicate": PREDICATES,
    "function of lists in rows": LISTS,
}
"""The functions of the language, by what they are for."""


@cache
def topics() -> tuple[Topic, ...]:
    """Every word of the language, in the order to read about them."""
    plain = (
        Topic(group, name, *_parts(text)) for group, table in _WORDS for name, text in table.items()
    )
    return (*plain, *_functions())


def topics_named(word: str) -> tuple[Topic, ...]:
    """What a word means, wherever it stands."""
    return tuple(topic for topic in topics() if topic.name == word)


def _parts(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The paragraphs of a text, and its examples."""
    said, *shown = re.split(r"^>>> ", inspect.cleandoc(text), flags=re.MULTILINE)
    paragraphs = tuple(_paragraph(p) for p in said.replace("``", "`").strip().split("\n\n"))
    examples = (example.partition("\n") for example in shown)
    return paragraphs, tuple((text, value.strip()) for text, _, value in examples)


def _paragraph(text: str) -> str:
    """A paragraph in one line; of a list of arguments one line for each."""
    if not text.startswith("Args:"):
        return " ".join(text.split())
    arguments = re.sub(r"\n {4}(\w+): ", r"\n\n\1: ", text.removeprefix("Args:"))
    lines = [" ".join(part.split()) for part in arguments.split("\n\n") if part.strip()]
    return "\n".join(f"- `{name}`: {said}" for name, _, said in (x.partition(": ") for x in lines))


def samples_in(topic: Topic) -> tuple[str, ...]:
    """The samples that the examples of a topic read."""
    found = {name for text, _ in topic.examples for name in re.findall(r"[a-zA-Z]\w*", text)}
    return tuple(name for name in SAMPLES if name in found)


# -- functions ----------------------------------------------------------------------------


def _functions() -> Iterator[Topic]:
    for group, table in FUNCTIONS.items():
        for function in table.values():
            if isinstance(function, Primitive):
                text = function.doc or inspect.getdoc(function.run)
            else:
                code = function.check if isinstance(function, Predicate) else function.run
                text = inspect.getdoc(code)
            meaning, examples = _parts(text or "")
            if isinstance(function, Generator) and function.random:
                meaning = (*meaning, "What is drawn depends on the seed of the workload.")
            called = function.usage
            if isinstance(function, Primitive) and group == "primitive":
                called += f" gives {_result(function, [text for text, _ in examples])}"
            yield Topic(group, function.name, meaning, examples, called)


# -- examples -----------------------------------------------------------------------------


def value_of(topic: Topic, example: str) -> str:
    """The value of an example, as the language would have it.

    Raises:
        ValueError: The example is not in the language, or reads what is no sample.
    """
    values, _, text = example.rpartition("]: ") if topic.group == "predicate" else ("", "", example)
    expr = _parsed(text)
    try:
        if topic.group == "predicate":
            return _verdict(ast.literal_eval(f"{values}]"), expr)
        if topic.group == "generator":
            call, args = _arguments(expr, GENERATORS)
            return str(_in_lists(GENERATORS[call].values(args, _SEED)))
        value, kind = evaluate(expr, _VALUES), _kind(expr)
    except PrimitiveError as error:
        return f"refused: {error}"
    if topic.group == "function of lists in rows":
        return str(_in_lists(value))
    return value if isinstance(kind, DTypeKind) else repr(value)


_VALUES = {name: sample.value for name, sample in SAMPLES.items()}


def _parsed(text: str) -> Expr:
    return parse_expression(text, lambda offset, length: NOWHERE)


def _verdict(values: Any, expr: Expr) -> str:
    call, args = _arguments(expr, PREDICATES)
    wrong = PREDICATES[call].check(values, *args)
    if wrong is None:
        return "holds"
    place = "".join(f"[{i}]" for i in wrong.place)
    return f"refused: {f'{place} is ' if place else ''}{wrong.value}, {wrong.message}"


def _arguments(
    expr: Expr, known: Mapping[str, Generator] | Mapping[str, Predicate]
) -> tuple[str, list[Any]]:
    if not isinstance(expr, Call) or expr.function not in known:
        raise ValueError(f"{expr} calls nothing that is known here")
    formal = known[expr.function].args
    for arg, argument in zip(expr.args, formal, strict=True):
        kind = _kind(arg)
        if not argument.accepts(kind):
            raise ValueError(f"{describe(kind)} is given, {argument.noun} is due")
    return expr.function, [evaluate(arg, _VALUES) for arg in expr.args]


def _kind(expr: Expr) -> Kind:
    problems = Problems()
    scope = Scope(_kinds(), problems, _OPTIONAL, costs=True, functions=ROW_FUNCTIONS)
    kind = Checker(scope).kind(expr)
    if kind is None or len(problems):
        raise ValueError("; ".join(problem.message for problem in problems))
    return kind


@cache
def _kinds() -> Mapping[str, Kind]:
    declared = shared_types().get(_LAYOUT)
    assert declared is not None
    layout, _ = kind_of(declared)
    return {
        name: layout if isinstance(sample.kind, str) else sample.kind
        for name, sample in SAMPLES.items()
    }


def _result(function: Primitive, examples: list[str]) -> str:
    """What a function gives, in words that fit whatever it takes."""
    kinds = [_kind(_parsed(example)) for example in examples]
    if all(map(is_int, kinds)):
        takes = [argument for argument in (*function.args, function.rest) if argument]
        any_number = any(a.accepts(TupleKind((FLOAT,))) or a.accepts(FLOAT) for a in takes)
        return "a number" if any_number else describe(joined_number(kinds))
    return "a dtype" if isinstance(kinds[0], DTypeKind) else describe(kinds[0])


def _in_lists(values: Any) -> Any:
    return [_in_lists(item) for item in values] if isinstance(values, (list, tuple)) else values
