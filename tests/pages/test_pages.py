"""Pages as a whole."""

from __future__ import annotations

from tileops_core.pages.pages import INDEX, pages


def test_there_is_a_page_for_every_family_and_one_that_leads_to_them(manifest) -> None:
    assert list(pages(manifest)) == [INDEX, "acme.md", "other.md"]


def test_a_page_has_every_file_and_every_op_of_its_family(manifest) -> None:
    lines = pages(manifest)["acme.md"].splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "# acme",
        "## acme.yaml",
        "### AcmeScaleFwdOp",
        "## acme_shard.yaml",
        "### AcmeTileFwdOp",
        "## types.yaml",
        "### Epilogue",
        "### Layout",
    ]


def test_a_page_counts_its_ops(manifest) -> None:
    assert "\n2 ops, 1 of them implemented. " in pages(manifest)["acme.md"]


def test_a_page_begins_with_its_ops_in_short(manifest) -> None:
    row = "| [AcmeScaleFwdOp](#acmescalefwdop) | factor · x, and then AcmeTileFwdOp | implemented |"
    assert row in pages(manifest)["acme.md"].splitlines()


def test_types_that_no_op_of_a_family_has_are_not_on_its_page(manifest) -> None:
    assert "types.yaml" not in pages(manifest)["other.md"]


def test_the_index_counts_ops_by_family(manifest) -> None:
    lines = pages(manifest)[INDEX].splitlines()
    assert "| [acme](acme.md) | 2 | 1 |" in lines
    assert "| [other](other.md) | 1 | 0 |" in lines


def test_the_index_leads_to_every_op(manifest) -> None:
    lines = pages(manifest)[INDEX].splitlines()
    assert "| [OtherFwdOp](other.md#otherfwdop) |  | spec-only |" in lines


def test_pages_are_the_same_whenever_they_are_made(manifest) -> None:
    assert pages(manifest) == pages(manifest)
