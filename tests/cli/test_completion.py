"""Words that a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from tileops_core.cli import tileops
from tileops_core.spec.catalogue import known_ops


def completed(*words: str) -> list[str]:
    """What may stand in the place of the last word."""
    shell = BashComplete(tileops, {}, "tileops", "_TILEOPS_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_commands_complete() -> None:
    assert completed("s") == ["show"]
    assert completed("new") == ["new-backend"]


def test_options_complete() -> None:
    assert completed("ops", "--fam") == ["--family"]


@pytest.mark.parametrize("command", [["show"], ["explain"], ["bench"], ["check-backend", "--op"]])
def test_ops_complete_in_any_case(command: list[str]) -> None:
    assert completed(*command, "rmsn") == ["RMSNormFwdOp"]
    assert set(completed(*command, "")) >= known_ops()


@pytest.mark.parametrize("command", [["ops"], ["check-backend", "reference"]])
def test_families_complete(command: list[str]) -> None:
    assert completed(*command, "--family", "no") == ["norm"]


@pytest.mark.parametrize(
    "command", [["ops", "--target"], ["check-backend"], ["explain", "RMSNormFwdOp", "--target"]]
)
def test_targets_complete(command: list[str]) -> None:
    assert completed(*command, "ref") == ["reference"]


@pytest.mark.parametrize("command", ["explain", "bench"])
def test_in_tree_dispatch_completes_where_it_can_be_asked_for(command: str) -> None:
    assert completed(command, "RMSNormFwdOp", "--target", "bu") == ["builtin"]


@pytest.mark.parametrize("command", ["show", "explain", "bench"])
def test_cases_of_the_op_that_is_named_complete(command: str) -> None:
    found = completed(command, "RMSNormFwdOp", "--case", "")
    assert found
    assert completed(command, "RMSNormFwdOp", "--case", found[0]) == [found[0]]
    assert completed(command, "--case", "") == []


def test_profiles_complete() -> None:
    assert completed("show", "RMSNormFwdOp", "--profile", "h100-s") == ["h100-sxm"]
    assert completed("show", "RMSNormFwdOp", "--profile", "c") == ["cpu"]


def test_codes_and_words_complete() -> None:
    assert "dtype-combos" in completed("validate", "--explain", "dtype-")
    assert "forall" in completed("validate", "--explain", "fora")


def test_a_status_and_a_format_complete() -> None:
    assert completed("ops", "--status", "s") == ["spec-only"]
    assert completed("validate", "--format", "g") == ["github"]


def test_a_fault_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileops_core.cli.completion._survey", lambda: 1 / 0)
    assert completed("show", "RMS") == []


@pytest.mark.usefixtures("one_broken")
def test_a_shell_gets_words_and_nothing_else(shell) -> None:
    asked = {"COMP_WORDS": "tileops ops --target ", "COMP_CWORD": "3"}
    done = shell(_TILEOPS_COMPLETE="bash_complete", **asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert "plain,reference" in done.stdout.splitlines()


def test_a_command_completes_without_torch() -> None:
    code = (
        "import sys, tileops_core.cli as cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    asked = {"_TILEOPS_COMPLETE": "bash_complete", "COMP_WORDS": "tileops do", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "plain,doctor\n")


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_for_each_shell_is_printed(python, name: str) -> None:
    done = python("-m", "tileops_core", _TILEOPS_COMPLETE=f"{name}_source")
    assert done.returncode == 0, done.stderr
    assert f"{name}_complete" in done.stdout
