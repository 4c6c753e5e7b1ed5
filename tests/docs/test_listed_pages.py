"""Pages that their folder's index lists, and the side bar does not."""

from __future__ import annotations

import listed_pages
import pytest


def marked(page: str) -> str:
    source = ["# Title"]
    listed_pages.mark(None, page, source)
    return source[0]


@pytest.mark.parametrize("page", ["decisions/001-x", "contract/norm", "ops/RMSNormFwdOp"])
def test_a_page_of_such_a_folder_is_marked(page: str) -> None:
    assert marked(page) == "---\norphan: true\n---\n\n# Title"


@pytest.mark.parametrize("page", ["decisions/README", "contract/README", "ops/index", "concepts"])
def test_an_index_and_any_other_page_are_left_alone(page: str) -> None:
    assert marked(page) == "# Title"
