from __future__ import annotations

from pathlib import Path

import pytest

from tileops_core.errors import ManifestError
from tileops_core.spans import Span
from tileops_core.spec.problems import CODES, MOST_STRAYS, Problems, first_strays


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_the_reader_is_provoked_by_a_test(code):
    tests = (path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert any(f'"{code}"' in text for text in tests)


def test_problems_are_raised_together_in_the_order_of_the_text():
    problems = Problems()
    problems.add("power", "second", Span("a.yaml", 9))
    problems.add("power", "first", Span("a.yaml", 2, 3, 1, "a: b"), "write c")
    with pytest.raises(ManifestError) as caught:
        problems.raise_if_any("XFwdOp")
    assert str(caught.value).splitlines() == [
        "XFwdOp: 2 problems in the entry",
        "first  [a.yaml:2, power]",
        "  2 | a: b",
        "        ^",
        "  hint: write c",
        "second  [a.yaml:9, power]",
    ]
    assert [problem.message for problem in caught.value.problems] == ["first", "second"]


def test_no_problem_raises_nothing():
    Problems().raise_if_any("XFwdOp")


def test_the_first_strays_are_told_and_how_many_more_there_are():
    found = list(range(MOST_STRAYS + 3))
    kept = list(first_strays(found))
    assert kept == [*((n, 0) for n in range(MOST_STRAYS)), (MOST_STRAYS, 3)]


def test_a_few_strays_are_all_told():
    found = list(range(MOST_STRAYS))
    assert list(first_strays(found)) == [(stray, 0) for stray in found]
