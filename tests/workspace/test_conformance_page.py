"""The page about the conformance suite says what the suite does."""

from __future__ import annotations

import re
from pathlib import Path

from tileops_core.conformance.checks import ALL_COLUMNS
from tileops_core.conformance.outcomes import OUTCOMES
from tileops_core.conformance.xfails import Xfails

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_column_stands_there_with_its_reason():
    _, _, rest = TEXT.partition("<!-- columns -->\n")
    lines = rest.partition("<!-- end of columns -->")[0].splitlines()
    assert lines == [f"| {column} | {why} |" for column, why in ALL_COLUMNS.items()]


def test_every_outcome_stands_there():
    named = re.findall(r"^\| ([a-z, ]+) \|", TEXT.partition("## What is tried")[0], re.MULTILINE)
    words = {word for cell in named for word in cell.split(", ")}
    assert OUTCOMES.keys() <= words


def test_the_example_of_a_file_is_one(tmp_path):
    (example,) = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path / "xfails.txt"
    path.write_text(example)
    assert [line.reason for line in Xfails.read(path).lines] == [
        "ACME-17",
        "no launch of zero blocks yet",
    ]


def test_every_option_that_is_shown_exists():
    from tileops_core.cli.check_backend import check_backend

    known = {option for param in check_backend.params for option in param.opts}
    assert set(re.findall(r"check-backend .*?(--[a-z]+)", TEXT)) <= known
    plugin = (
        Path(check_backend.callback.__code__.co_filename).parents[1] / "conformance"
    ).joinpath("pytest_plugin.py")
    for option in set(re.findall(r"--tileops-[a-z]+", TEXT)):
        assert f'"{option}"' in plugin.read_text(encoding="utf-8")
