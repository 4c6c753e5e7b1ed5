"""``tileops doctor``."""

from __future__ import annotations

import json
import platform
import re

import faulty
import pytest
import torch
from click.testing import CliRunner

from tileops_core.backend import (
    BuilderRegistration,
    DeviceFactsRegistration,
    DiagnosticRegistration,
    InterfaceRegistration,
    KernelTypeRegistration,
    OracleRegistration,
    TargetRegistration,
    registered,
)
from tileops_core.backend.contract import ManifestPath
from tileops_core.cli import tileops
from tileops_core.cli.output import Page
from tileops_reference.kernels.reduction import SoftmaxReference

OP = "RMSNormFwdOp"


def build(*_: object, **__: object) -> object:
    raise AssertionError("nobody calls an op here")


def on_cpu(device: torch.device) -> bool:
    return device.type == "cpu"


def failing(device: torch.device) -> bool:
    raise LookupError(f"no driver for {device}")


def report(run) -> dict:
    return json.loads(run("doctor", "--json").stdout)


def backend(found: dict, name: str) -> dict:
    return next(row for row in found["backends"] if row["name"] == name)


def test_it_tells_the_versions_of_everything(run) -> None:
    versions = report(run)["versions"]
    assert versions["python"] == platform.python_version()
    assert versions["torch"] == torch.__version__
    assert {"tileops-core", "tileops-manifest", "tileops-reference", "tileops-tilelang"} <= set(
        versions
    )


def test_it_tells_the_environment_variables_that_are_set(run) -> None:
    result = run("doctor", "--json", TILEOPS_LOG="info")
    assert json.loads(result.stdout)["environment"]["TILEOPS_LOG"] == "info"
    assert "\nTILEOPS_LOG=info\n" in run("doctor", TILEOPS_LOG="info").output


def test_it_lists_the_devices_here_the_cpu_first(run) -> None:
    assert report(run)["devices"][0]["device"] == "cpu"


def test_a_backend_has_its_distribution_and_version(run) -> None:
    found = backend(report(run), "reference")
    assert found["distribution"] == "tileops-reference"
    assert found["version"]


def test_it_counts_the_ops_that_a_backends_kernels_serve_here(run) -> None:
    found = report(run)
    reference = backend(found, "reference")
    assert reference["runs_on"]["cpu"] == reference["kernel_types_of"] > 0


def test_a_target_tells_which_devices_it_claims(run) -> None:
    with registered(
        TargetRegistration("acme", on_cpu),
        TargetRegistration("elsewhere", lambda device: False),
        BuilderRegistration("RMSNormFwdOp", "acme", build),
        backend="acme_wheel",
    ):
        acme, elsewhere = backend(report(run), "acme_wheel")["targets"]
        text = run("doctor").output
    assert (acme["claims"], acme["builders"]) == (["cpu"], 1)
    assert (elsewhere["claims"], elsewhere["builders"]) == ([], 0)
    assert "target acme of 1 op, claims cpu" in text


@pytest.mark.parametrize("command", [("doctor",), ("ops",), ("show", OP)])
def test_a_builder_under_its_backends_own_name_needs_no_detector(run, command) -> None:
    with registered(BuilderRegistration(OP, "acme", build), backend="acme"):
        result = run(*command)
    assert result.exit_code == 0, result.output
    if command == ("doctor",):
        assert "target acme of 1 op, claims no device, because it has no detector" in result.output
    else:
        assert "by name" in result.output


def test_a_builder_for_anothers_target_is_told_of_who_brings_it(run) -> None:
    with (
        registered(TargetRegistration("zoom", on_cpu), backend="zoom_wheel"),
        registered(BuilderRegistration(OP, "zoom", build), backend="acme"),
    ):
        found = report(run)
    assert [t["builders"] for t in backend(found, "acme")["targets"]] == [1]
    assert [t["builders"] for t in backend(found, "zoom_wheel")["targets"]] == [0]


