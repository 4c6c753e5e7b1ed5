"""Text as Markdown: read back by an implementation of CommonMark."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from tileops_core.pages.markdown import anchor, block, code, escaped, table

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(markdown: str) -> str:
    """What a reader sees of a paragraph; anything but text in it fails."""
    (paragraph,) = (t for t in READER.parse(markdown) if t.type == "inline")
    assert {child.type for child in paragraph.children} <= {"text", "softbreak"}
    return "".join(c.content if c.type == "text" else "\n" for c in paragraph.children)


@pytest.mark.parametrize(
    "text",
    [
        "D ** -0.5",
        "a*b*c",
        "**a** * b",
        "*S among axes",
        "_private_ and in_the_middle",
        "1 <= t < n, <b>bold</b>, <https://x.y>",
        "a `b` c",
        r"a \* b",
        "~a~ and ~~b~~",
        "$a$ and $$b$$",
        "k[n](x) and [a, b] and ![a](b)",
        "&lt; and &#65; and a & b",
        "|weight| < 0.5",
        "- a\n- b",
        "+ a",
        "* a",
        "a\n===",
        "a\n---",
        "a\n- b\n+ c\n1. d\n2) e\n# f\n> g\n= h",
        "2019). With",
        "-x; in integer dtypes",
        "# a",
        "#a",
        "> a",
        "% a",
        "1. a",
        "Σ_j exp(logit_j) · vᵀ, h_preᵀ X",
    ],
)
def test_text_reads_as_itself(text: str) -> None:
    assert shown(escaped(text)) == text


@pytest.mark.parametrize("text", ["D ** -0.5", "a_b <= c < d", "[*S]", "x | y", "-1, - 2"])
def test_what_means_nothing_is_not_escaped(text: str) -> None:
    assert escaped(text) == text.replace("[*", r"[\*")


@pytest.mark.parametrize("text", ["a | b", "`", "a`b", "**"])
def test_code_reads_as_itself(text: str) -> None:
    (inline,) = (t for t in READER.parse(code(text)) if t.type == "inline")
    assert [(c.type, c.content) for c in inline.children] == [("code_inline", text)]


def test_a_block_of_code_reads_as_itself() -> None:
    (fence,) = READER.parse("\n".join(block("a\n  b | c")))
    assert (fence.type, fence.info, fence.content) == ("fence", "text", "a\n  b | c\n")


def test_a_bar_does_not_end_a_cell() -> None:
    lines = table(["a", "b"], [[code("x | None"), escaped("|y|")]])
    cells = [t.children for t in READER.parse("\n".join(lines)) if t.type == "inline"]
    assert ["".join(c.content for c in cell) for cell in cells] == ["a", "b", "x | None", "|y|"]


def test_numbers_stand_to_the_right() -> None:
    assert table(["a", "b"], [["x", "1"]], numbers=1) == [
        "| a | b |",
        "| --- | ---: |",
        "| x | 1 |",
    ]


def test_a_heading_is_linked_as_github_does() -> None:
    assert anchor("RMSNormFwdOp") == "rmsnormfwdop"
    assert anchor("How to read `a_b`, please") == "how-to-read-a_b-please"
