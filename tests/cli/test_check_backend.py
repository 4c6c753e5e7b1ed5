"""``tileops check-backend``."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
import torch

from tileops_core.backend import BuilderRegistration, TargetRegistration, registered

QUICK = ("--quick", "--op", "TanhFwdOp")


def build(x, **params):
    return torch.tanh


def build_wrongly(x, **params):
    return (lambda x: torch.tanh(x) + 1) if x.dtype is torch.bfloat16 else torch.tanh


@pytest.fixture
def wrong():
    with registered(
        TargetRegistration("acme", lambda device: False),
        BuilderRegistration("TanhFwdOp", "acme", build_wrongly),
        BuilderRegistration("RmsNormFwdOpp", "acme", build),
    ):
        yield


def test_a_good_backend_closes_with_a_sentence_and_status_0(run) -> None:
    result = run("check-backend", "reference", *QUICK)
    assert result.exit_code == 0
    last = result.stdout.splitlines()[-1]
    assert last.startswith("reference on cpu: 1 op as the manifest says, ")


def test_a_wrong_one_tells_what_is_wrong_and_status_1(run, wrong) -> None:
    result = run("check-backend", "acme", "--quick")
    assert result.exit_code == 1
    assert "  failed: TanhFwdOp/dtype/T=bfloat16\n    value: output differs" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("acme on cpu: ")
    assert " checks fail, in 2 ops of 2" in result.stdout.splitlines()[-1]


def test_an_op_that_no_manifest_knows_is_told_with_a_guess(run, wrong) -> None:
    """REG-14."""
    result = run("check-backend", "acme", "--quick")
    assert "no manifest knows an op 'RmsNormFwdOpp' (did you mean 'RMSNormFwdOp'?)" in result.stdout


def test_a_target_that_serves_nothing_has_not_passed(run) -> None:
    result = run("check-backend", "tilelang", "--op", "GEMMFwdOp", "--quick")
    assert result.exit_code == 1
    assert "note: GEMMFwdOp: tilelang does not serve it on cpu" in result.stdout
    assert "so nothing was checked" in result.stdout.splitlines()[-1]


def test_expected_failures_are_in_a_file(run, wrong, tmp_path) -> None:
    path = tmp_path / "xfails.txt"
    path.write_text("TanhFwdOp/*bfloat16*  # one too many\nTanhFwdOp/special/zeros\n")
    result = run("check-backend", "acme", *QUICK, "--xfails", str(path))
    assert result.exit_code == 0
    assert "line 2: TanhFwdOp/special/zeros: it passes; remove it" in result.stdout
    assert " failed as expected, " in result.stdout.splitlines()[-1]


def test_reports_are_written_in_the_form_of_their_ending(run, tmp_path) -> None:
    names = ("r.json", "r.html", "r.txt")
    options = [word for name in names for word in ("--report", str(tmp_path / name))]
    result = run("check-backend", "reference", *QUICK, *options)
    assert f"report: {tmp_path / 'r.html'}" in result.stdout
    assert json.loads((tmp_path / "r.json").read_text())["passed"]


def test_json_is_the_report(run) -> None:
    data = json.loads(run("check-backend", "reference", *QUICK, "--seed", "3", "--json").stdout)
    assert (data["target"], data["seed"], data["passed"]) == ("reference", 3, True)
    assert {r["op"] for r in data["results"]} == {"TanhFwdOp"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["refernce"], "there is no target 'refernce' (did you mean 'reference'?)"),
        (["reference", "--op", "SumFwdOpp"], "did you mean 'SumFwdOp'?"),
        (["reference", "--family", "nrom"], "there is no family 'nrom' (did you mean 'norm'?)"),
        (["reference", "--device", "tpu"], "there is no device 'tpu' here"),
        (["reference", "--report", "r.pdf"], "a report ends in .json, .html or .txt, not r.pdf"),
        (["reference", "--xfails", "/none.txt"], "/none.txt cannot be read: No such file"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_misuse_is_one_line_and_status_2(run, arguments, says) -> None:
    result = run("check-backend", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_terminal_shows_progress_and_a_file_none(run) -> None:
    command = [sys.executable, "-m", "tileops_core", "check-backend", "reference", *QUICK]
    parent, child = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=child, check=False)
    os.close(child)
    # The terminal holds some bytes of it, and may end in the middle of a character.
    shown = os.read(parent, 1 << 16).decode(errors="ignore")
    assert done.returncode == 0
    assert "reference" in shown
    assert "TanhFwdOp" in shown
    assert run("check-backend", "reference", *QUICK).stderr == ""
