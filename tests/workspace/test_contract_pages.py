"""The pages about the contract are what the entries say, and read as Markdown everywhere."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tileops_core.pages.__main__ import FOLDER
from tileops_core.pages.manifest import Manifest, read_manifest
from tileops_core.pages.markdown import anchor
from tileops_core.pages.pages import INDEX, family_page, index_page

REMEDY = "run python -m tileops_core.pages"
NAMES = sorted(path.name for path in FOLDER.glob("*.md"))
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PLAIN = {
    "bullet_list", "fence", "heading", "inline", "list_item", "paragraph",
    "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip
INLINE = {"code_inline", "link", "softbreak", "strong", "text"}


@cache
def manifest() -> Manifest:
    return read_manifest(Path(str(files("tileops_manifest"))) / "spec")


@cache
def tokens(name: str) -> list[Token]:
    return READER.parse((FOLDER / name).read_text(encoding="utf-8"))


def kind(token: Token) -> str:
    return token.type.removesuffix("_open").removesuffix("_close")


def shown(token: Token) -> str:
    parts = (" " if part.type == "softbreak" else part.content for part in token.children or ())
    return "".join(parts) or token.content


def anchors(name: str) -> list[str]:
    heads = [i for i, token in enumerate(tokens(name)) if token.type == "heading_open"]
    return [anchor(tokens(name)[i + 1].content) for i in heads]


def test_there_is_a_page_for_every_family_and_no_other() -> None:
    due = [INDEX, *(f"{family.name}.md" for family in manifest().families)]
    assert sorted(due) == NAMES, REMEDY


def test_the_index_is_what_the_entries_say() -> None:
    assert (FOLDER / INDEX).read_text(encoding="utf-8") == index_page(manifest()), REMEDY


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*NAMES} - {INDEX}))
def test_a_page_is_what_the_entries_say(name: str) -> None:
    (family,) = (family for family in manifest().families if f"{family.name}.md" == name)
    assert (FOLDER / name).read_text(encoding="utf-8") == family_page(family, manifest()), REMEDY


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_no_markup_but_its_own(name: str) -> None:
    """No HTML, and no sign of mathematics that reads as markup."""
    found = {kind(token) for token in tokens(name)}
    inside = {kind(child) for token in tokens(name) for child in token.children or ()}
    assert (found - PLAIN, inside - INLINE) == (set(), set())


@pytest.mark.parametrize("name", NAMES)
def test_headings_of_a_page_are_distinct_and_skip_no_level(name: str) -> None:
    levels = [int(token.tag[1]) for token in tokens(name) if token.type == "heading_open"]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    if name != INDEX:
        assert len(set(anchors(name))) == len(levels)


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_a_page_leads_somewhere(name: str) -> None:
    for token in tokens(name):
        for child in token.children or ():
            if child.type == "link_open":
                file, _, place = str(child.attrs["href"]).partition("#")
                target = FOLDER / (file or name)
                assert target.is_file(), child.attrs
                assert not place or place in anchors(target.name), child.attrs


def test_the_mathematics_of_every_entry_is_on_its_page_word_by_word() -> None:
    for family in manifest().families:
        inlines = (t for t in tokens(f"{family.name}.md") if t.type in ("inline", "fence"))
        words = " ".join(" ".join(map(shown, inlines)).split())
        for entry in family.entries:
            said = re.sub(r"\s+", " ", " ".join(entry.mathematics)).strip()
            assert said in words, entry.op


def test_the_example_on_the_index_is_what_a_page_has() -> None:
    (example,) = re.findall(r"```text\n(.*?)```", (FOLDER / INDEX).read_text(), re.DOTALL)
    assert example in (FOLDER / "gemm.md").read_text()
