"""What the README shows works as it shows it."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from tileops_core.cli import tileops
from tileops_core.errors import SignatureError

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
EXAMPLE, REFUSED = (text for language, text in BLOCKS if language == "python")
SHELL = [
    line.partition("#")[0].strip()
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
]


def test_the_example_runs_and_a_refused_call_is_refused_in_those_words() -> None:
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    call, told = REFUSED.strip().splitlines()
    error, _, message = told.removeprefix("# ").partition(": ")
    with pytest.raises(SignatureError) as caught:
        exec(call, names)
    assert error == "SignatureError"
    assert re.fullmatch(re.escape(message).replace(r":\.\.\.", r":\d+"), str(caught.value))


@pytest.mark.parametrize("command", [line for line in SHELL if line.startswith("tileops ")])
def test_a_command_that_is_shown_works(command: str) -> None:
    result = CliRunner().invoke(tileops, shlex.split(command)[1:], prog_name="tileops")
    assert result.exit_code == 0, result.output


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (line,) = (line for line in SHELL if line.endswith("nox -s tests"))
    for step in line.split(" && "):
        words = step.replace("python3", '"${PYTHON:-python3}"').replace(
            "install", "install --quiet"
        )
        assert words in ci, step


def test_every_folder_that_it_names_is_there() -> None:
    folders = re.findall(r"^\| `(\w+/)` \|", README, re.MULTILINE)
    assert folders
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_it_installs_all_four_distributions_in_one_command() -> None:
    (line,) = (line for line in SHELL if line.startswith("pip install"))
    named = {
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "name"
        ]
        for folder in line.split()[2:]
    }
    assert named == {"tileops-manifest", "tileops-core", "tileops-reference", "tileops-tilelang"}
