"""The suite as a vendor's CI runs it: pytest in a process of its own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import pytest

PLUGIN = "tileops_core.conformance.pytest_plugin"
VENDOR = """
import torch
from tileops_core.backend import BuilderRegistration, TargetRegistration, hookimpl

def build(x, **params):
    assert not params
    return lambda x: torch.tanh(x) if x.dtype != torch.bfloat16 else torch.tanh(x) + 1

@hookimpl
def tileops_targets():
    return [TargetRegistration("acme", lambda device: False)]

@hookimpl
def tileops_kernel_builders():
    return [BuilderRegistration(op, "acme", build) for op in ("TanhFwdOp", "TanFwdOp")]
"""


@pytest.fixture
def vendor(tmp_path):
    """A folder with the vendor's distribution, and how to run pytest in it."""
    (tmp_path / "tileops_acme.py").write_text(VENDOR)
    info = tmp_path / "tileops_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tileops-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tileops.backends]\nacme = tileops_acme\n")

    def run(*options, pyargs="tileops_core.conformance", **environment):
        path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "--pyargs", pyargs]
        return subprocess.run(
            [*command, "-p", "no:cacheprovider", *options],
            env={**os.environ, "PYTHONPATH": path, **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def options(*more):
    return ("--tileops-target", "acme", "--tileops-device", "cpu", "-q", *more)


def test_one_command_tells_failures_in_the_suite_s_words(vendor):
    done = vendor(*options("-k", "registration or dtype or special"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "TanhFwdOp/dtype/T=bfloat16" in done.stdout
    assert "value: output differs, by up to" in done.stdout
    assert "Traceback" not in done.stdout
    assert "no manifest knows an op 'TanFwdOp' (did you mean 'TanhFwdOp'?)" in done.stdout
    assert "\nacme on cpu: " in done.stdout


def test_expected_failures_are_the_adopter_s(vendor, tmp_path):
    (tmp_path / "xfails.txt").write_text(
        "TanhFwdOp/*bfloat16*  # one too many\nTanFwdOp/registration/*  # a typo\n"
        "TanhFwdOp/special/zeros  # not so\n"
    )
    done = vendor(*options("--tileops-xfails", "xfails.txt"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed as expected" in done.stdout
    assert "line 3: TanhFwdOp/special/zeros: it passes; remove it" in done.stdout


def test_reports_hold_what_ran(vendor, tmp_path):
    reports = ("--tileops-report", "r.json", "--tileops-report", "r.html")
    done = vendor(*options(*reports, "-k", "dtype"))
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["target"] == "acme"
    assert data["about"]["backend"] == "tileops-acme 1.0"
    assert not data["passed"]
    assert data["counts"]["failed"] == done.stdout.count("\nFAILED ")
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.slow
def test_workers_of_xdist_make_one_report(vendor, tmp_path):
    pytest.importorskip("xdist")
    vendor(*options("--tileops-report", "one.json", "-k", "special or dtype"))
    vendor(*options("--tileops-report", "two.json", "-k", "special or dtype", "-n", "2"))
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
    assert one["counts"] == two["counts"]
    assert {r["id"] for r in one["results"]} == {r["id"] for r in two["results"]}


def test_a_check_is_chosen_by_its_node_id(vendor):
    node = "tileops_core.conformance.suite::TanhFwdOp::special/zeros"
    done = vendor(*options(), pyargs=node)
    assert "1 passed" in done.stdout, done.stdout


def test_a_vendor_s_own_settings_of_pytest_do_not_matter(vendor, tmp_path):
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npython_files = check_*.py\npython_functions = check_*\nxfail_strict = true\n"
        "addopts = --strict-markers --strict-config --import-mode=importlib\n"
        "filterwarnings = error\n"
    )
    done = vendor(*options("--tileops-op", "TanhFwdOp", "-k", "special or empty"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "the conformance suite checks a target: --tileops-target NAME"),
        (("--tileops-target", "refrence"), "no target 'refrence' (did you mean 'reference'?)"),
        (options("--tileops-op", "TahnFwdOp"), "did you mean 'TanhFwdOp'?"),
        (options("--tileops-family", "nrom"), "no family 'nrom' (did you mean 'norm'?)"),
        (options("--tileops-xfails", "none.txt"), "none.txt"),
        (options("--tileops-report", "r.pdf"), "ends in .json, .html or .txt"),
    ],
    ids=lambda value: str(value)[-30:],
)
def test_misuse_is_told_in_a_line(given, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [word if word != "acme" else "reference" for word in given]
    within = ["-p", PLUGIN, "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(tmp_path)]
    status = pytest.main(
        ["-c", os.devnull, *within, "--pyargs", "tileops_core.conformance", *given]
    )
    assert status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    shown = capsys.readouterr()
    assert says in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


def test_a_run_without_the_suite_imports_nothing_of_the_library(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test():\n    assert 'torch' not in sys.modules\n"
        "    assert not [m for m in sys.modules if m.startswith('tileops_core.conformance.s')]\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_suite_needs_no_pytest():
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from tileops_core.conformance import report, suite\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_plugin_is_called_as_its_entry_point_is():
    """So that `-p` with the module's name and the entry point are one plugin to pytest."""
    assert importlib.import_module(PLUGIN).__name__ == PLUGIN
