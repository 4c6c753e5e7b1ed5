"""The page about the command line is what the commands' help says."""

from __future__ import annotations

import command_line
import pytest
from click.testing import CliRunner

from tileops_core.cli import COMMANDS, tileops


def test_the_page_is_what_the_commands_say() -> None:
    remedy = "run python docs/extension/command_line.py"
    assert command_line.PAGE.read_text(encoding="utf-8") == command_line.page(), remedy


@pytest.mark.parametrize("command", COMMANDS)
def test_a_section_is_what_the_command_prints(command: str) -> None:
    done = CliRunner().invoke(
        tileops,
        [command, "--help"],
        prog_name="tileops",
        terminal_width=100,
        env={"COLUMNS": "100"},
    )
    assert f"```text\n{done.output}```\n" in command_line.page()
