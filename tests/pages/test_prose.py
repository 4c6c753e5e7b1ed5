"""Comments as prose."""

from __future__ import annotations

from tileops_core.pages.prose import first_sentence, paragraphs


def nowhere(op: str) -> None:
    return None


def test_a_comment_is_a_paragraph_with_its_lines() -> None:
    assert paragraphs(("a *b*", "c."), nowhere) == [r"a \*b\*", "c."]


def test_an_empty_line_ends_a_paragraph() -> None:
    assert paragraphs(("a", "", "b"), nowhere) == ["a", "", "b"]


def test_what_is_indented_is_code() -> None:
    assert paragraphs(("With p:", "  y = *x", "    + 1", "b"), nowhere) == [
        "With p:",
        "",
        "```text",
        "y = *x",
        "  + 1",
        "```",
        "",
        "b",
    ]


def test_code_at_the_end_has_no_line_behind_it() -> None:
    assert paragraphs(("a", "  b"), nowhere)[-1] == "```"


def test_no_comment_is_no_line() -> None:
    assert paragraphs((), nowhere) == []


def test_a_known_op_is_linked_wherever_it_is_named() -> None:
    known = {"AddFwdOp": "math.md#addfwdop"}
    assert paragraphs(("AddFwdOp's o, (AddFwdOp), MulFwdOp",), known.get) == [
        "[AddFwdOp](math.md#addfwdop)'s o, ([AddFwdOp](math.md#addfwdop)), MulFwdOp"
    ]


def test_the_first_sentence_ends_at_a_period() -> None:
    assert first_sentence(("Sum over the", "axes. More.")) == "Sum over the axes"


def test_numbers_and_ranges_do_not_end_a_sentence() -> None:
    assert first_sentence(("p = 0.5 among 0 .. n. More.",)) == "p = 0.5 among 0 .. n"


def test_abbreviations_do_not_end_a_sentence() -> None:
    assert first_sentence(("As in He et al. 2015, e.g. here. More.",)) == (
        "As in He et al. 2015, e.g. here"
    )


def test_what_is_indented_ends_a_sentence() -> None:
    assert first_sentence(("With p:", "  y = x", "b")) == "With p"


def test_a_long_sentence_is_cut_behind_a_clause() -> None:
    text = f"It takes {'a long while ' * 5}(or, so, it, seems), {'and goes on and on ' * 9}"
    assert first_sentence((text,)) == f"It takes {'a long while ' * 5}(or, so, it, seems) …"


def test_a_long_sentence_of_one_clause_is_cut_behind_a_word() -> None:
    cut = first_sentence(("word " * 60,))
    assert cut.removesuffix(" …") in "word " * 60
    assert cut.endswith("word …")


def test_a_comment_without_prose_has_no_sentence() -> None:
    assert first_sentence(()) == ""
    assert first_sentence(("  y = x",)) == ""
