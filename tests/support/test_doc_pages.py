"""The reader of pages notices what a page says wrongly."""

from __future__ import annotations

from pathlib import Path

import doc_pages
import pytest


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Read a page of this text in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> int:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return doc_pages.Reader(page).read()

    return run


def test_the_blocks_of_a_page_share_their_names(read) -> None:
    assert read("```python\na = 1\n```\n\ntext\n\n```python\nassert a == 1\n```\n") == 2


def test_a_block_that_fails_fails_at_its_line_of_the_page(read) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        read("# T\n\n```python\na = 1\na / 0\n```\n")
    assert caught.traceback[-1].lineno + 1 == 5


def test_a_block_that_names_a_file_is_written_there_and_not_run(read, tmp_path: Path) -> None:
    assert read("```python\n# acme/kernels.py\n1 / 0\n```\n") == 0
    assert (tmp_path / "acme" / "kernels.py").read_text() == "# acme/kernels.py\n1 / 0\n"


def test_a_block_with_a_reason_is_not_run(read) -> None:
    assert read("```python\n# Not run: needs a device\n1 / 0\n```\n") == 0


def test_what_a_prompt_shows_is_compared(read) -> None:
    assert read("```pycon\n>>> [1, 2, 3]\n[1, ...]\n```\n") == 1
    with pytest.raises(doc_pages.Mismatch, match="Expected"):
        read("```pycon\n>>> 1 + 1\n3\n```\n")


def test_a_command_has_to_succeed(read) -> None:
    assert read("```sh\ntileops --version\nrm -r /nowhere\n```\n") == 1
    with pytest.raises(doc_pages.Mismatch, match="exits with 2"):
        read("```sh\ntileops nothing\n```\n")


def test_the_output_of_a_command_is_what_is_shown(read) -> None:
    assert read("```console\n$ tileops --version\ntileops ...\n```\n") == 1
    with pytest.raises(doc_pages.Mismatch, match="and not"):
        read("```console\n$ tileops --version\nsomething else\n```\n")


def test_an_installed_project_is_found_by_its_entry_points(read, tmp_path: Path) -> None:
    read(
        '```toml\n# pyproject.toml\n[project]\nname = "tileops-acme"\nversion = "0.1"\n\n'
        '[project.entry-points."tileops.backends"]\nacme = "tileops_acme"\n```\n\n'
        "```sh\npip install -e .\n```\n"
    )
    text = (tmp_path / "tileops_acme-0.1.dist-info" / "entry_points.txt").read_text()
    assert text == "[tileops.backends]\nacme = tileops_acme\n"


def test_links_outside_of_code_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](b.md#c) [d](#e) [f](https://g) `[h](i.md)`\n\n```text\n[j](k.md)\n```\n")
    assert doc_pages.links(page) == ["b.md"]
