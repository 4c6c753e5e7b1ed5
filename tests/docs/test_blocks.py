"""What the docs show works as they show it. The README has tests of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import doc_pages
import pytest

DOCS = Path(__file__).parents[2] / "docs"
GENERATED = ("_build", "ops")
PAGES = {
    path.relative_to(DOCS).as_posix(): path
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).parts[0] not in (*GENERATED, "decisions")
}
SHOWN = {"text", "toml", "yaml", "{eval-rst}", "{toctree}"}
"""What is shown and not run."""

BLOCKS = {name: doc_pages.blocks(path) for name, path in PAGES.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, blocks in BLOCKS.items() if any(b.runs for b in blocks)]
)
def test_a_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, doc_pages.__file__, str(PAGES[name])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_block_is_run_or_is_of_a_language_that_is_only_shown() -> None:
    """None escapes by a language that the runner does not know."""
    known = {*SHOWN, *doc_pages.RUN}
    stray = [(name, b.line, b.language) for name, bs in BLOCKS.items() for b in bs]
    assert [found for found in stray if found[2] not in known] == []


def test_blocks_that_are_not_run_say_why_and_are_few() -> None:
    reasons = [b.reason for blocks in BLOCKS.values() for b in blocks if b.reason is not None]
    assert sorted(reasons) == [
        "acme stands for your backend",
        "acme stands for your backend",
        "measures the machine for seconds, which tells about the machine and not about the page",
    ]


def test_every_link_to_a_file_leads_to_one() -> None:
    """As GitHub follows them; links to ops lead to pages that the site's build makes."""
    stray = []
    for name, path in PAGES.items():
        for target in doc_pages.links(path):
            file = (path.parent / target).resolve()
            if not file.exists() and file.parent != DOCS / "ops":
                stray.append((name, target))
    assert stray == []
