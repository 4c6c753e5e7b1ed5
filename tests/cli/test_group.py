"""What all commands share: help, misuse, colors."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

ESCAPE = "\x1b"


def test_help_imports_no_torch() -> None:
    code = (
        "import sys, tileops_core.cli as cli\n"
        "try: cli.tileops(['--help'], prog_name='tileops')\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "doctor" in done.stdout


def test_the_version_is_the_distributions(run) -> None:
    assert run("--version").output == f"tileops {importlib.metadata.version('tileops-core')}\n"


def test_no_command_at_all_is_a_misuse_that_shows_the_help(run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["doctr"], "tileops: there is no command 'doctr' (did you mean 'doctor'?)"),
        (["show"], "tileops show: missing argument 'OP'"),
        (["ops", "--jsn"], "tileops ops: there is no option '--jsn' (did you mean '--json'?)"),
        (["ops", "extra"], "tileops ops: got unexpected extra argument (extra)"),
        (["ops", "--family"], "option '--family' requires an argument"),
        (["show", "RmsNormFwdOp"], "there is no op 'RmsNormFwdOp' (did you mean 'RMSNormFwdOp'?)"),
        (["ops", "--family", "nrom"], "there is no family 'nrom' (did you mean 'norm'?)"),
        (["ops", "--target", "zzz"], "there is no target 'zzz'; there are "),
    ],
)
def test_a_misuse_is_one_line_on_stderr_and_exit_status_2(run, arguments, says) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["doctor"], ["ops"], ["show", "RMSNormFwdOp"]])
def test_there_is_no_color_where_there_is_no_terminal(run, command) -> None:
    result = run(*command, FORCE_COLOR="1", CLICOLOR_FORCE="1")
    assert result.stdout
    assert ESCAPE not in result.output


def test_an_encoding_without_the_signs_of_mathematics_gets_words(shell) -> None:
    done = shell("show", "RMSNormFwdOp", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "forall" in done.stdout


@pytest.mark.parametrize("command", ["doctor", "ops", "show"])
def test_every_command_says_in_one_sentence_what_it_does(run, command) -> None:
    assert run(command, "--help").exit_code == 0
    line = next(x for x in run("--help").output.splitlines() if x.split()[:1] == [command])
    assert line.endswith(".")
