"""What holds of every command, those to come included."""

from __future__ import annotations

import errno
import io
import json
import sys

import click
import pytest

from tileops_core.cli import COMMANDS, tileops

FACTS = {
    "doctor": [],
    "ops": ["--family", "norm"],
    "show": ["RMSNormFwdOp"],
    "explain": ["RMSNormFwdOp", "--shape", "x=float32[2,8]", "--param", "normalized_shape=8"],
    "bench": ["ReLUFwdOp", "--case", "opt-1.3b-ffn-float16", "--max-elements", "64"],
    "check-backend": ["reference", "--op", "TanhFwdOp", "--quick"],
    "new-backend": ["acme"],
    "validate": ["--no-code"],
}
"""Arguments with which each command has something to print, and nothing to complain about."""

MISUSES = {
    "an option that there is not": ["--no-such-option"],
    "an argument too many": ["a", "b", "c", "d"],
}

every_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder to write into, and no measurement that takes long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tileops_core.cli.bench.measure", lambda run, device: run() or 0.5)


def test_each_has_its_line_here() -> None:
    assert set(FACTS) == set(COMMANDS)


@every_command
def test_help_says_what_it_does_and_every_option_what_it_is_for(run, command) -> None:
    for flag in ("--help", "-h"):
        result = run(command, flag)
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: tileops {command} [OPTIONS]")
    found = tileops.get_command(click.Context(tileops), command)
    assert found.help
    assert all(p.help for p in found.params if isinstance(p, click.Option))


@every_command
def test_what_it_found_is_json_on_request_and_nothing_else(run, command) -> None:
    result = run(command, *FACTS[command], "--json")
    assert result.exit_code == 0, result.output
    assert isinstance(json.loads(result.stdout), dict | list)
    assert result.stderr == ""


@every_command
def test_where_all_is_well_it_says_so_on_the_standard_output_with_status_0(run, command) -> None:
    result = run(command, *FACTS[command])
    assert result.exit_code == 0, result.output
    assert result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("wrong", MISUSES.values(), ids=MISUSES)
@every_command
def test_a_misuse_is_one_line_on_stderr_and_status_2(run, command, wrong) -> None:
    result = run(command, *wrong)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"tileops {command}: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("json_too", [[], ["--json"]], ids=["text", "json"])
@every_command
def test_a_reader_that_has_left_ends_it_without_a_word(monkeypatch, command, json_too) -> None:
    class Gone(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            raise OSError(errno.EPIPE, "gone")

    told = io.StringIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Gone())))
    monkeypatch.setattr(sys, "stderr", told)
    with pytest.raises(SystemExit) as end:
        tileops([command, *FACTS[command], *json_too], prog_name="tileops")
    monkeypatch.undo()
    assert (end.value.code, told.getvalue()) == (141, "")


@every_command
def test_there_is_no_color_where_there_is_no_terminal(run, command) -> None:
    result = run(command, *FACTS[command], FORCE_COLOR="1", CLICOLOR_FORCE="1")
    assert "\x1b" not in result.output
