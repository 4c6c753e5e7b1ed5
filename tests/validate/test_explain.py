"""What is said of each code is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileops_core.validate.codes import CODES
from tileops_core.validate.examples import EXAMPLES
from tileops_core.validate.explain import explain, explain_word, page
from tileops_core.validate.language import topics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "problems.md"
SOURCES = sorted((ROOT / "core" / "tileops_core").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
_STATED = re.compile(
    r"""(?:\.add|_note|note|Problem|GrammarError|Finding)\(\s*"([a-z][a-z0-9-]+)","""
)


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_has_its_fault(check, code):
    example = EXAMPLES[code]
    assert code in check(example.entry(example.wrong), code=True).codes


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_rewrite_of_an_example_has_no_fault(check, code):
    example = EXAMPLES[code]
    assert list(check(example.entry(example.right), code=True)) == []


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code):
    assert explain(code).startswith(f"{code}\n\n  {CODES[code]}")


def test_the_page_of_all_codes_is_fresh():
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(), "run python -m tileops_core.validate.explain"


def test_every_code_that_is_noted_somewhere_is_known():
    noted = {c for path in SOURCES for c in _STATED.findall(path.read_text(encoding="utf-8"))}
    assert len(noted) > len(CODES) // 2
    assert noted - CODES.keys() == set()


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_noted_somewhere(code):
    assert any(f'"{code}"' in path.read_text(encoding="utf-8") for path in SOURCES
               if path.name not in ("codes.py", "problems.py", "examples.py"))  # fmt: skip


@pytest.mark.parametrize("code", sorted(CODES.keys() - EXAMPLES.keys()))
def test_a_code_without_an_example_is_provoked_by_a_test(code):
    others = [path for path in TESTS if path != Path(__file__)]
    assert any(f'"{code}"' in path.read_text(encoding="utf-8") for path in others)


def test_a_word_is_explained_wherever_it_stands() -> None:
    text = explain_word("optional")
    assert text.count("\n\n  ") == 3
    for place in ("key of the input", "key of the stage", "key of the parameter that is a tensor"):
        assert f"optional ({place})" in text


def test_a_function_is_explained_with_its_arguments_examples_and_what_they_read() -> None:
    lines = explain_word("bytes").splitlines()
    assert lines[0] == "bytes (key of the roofline)"
    assert "bytes (primitive)" in lines
    assert "  bytes(tensor: a tensor) gives a length (an int of 0 or more)" in lines
    assert "    >>> bytes(x)" in lines
    assert "    12" in lines
    assert "  x is a tensor of float16 and shape [2, 3]" in lines


def test_lines_of_an_explanation_are_not_too_long() -> None:
    for topic in topics():
        assert max(map(len, explain_word(topic.name).splitlines())) <= 120
