"""Comments by their place."""

from __future__ import annotations

import pytest

from tileops_core.spec.comments import Comments
from tileops_core.spec.yaml_nodes import Source

TEXT = """\
# Of the file,
#
# in two paragraphs.

# Not of the file, nor of the op.

Op:
  # A formula:
  #   y = x
  # and what it means.
  family: acme  # not a line of its own
  let:
    # a quantity
    N: 1
    M: 2
  # the last line"""


@pytest.fixture
def comments() -> Comments:
    return Comments(Source("some.yaml", TEXT))


def line(text: str) -> int:
    return TEXT.splitlines().index(text) + 1


def test_the_comment_at_the_top_ends_at_the_first_other_line(comments) -> None:
    assert comments.at_top() == ("Of the file,", "", "in two paragraphs.")


def test_a_comment_below_a_key_keeps_what_it_is_indented(comments) -> None:
    assert comments.below(line("Op:")) == ("A formula:", "  y = x", "and what it means.")


def test_a_comment_above_a_key_is_in_the_order_of_the_file(comments) -> None:
    assert comments.above(line("    N: 1")) == ("a quantity",)
    assert comments.above(line("  family: acme  # not a line of its own")) == (
        "A formula:",
        "  y = x",
        "and what it means.",
    )


def test_what_stands_behind_a_value_is_no_comment_of_the_next_line(comments) -> None:
    assert comments.above(line("  let:")) == ()


def test_an_empty_line_lies_between_a_key_and_what_is_no_comment_of_it(comments) -> None:
    assert comments.above(line("Op:")) == ()


def test_the_ends_of_the_file_have_nothing_beyond_them(comments) -> None:
    assert comments.above(1) == ()
    assert comments.below(len(TEXT.splitlines())) == ()
    assert Comments(Source("empty.yaml", "")).at_top() == ()
