"""``tileops bench``."""

from __future__ import annotations

import json

import pytest

from tileops_core.cli import bench
from tileops_core.record import measured
from tileops_core.record.profiles import DEFAULT_KEY

SMALL = ["--max-elements", "2000"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(bench, "measure", lambda run, device: run() or 0.5)


@pytest.fixture
def profiled(monkeypatch):
    """A CPU that moves 1,000 bytes per second."""
    found = measured.profile("toy", 1, 1000.0, {DEFAULT_KEY: 1e6})
    monkeypatch.setattr(bench, "profile_of", lambda device: found)
    monkeypatch.setattr(bench, "measure_cpu", lambda: found)
    return found


def rows(run, *arguments, status=0):
    result = run("bench", *arguments, *SMALL, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def test_every_case_is_timed(run, profiled):
    found = rows(run, "ReLUFwdOp", "--target", "reference")
    assert len(found) > 1
    for row in found:
        assert row["elements"] <= 2000
        assert row["seconds"] == 0.5
        assert row["served_by"] == "reference (reference:reference)"
        assert row["fraction"] == row["roof"]["seconds"] / 0.5
        assert row["roof"]["seconds"] == row["bytes"] / 1000


def test_one_case_may_be_timed_under_several_targets(run, profiled):
    case = rows(run, "RMSNormFwdOp")[0]["case"]
    found = rows(
        run, "RMSNormFwdOp", "--case", case, "--target", "reference", "--target", "builtin"
    )
    assert [(r["case"], r["target"]) for r in found] == [(case, "reference"), (case, "builtin")]


def test_a_table_shows_time_rates_and_the_share_of_the_roof(run, profiled):
    lines = run("bench", "ReLUFwdOp", *SMALL).stdout.splitlines()
    assert lines[0].split() == (
        ["case", "elements", "target", "served", "by", "time", "memory", "operations", "of", "roof"]
    )
    assert "500 ms" in lines[1]
    assert "% (memory)" in lines[1]


def test_without_a_profile_there_is_no_roof(run, monkeypatch):
    monkeypatch.setattr(bench, "profile_of", lambda device: None)
    assert rows(run, "ReLUFwdOp")[0]["roof"] is None
    assert "`tileops bench --profile` measures" in run("bench", "ReLUFwdOp", *SMALL).stdout


def test_a_case_that_nobody_serves_is_told_and_the_others_are_timed(run, profiled):
    both = ("--target", "tilelang", "--target", "reference")
    found = rows(run, "SumFwdOp", *both, status=1)
    assert "OpNotAvailableError: SumFwdOp: target 'tilelang'" in found[0]["error"]
    assert "seconds" in found[1]


def test_kernels_may_be_tuned_first(run, profiled, monkeypatch):
    from tileops_core.kernels import tuning

    monkeypatch.setattr(tuning, "measure", lambda run, device: 1.0)
    found = rows(run, "RMSNormFwdOp", "--tune", "--target", "reference")
    assert found[0]["config"] == {}


def test_the_cpu_is_measured_and_kept(run, profiled):
    result = run("bench", "--profile")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "measured on this machine by torch, toy, 1 thread",
        "memory: 1000 B/s",
        "cuda_core.fp32: 1 Mop/s",
    ]
    facts = json.loads(run("bench", "--profile", "--json").stdout)
    assert facts["peaks"] == {DEFAULT_KEY: 1e6}


def test_an_op_or_a_profile_is_asked_for(run):
    result = run("bench")
    assert result.exit_code == 2
    assert "name an op, or measure the CPU with --profile" in result.stderr


@pytest.mark.parametrize("wrong", [["ReLUFwdOpp"], ["ReLUFwdOp", "--target", "nobody"]])
def test_misuse_is_told(run, wrong):
    assert run("bench", *wrong).exit_code == 2
