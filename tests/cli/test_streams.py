"""Output that cannot be written, or not in every letter."""

from __future__ import annotations

import errno
import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tileops_core.cli import tileops
from tileops_core.validate.examples import entry_text

COMMANDS = {
    "help": ["--help"],
    "help-of-one": ["show", "--help"],
    "version": ["--version"],
    "doctor": ["doctor"],
    "doctor-json": ["doctor", "--json"],
    "ops": ["ops"],
    "ops-json": ["ops", "--json"],
    "show": ["show", "RMSNormFwdOp"],
    "show-json": ["show", "RMSNormFwdOp", "--json"],
    "show-plan": ["show", "RMSNormFwdOp", "--plan"],
    "validate": ["validate", "--no-code"],
    "validate-json": ["validate", "--no-code", "--json"],
    "validate-github": ["validate", "--no-code", "--format", "github", "BAD"],
    "explain": ["validate", "--explain", "kind"],
}
every_command = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())


class Failing(io.RawIOBase):
    """A file that takes nothing."""

    def __init__(self, error: int) -> None:
        self.error = error

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(self.error, "it is full" if self.error == errno.ENOSPC else "gone")


class Terminal(io.TextIOWrapper):
    """What calls itself a terminal."""

    def isatty(self) -> bool:
        return True


Run = Callable[[object, list[str]], tuple[int, str]]


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A spec file with a finding, in a line with letters that ASCII lacks, and a name likewise."""
    path = tmp_path / "próbe.yaml"
    text = entry_text({"signature.shape_rules": "- Q > 0  # ∀ 漢字"})
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def run_into(monkeypatch: pytest.MonkeyPatch, bad: Path) -> Run:
    """``run_into(stdout, arguments)`` gives the exit status and stderr."""

    def run(stdout: object, arguments: list[str]) -> tuple[int, str]:
        told = io.StringIO()
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "stderr", told)
        given = [str(bad) if argument == "BAD" else argument for argument in arguments]
        with pytest.raises(SystemExit) as end:
            tileops(given, prog_name="tileops")
        monkeypatch.undo()
        assert isinstance(end.value.code, int)
        return end.value.code, told.getvalue()

    return run


@every_command
def test_output_that_finds_no_room_is_one_line_on_stderr(run_into: Run, command: list[str]) -> None:
    status, told = run_into(io.TextIOWrapper(io.BufferedWriter(Failing(errno.ENOSPC))), command)
    assert status == 74
    assert told == "tileops: the standard output cannot be written: it is full\n"


@every_command
def test_a_reader_that_has_left_is_no_error_to_talk_about(
    run_into: Run, command: list[str]
) -> None:
    status, told = run_into(io.TextIOWrapper(io.BufferedWriter(Failing(errno.EPIPE))), command)
    assert (status, told) == (141, "")


@every_command
def test_a_standard_output_that_is_closed_is_told(run_into: Run, command: list[str]) -> None:
    status, told = run_into(None, command)
    assert (status, told) == (74, "tileops: the standard output cannot be written: it is closed\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp437"])
@every_command
def test_no_letter_is_too_much_for_an_encoding(
    run_into: Run, command: list[str], encoding: str
) -> None:
    out = io.BytesIO()
    status, told = run_into(io.TextIOWrapper(out, encoding=encoding), command)
    assert told == ""
    assert status == int("BAD" in command)
    assert out.getvalue().decode(encoding).endswith("\n")


def test_carets_stand_below_what_they_point_at_in_every_encoding(run_into: Run) -> None:
    out = io.BytesIO()
    run_into(io.TextIOWrapper(out, encoding="ascii"), ["validate", "--no-code", "BAD"])
    lines = out.getvalue().decode().splitlines()
    (at,) = (number for number, line in enumerate(lines) if "- Q > 0" in line)
    assert lines[at].index("Q") == lines[at + 1].index("^")
    assert lines[at].endswith("# ? ??")


@every_command
def test_a_narrow_terminal_is_enough(
    run_into: Run, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    out = io.BytesIO()
    status, _ = run_into(Terminal(out, encoding="utf-8", write_through=True), command)
    assert status == int("BAD" in command)
    assert out.getvalue()


@every_command
def test_there_is_no_color_where_nobody_wants_any(
    run_into: Run, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    out = io.BytesIO()
    run_into(Terminal(out, encoding="utf-8", write_through=True), command)
    assert not re.search(r"\x1b\[[0-9;]*\b(3[0-8]|9[0-7])[0-9;]*m", out.getvalue().decode())


def test_what_would_steer_a_terminal_is_not_shown(run_into: Run, tmp_path: Path) -> None:
    path = tmp_path / "pro\x1b[31m\nbe.yaml"
    path.write_text("A: \x1b[2J\n", encoding="utf-8")
    out = io.BytesIO()
    run_into(io.TextIOWrapper(out, encoding="utf-8"), ["validate", "--no-code", str(path)])
    text = out.getvalue().decode()
    assert "\x1b" not in text
    assert "pro\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}be.yaml" in text


def test_a_name_that_is_no_text_is_shown_as_far_as_it_is(run_into: Run, tmp_path: Path) -> None:
    path = f"{tmp_path}/pr\udcffbe.yaml"
    Path(path).write_text("A: 1\n")
    out = io.BytesIO()
    status, told = run_into(io.TextIOWrapper(out, "utf-8"), ["validate", "--no-code", path])
    assert (status, told) == (1, "")
    assert "be.yaml" in out.getvalue().decode()


def shell(command: str) -> subprocess.CompletedProcess[str]:
    script = f'tileops() {{ {sys.executable} -m tileops_core "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)


SHORT = pytest.mark.parametrize("command", ["--help", "validate --explain kind"])


@SHORT
def test_a_full_disk_is_told(command: str) -> None:
    done = shell(f"tileops {command} > /dev/full")
    assert done.returncode == 74
    assert done.stderr == (
        "tileops: the standard output cannot be written: No space left on device\n"
    )


@SHORT
def test_a_pipe_that_is_closed_ends_without_a_word(command: str) -> None:
    done = shell(f"set -o pipefail; {{ sleep 0.5; tileops {command}; }} | true")
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_standard_output_is_told() -> None:
    done = shell("tileops --version >&-")
    assert done.returncode == 74
    assert done.stderr == "tileops: the standard output cannot be written: it is closed\n"


@SHORT
def test_nothing_is_left_to_say_where_both_are_full(command: str) -> None:
    assert shell(f"tileops {command} > /dev/full 2> /dev/full").returncode == 74