def test_targets_that_claim_one_device_are_told_with_a_way_to_choose(run) -> None:
    """REG-03: the first call would be the next to say it."""
    both = [
        registration
        for name in ("zoom", "acme")
        for registration in (
            TargetRegistration(name, on_cpu),
            BuilderRegistration(OP, name, build),
            BuilderRegistration("AddFwdOp", name, build),
        )
    ]
    with registered(*both, BuilderRegistration("MulFwdOp", "zoom", build)):
        ambiguous = report(run)["ambiguous"]
        result = run("doctor")
    assert ambiguous == [{"device": "cpu", "targets": ["acme", "zoom"], "ops": ["AddFwdOp", OP]}]
    assert f"targets 'acme', 'zoom' all claim cpu and build AddFwdOp, {OP}: " in result.output
    assert "set_default_target('acme')" in result.output
    assert result.exit_code == 0, "each of the two works when it is named"


def test_targets_that_build_different_ops_are_not_ambiguous(run) -> None:
    with registered(
        TargetRegistration("acme", on_cpu),
        TargetRegistration("zoom", on_cpu),
        BuilderRegistration(OP, "acme", build),
        BuilderRegistration("AddFwdOp", "zoom", build),
    ):
        assert report(run)["ambiguous"] == []


def test_an_op_that_no_manifest_knows_is_a_failure_with_a_guess(run) -> None:
    """REG: the registry knows no manifest, so nobody else would say it."""
    with registered(
        TargetRegistration("acme", on_cpu), BuilderRegistration("RmsNormFwdOp", "acme", build)
    ):
        result = run("doctor")
    assert "'RmsNormFwdOp', which no manifest knows (did you mean 'RMSNormFwdOp'?)" in result.output
    assert "correct the name" in result.output
    assert result.exit_code == 1


OWN_OP = """
from tileops_core.backend import BuilderRegistration, hookimpl
from tileops_core.op import Op
class AcmeTwiceFwdOp(Op):
    spec = {
        "family": "acme", "status": "implemented",
        "signature": {
            "forall": {"N": "Dim", "T": "DType[float32]"},
            "inputs": {"x": {"dtype": "T", "shape": "[N]"}},
            "outputs": {"y": {"dtype": "T", "shape": "[N]"}},
        },
        "workloads": [{"label": "small", "N": 8, "dtype_cases": [{"T": "float32"}]}],
    }
@hookimpl
def tileops_kernel_builders():
    return [BuilderRegistration("AcmeTwiceFwdOp", "acme", lambda x: lambda x: x + x)]
"""


def test_an_op_whose_class_holds_its_entry_is_known(shell, install) -> None:
    install("acme", OWN_OP)
    done = shell("doctor")
    assert "AcmeTwiceFwdOp" not in done.stdout
    assert done.returncode == 0


def test_a_detector_that_raises_is_the_backends_failure(run) -> None:
    with registered(TargetRegistration("acme", failing)):
        result = run("doctor")
    assert "target 'acme' on cpu: its detector raised LookupError: no driver for cpu" in (
        result.output
    )
    assert result.exit_code == 1


def test_a_device_type_that_torch_does_not_know_is_told_with_a_guess_and_is_no_failure(run) -> None:
    """A vendor's own is known only where its extension of torch is imported."""
    misspelled = type("Fast", (SoftmaxReference,), {"devices": {"gpu"}, "general": False})
    with registered(
        KernelTypeRegistration("SoftmaxFwdOp", "fast", misspelled),
        DeviceFactsRegistration("cdua", lambda device: None),
        backend="acme",
    ):
        result = run("doctor")
    assert (
        "backend 'acme': kernel type 'fast' of SoftmaxFwdOp: torch knows no device type 'gpu' "
        "(did you mean 'cuda'?) here"
    ) in result.output
    assert "torch knows no device type 'cdua' (did you mean 'cuda'?) here" in result.output
    assert result.exit_code == 0


COMPILER = "no C++ compiler found; install one: apt install g++"


def test_what_a_backend_finds_missing_here_is_told_under_it_and_is_no_failure(run) -> None:
    """The machine works without it: another kernel serves."""
    with registered(
        DiagnosticRegistration("C compiler", lambda: COMPILER),
        DiagnosticRegistration("driver", lambda: None),
        backend="acme",
    ):
        result = run("doctor")
        found = report(run)
    assert f"\nacme: C compiler: {COMPILER}\n" in result.output
    assert "driver" not in result.output
    assert result.exit_code == 0
    assert backend(found, "acme")["diagnostics"] == [
        {"name": "C compiler", "finding": COMPILER},
        {"name": "driver", "finding": None},
    ]


