"""The decisions: numbered without gaps, and each in the index."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
FILES = sorted(path for path in FOLDER.iterdir() if path.name != "README.md")


def test_they_are_numbered_from_001_without_gaps() -> None:
    assert [path.name[:4] for path in FILES] == [f"{n:03d}-" for n in range(1, len(FILES) + 1)]


def test_a_title_begins_with_the_files_number() -> None:
    for path in FILES:
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:3]}: "), path.name


def test_the_index_has_one_line_for_each_with_its_title() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^- \[(\d+)\]\((.+?)\): (.+)$", index, re.MULTILINE)
    titles = {path.name: path.read_text(encoding="utf-8").splitlines()[0] for path in FILES}
    assert sorted(name for _, name, _ in lines) == sorted(titles)
    for number, name, title in lines:
        assert titles[name] == f"# {number}: {title}"
