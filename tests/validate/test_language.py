"""What is said of the language's words is true, and is said of all of them."""

from __future__ import annotations

import re

import pytest

from tileops_core.signature.generators import GENERATORS
from tileops_core.signature.predicates import PREDICATES
from tileops_core.signature.primitives import PRIMITIVES
from tileops_core.signature.types import TypeTextError, index_kind, param_kind
from tileops_core.signature.values import LISTS
from tileops_core.validate.language import FUNCTIONS, SAMPLES, Topic, topics, topics_named, value_of
from tileops_core.validate.words import INDEX_KINDS, PARAMETER_TYPES

TOPICS = topics()
EXAMPLES = [(topic, *example) for topic in TOPICS for example in topic.examples]
OF_FUNCTIONS = [topic for topic in TOPICS if topic.group in FUNCTIONS]


@pytest.mark.parametrize(
    ("topic", "text", "value"), EXAMPLES, ids=[f"{t.group}: {text}" for t, text, _ in EXAMPLES]
)
def test_an_example_has_the_value_that_stands_below_it(topic: Topic, text: str, value: str) -> None:
    assert value_of(topic, text) == value


def test_every_function_is_explained() -> None:
    assert [topic.name for topic in OF_FUNCTIONS] == [
        *PRIMITIVES, *GENERATORS, *PREDICATES, *LISTS
    ]  # fmt: skip


@pytest.mark.parametrize("topic", OF_FUNCTIONS, ids=lambda topic: topic.name)
def test_a_function_says_what_it_takes_what_it_means_and_shows_it(topic: Topic) -> None:
    assert topic.signature.startswith(f"{topic.name}(")
    assert topic.brief.endswith(".")
    assert any(not value.startswith("refused") for _, value in topic.examples)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: f"{topic.group}: {topic.name}")
def test_a_word_is_explained_in_sentences(topic: Topic) -> None:
    for part in topic.meaning:
        assert part.startswith("- ") or part.endswith(".")
    assert "``" not in "".join(topic.meaning)


def test_a_function_that_refuses_values_shows_which() -> None:
    refusing = {topic.name for topic in OF_FUNCTIONS
                for _, value in topic.examples if value.startswith("refused")}  # fmt: skip
    assert {
        "broadcast",
        "reduced",
        "per_axis",
        "ceil_div",
        "max",
        "conv.out",
        "in_range",
    } <= refusing


def test_the_kinds_of_arguments_and_result_are_told() -> None:
    (topic,) = topics_named("per_axis")
    assert topic.signature == (
        "per_axis(value: an int or a value per axis, axis: an int, count: an int, fallback=an int) "
        "gives an int"
    )
    (topic,) = topics_named("max")
    assert topic.signature == (
        "max(value: a number, value: a number, ...) or max(values: a sequence of numbers) gives "
        "a number"
    )


def test_a_random_generator_says_that_it_draws() -> None:
    for name, generator in GENERATORS.items():
        (topic,) = topics_named(name)
        assert any("seed" in part for part in topic.meaning) == generator.random


def test_examples_read_samples_and_all_of_them_are_read() -> None:
    text = " ".join(text for _, text, _ in EXAMPLES)
    assert [name for name in SAMPLES if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize(
    "example", ["broadcast(Q)", "broadcast(1)", "nothing(1)", "prod(S"], ids=str
)
def test_an_example_outside_the_language_has_no_value(example: str) -> None:
    (topic,) = topics_named("broadcast")
    with pytest.raises(Exception, match=r"."):
        value_of(topic, example)


def test_the_kinds_that_are_explained_are_kinds() -> None:
    for text in INDEX_KINDS:
        index_kind(text.replace("a | b", "float16 | float32"))
    for text in PARAMETER_TYPES:
        if "types.yaml" in text or "opaque" in text:
            with pytest.raises(TypeTextError):
                param_kind(text)
        else:
            param_kind(text)