def test_a_finding_is_yellow(monkeypatch) -> None:
    styles = {}
    monkeypatch.setattr(Page, "line", lambda page, text="", style="": styles.update({text: style}))
    with registered(DiagnosticRegistration("C compiler", lambda: COMPILER), backend="acme"):
        CliRunner().invoke(tileops, ["doctor"])
    assert styles[f"acme: C compiler: {COMPILER}"] == "yellow"


@pytest.mark.parametrize("fault", faulty.diagnostic_faults(), ids=lambda fault: fault.name)
def test_a_faulty_diagnostic_is_the_backends_failure(run, fault) -> None:
    with registered(DiagnosticRegistration("C compiler", fault.does), backend="acme"):
        result = run("doctor")
        found = report(run)
    assert result.exit_code == 1
    assert "backend 'acme'\n  BackendError: diagnostic 'C compiler' " in result.output
    (failure,) = found["failures"]
    assert (failure["backend"], failure["error"] in result.output) == ("acme", True)
    assert backend(found, "acme")["diagnostics"] == []


def test_a_diagnostic_is_imported_by_no_other_command(install, shell, tmp_path) -> None:
    install(
        "acme",
        "from tileops_core.backend import *\n"
        "@hookimpl\n"
        "def tileops_diagnostics():\n"
        "    return [DiagnosticRegistration('driver', 'acme_driver:find')]\n",
    )
    (tmp_path / "acme_driver.py").write_text(
        "print('looking')\ndef find(): return 'no driver; install it'\n"
    )
    assert "looking" not in shell("ops").stdout
    done = shell("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("looking\n")
    assert "\nacme: driver: no driver; install it\n" in done.stdout


def test_a_kernel_type_that_breaks_its_contract_is_a_failure(run) -> None:
    with registered(KernelTypeRegistration("RMSNormFwdOp", "bad", int), backend="acme"):
        result = run("doctor")
    assert "kernel type 'bad' (int) of backend 'acme'" in result.output
    assert result.exit_code == 1


def test_a_kernel_type_that_cannot_be_imported_is_a_failure(run) -> None:
    with registered(KernelTypeRegistration("RMSNormFwdOp", "bad", "acme.no:Such"), backend="acme"):
        result = run("doctor")
    assert "ModuleNotFoundError: No module named 'acme'" in result.output
    assert result.exit_code == 1


@pytest.mark.parametrize("reference", ["acme.no:such", "json:no_such"])
@pytest.mark.parametrize(
    "make",
    [
        lambda text: [TargetRegistration("acme", on_cpu), BuilderRegistration(OP, "acme", text)],
        lambda text: [TargetRegistration("acme", text)],
        lambda text: [InterfaceRegistration("AcmeFwdOp", "acme", text)],
        lambda text: [KernelTypeRegistration("AcmeFwdOp", "fast", text)],
        lambda text: [DeviceFactsRegistration("acme", text)],
        lambda text: [OracleRegistration("AcmeFwdOp", text)],
        lambda text: [DiagnosticRegistration("driver", text)],
    ],
    ids=["builder", "detector", "interface", "kernel type", "device facts", "oracle", "diagnostic"],
)
def test_a_string_that_leads_nowhere_is_a_failure_told_once(run, make, reference) -> None:
    """REG: it would otherwise be found by the first call that needs it."""
    with registered(*make(reference), backend="acme"):
        result = run("doctor")
    assert result.exit_code == 1
    assert result.output.count(f"is {reference!r}, which does not resolve") == 1
    assert "fix: it was registered by this process; fix it there" in result.output


@pytest.mark.parametrize(
    ("reference", "fix"),
    [
        ("tileops_typo.norn:build", "fix: tileops-typo has no module tileops_typo.norn"),
        ("tileops_typo:biuld", "fix: update or report tileops-typo 1.2"),
        ("driver_of_acme:build", "fix: module driver_of_acme is missing"),
    ],
)
def test_a_builder_that_cannot_be_imported_gets_a_fix(install, shell, reference, fix) -> None:
    """REG: all was said to be well with a backend whose every call would fail."""
    install(
        "typo",
        "from tileops_core.backend import *\n"
        "@hookimpl\n"
        "def tileops_kernel_builders():\n"
        f"    return [BuilderRegistration('{OP}', 'typo', {reference!r})]\n",
    )
    done = shell("doctor")
    assert done.returncode == 1
    assert fix in done.stdout
    assert done.stderr == ""


def test_what_is_no_kernel_interface_is_the_failure_of_who_registers_it(run, outside) -> None:
    interface = InterfaceRegistration("AcmeScaleFwdOp", "acme", int)
    with registered(ManifestPath(outside), interface, backend="acme"):
        result = run("doctor")
    assert result.exit_code == 1
    assert "kernel interface 'acme' is <class 'int'>" in result.output


def test_all_is_well_with_our_own_backends(shell) -> None:
    done = shell("doctor")
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("backend", "error", "fix"),
    [
        ("raises", "RuntimeError: no license", "update or report tileops-raises 1.2"),
        (
            "needs",
            "ModuleNotFoundError: No module named 'driver_of_acme'",
            "module driver_of_acme is missing: install the distribution that brings it",
        ),
        (
            "gone",
            "ModuleNotFoundError: No module named 'tileops_vanished'",
            "pip uninstall tileops-gone",
        ),
        ("exits", "SystemExit: 3", "update or report tileops-exits 1.2"),
    ],
)
def test_a_backend_that_fails_to_load_gets_one_line_and_a_fix(sick, backend, error, fix) -> None:
    block = sick.stdout.split(f"backend {backend!r} (tileops-{backend} 1.2)\n")[1].splitlines()
    assert block[0].strip() == error
    assert block[1].strip().startswith("fix: ")
    assert fix in block[1]
    assert f"TILEOPS_DISABLE_BACKENDS={backend}" in block[1]


