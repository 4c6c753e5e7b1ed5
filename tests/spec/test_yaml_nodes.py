from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tileops_core.spec import yaml_nodes
from tileops_core.spec.problems import Problems
from tileops_core.spec.yaml_nodes import Mapping, Scalar, Source, Trap, compose, convert, value_of


def read(text: str) -> tuple[Mapping, Problems]:
    source, problems = Source("test.yaml", text), Problems()
    node = convert(source, compose(source), problems)
    assert isinstance(node, Mapping)
    return node, problems


def scalar(text: str) -> Scalar:
    node, problems = read(f"key: {text}\n")
    assert not list(problems)
    value = node.entries["key"][1]
    assert isinstance(value, Scalar)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("0", 0),
        ("-17", -17),
        ("1.0e-6", 1e-6),
        ("0.5", 0.5),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("'inf'", "inf"),
        ("float16 | bfloat16", "float16 | bfloat16"),
        ("none", "none"),
        ("n", "n"),
        ("'on'", "on"),
        ('"1e5"', "1e5"),
        ("'null'", "null"),
    ],
)
def test_a_scalar_means_what_every_yaml_reader_says_it_means(text, value):
    read_value = value_of(scalar(text))
    assert read_value == value
    assert type(read_value) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("on", "off", "yes", "no", "On", "OFF", "Yes", "NO", "True", "FALSE"),
        *("None", "~", "Null", "NULL", ""),
        *("1e-5", "1e5", "1E-5", "1.0e5", "1.e-5", ".5", "1.", "+1", "+0.5"),
        *("010", "08", "0o10", "0x1F", "0b11", "1_000"),
        *("12:30", "1:30", "190:20:30.15", "2001-01-01", "2001-1-1 00:00:00"),
        *(".inf", "-.INF", ".nan", "=", "99999999999999999999"),
    ],
)
def test_yaml_1_1_traps_are_refused_with_what_to_write(text):
    """MAN-01, MAN-08."""
    with pytest.raises(Trap) as trap:
        value_of(scalar(text))
    assert any(word in str(trap.value) for word in ("write", "quote", "no value", "bits"))


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", None)])
def test_both_of_pyyamls_loaders_give_the_same_nodes(monkeypatch, loader):
    if loader is None:
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(yaml_nodes, "_LOADER", loader)
    node, problems = read("a: 1e5\nb: 'x'\nc: [1, \"2\"]\nd: >-\n  one\n  two\n")
    assert not list(problems)
    shown = {key: value for key, (_, value) in node.entries.items()}
    assert [shown["a"].plain, shown["b"].plain] == [True, False]
    assert [item.plain for item in shown["c"].items] == [True, False]
    assert shown["d"].text == "one two"


def test_a_duplicate_key_is_refused_and_both_places_are_named():
    _, problems = read("a: 1\nb: 2\na: 3\n")
    (problem,) = problems
    assert problem.code == "duplicate-key"
    assert problem.span.line == 3
    assert "line 1" in problem.message


@pytest.mark.parametrize("text", ["on: 1", "1: 2", "null: 1", "? [a, b]\n: 1", "1e5: 2"])
def test_a_key_is_text_in_every_yaml(text):
    _, problems = read(f"{text}\n")
    assert {problem.code for problem in problems} <= {"yaml-trap", "wrong-value"}
    assert list(problems)


@pytest.mark.parametrize(
    "text", ["&x [1, 2]", "!!str 5", "!!python/object/apply:os.system ['true']", "!own 1"]
)
def test_tags_and_anchors_are_refused(text):
    _, problems = read(f"a: {text}\n")
    assert [problem.code for problem in problems] == ["yaml-tag"]


def test_an_alias_is_refused_so_nothing_can_contain_itself():
    _, problems = read("a: &x\n  b: *x\nc: *x\n")
    assert {problem.code for problem in problems} == {"yaml-tag"}


def test_deep_nesting_is_refused_without_recursion():
    _, problems = read("a: " + "[" * 200 + "]" * 200 + "\n")
    assert [problem.code for problem in problems] == ["yaml-depth"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("key: one two\n", "two"),
        ("key: 'one two'\n", "two"),
        ('key: "one two"\n', "two"),
        ("key: one\n  two\n", "two"),
        ("key: >-\n  one\n\n  two\n", "two"),
        ("key: |\n  one\n  two\n", "two"),
        ("key: |  # a comment with two words\n  one\n  two\n", "two"),
    ],
)
def test_a_place_inside_text_points_at_these_characters(text, part):
    node, _ = read(text)
    value = node.entries["key"][1]
    span = value.place(value.text.index(part), len(part))
    line = text.splitlines()[span.line - 1]
    assert line[span.column - 1 : span.column - 1 + span.length] == part


def test_a_place_in_text_with_escapes_falls_back_to_the_whole_value():
    value = scalar(r'"one\ttwo"')
    assert value.place(4, 3) == value.span


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_as_yaml(text):
    source = Source("test.yaml", text)
    try:
        raw = compose(source)
    except (yaml.YAMLError, ValueError):
        return
    if raw is not None:
        convert(source, raw, Problems())
