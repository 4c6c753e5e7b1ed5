"""Places, and how they are shown."""

from __future__ import annotations

import pytest

from tileops_core.spans import WIDEST, Span


def test_a_place_in_a_file_is_shown_with_its_line_and_a_caret() -> None:
    span = Span("spec/norm.yaml", 12, 5, 3, "  x: abc")
    assert (span.short, span.place) == ("norm.yaml:12", "spec/norm.yaml:12:5")
    assert span.where == "on line 12"
    assert span.snippet().splitlines() == ["12 |   x: abc", "         ^^^"]


def test_a_file_as_a_whole_has_no_line() -> None:
    span = Span("spec/norm.yaml", 0)
    assert (span.short, span.place, span.snippet()) == ("norm.yaml", "spec/norm.yaml", "")


def test_a_place_in_python_is_the_path_of_keys() -> None:
    span = Span("<spec of X>", 7, 8, 1, "shape: Q", "signature.inputs.x.shape")
    assert span.short == "signature.inputs.x.shape"
    assert span.place == "<spec of X> signature.inputs.x.shape"
    assert span.where == "at signature.inputs.x.shape"
    assert span.snippet().splitlines() == ["shape: Q", "       ^"]


def test_carets_stand_below_text_that_follows_a_tab() -> None:
    text, carets = Span("a", 1, 3, 1, "\tx").snippet().splitlines()
    assert carets.index("\t") == text.index("\t")


@pytest.mark.parametrize("column", [1, 150, 5_000, 99_990])
def test_of_a_very_long_line_the_part_around_the_place_is_shown(column: int) -> None:
    line = "".join(str(i % 10) for i in range(100_000))
    text, carets = Span("a", 1, column, 2, line).snippet().splitlines()
    assert len(text) < WIDEST + 20
    assert text[carets.index("^") :][: carets.count("^")] == line[column - 1 :][:2]