def test_a_backend_that_fails_to_load_makes_it_exit_with_1_and_no_traceback(sick) -> None:
    assert sick.returncode == 1
    assert sick.stderr == ""
    assert "Traceback" not in sick.stdout


@pytest.mark.usefixtures("one_broken")
def test_tracebacks_are_shown_to_who_asks(shell) -> None:
    done = shell("doctor", "--tracebacks")
    assert done.returncode == 1
    assert "    Traceback (most recent call last):" in done.stdout
    assert "tileops_broken.py" in done.stdout
    assert "Traceback" in json.loads(shell("doctor", "--json").stdout)["failures"][0]["traceback"]


@pytest.mark.usefixtures("one_broken")
def test_the_command_that_shows_a_traceback_is_named_where_the_target_is_missed(
    python, shell
) -> None:
    done = python("-c", "import tileops_core; tileops_core.set_default_target('broken')")
    (command,) = re.findall(r"`tileops (.*?)` shows the traceback", done.stderr)
    assert "Traceback (most recent call last)" in shell(*command.split()).stdout


def test_a_message_of_several_lines_is_told_whole_in_one(install, shell) -> None:
    install("wordy", "raise OSError('no libacme.so\\nlooked in /opt/acme')")
    assert "  OSError: no libacme.so looked in /opt/acme\n" in shell("doctor").stdout


@pytest.mark.usefixtures("one_broken")
def test_a_skipped_backend_is_told_and_is_no_failure(shell) -> None:
    done = shell("doctor", TILEOPS_DISABLE_BACKENDS="broken")
    assert done.returncode == 0
    assert "Skipped by TILEOPS_DISABLE_BACKENDS: broken" in done.stdout


@pytest.mark.usefixtures("one_broken")
def test_a_strict_environment_changes_nothing_here(shell) -> None:
    done = shell("doctor", TILEOPS_STRICT_BACKENDS="1")
    assert done.returncode == 1
    assert "RuntimeError: no license" in done.stdout


def test_a_spec_file_that_is_not_there_is_the_backends_failure(run, tmp_path) -> None:
    with registered(ManifestPath(tmp_path / "acme.yaml"), backend="acme"):
        result = run("doctor")
    assert result.exit_code == 1
    assert f"{tmp_path / 'acme.yaml'} cannot be read: no such file or directory" in result.output
