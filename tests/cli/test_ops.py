"""``tileops ops``."""

from __future__ import annotations

import json
import re

import pytest

from tileops_core.backend import (
    BuilderRegistration,
    KernelTypeRegistration,
    TargetRegistration,
    registered,
)
from tileops_core.spec.catalogue import family_of, known_ops, status_of
from tileops_reference.kernels.reduction import SoftmaxReference


def build(*_: object, **__: object) -> object:
    raise AssertionError("nobody calls an op here")


def rows(run, *arguments: str) -> dict[str, dict]:
    return {row["op"]: row for row in json.loads(run("ops", "--json", *arguments).stdout)}


def line_of(text: str, op: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if op in line.split())


def test_there_is_a_row_for_every_op_of_the_manifest(run) -> None:
    assert set(rows(run)) == known_ops()


def test_the_reference_serves_every_implemented_op_on_the_cpu(run) -> None:
    found = rows(run).values()
    implemented = [row for row in found if row["status"] == "implemented"]
    assert all("cpu" in row["targets"]["reference"] for row in implemented)
    for row in implemented:
        in_tree, _, backends = row["default"]["cpu"].partition(": ")
        assert in_tree == "in-tree"
        assert "reference" in backends.split(", ")


def test_a_composite_runs_where_its_stages_do(run) -> None:
    found = rows(run)["FusedMoEFwdOp"]
    assert found["targets"]["reference"] == ["cpu"]
    assert found["targets"]["tilelang"] is None
    assert found["default"]["cpu"] == "in-tree: reference"


def test_a_family_leaves_the_others_out(run) -> None:
    assert {family_of(op) for op in rows(run, "--family", "norm")} == {"norm"}


def test_a_target_leaves_the_other_columns_out(run) -> None:
    assert all(
        set(row["targets"]) == {"reference"} for row in rows(run, "--target=reference").values()
    )


def test_a_detector_that_claims_the_device_makes_its_target_the_default(run) -> None:
    with registered(
        TargetRegistration("acme", lambda device: device.type == "cpu"),
        BuilderRegistration("RMSNormFwdOp", "acme", build),
    ):
        found = rows(run)
    assert found["RMSNormFwdOp"]["default"]["cpu"] == "acme"
    assert found["RMSNormFwdOp"]["targets"]["acme"] == ["cpu"]
    assert found["SumFwdOp"]["default"]["cpu"] == "in-tree: reference"
    assert found["SumFwdOp"]["targets"]["acme"] is None


def test_what_a_target_serves_stands_in_the_last_line(run) -> None:
    with registered(KernelTypeRegistration("SoftmaxFwdOp", "own", SoftmaxReference), backend="own"):
        text = run("ops", "--family", "reduction", "--target", "own").output
    assert re.fullmatch(r"own serves 1 of \d+: SoftmaxFwdOp", text.splitlines()[-1])


def test_a_target_that_claims_nothing_here_serves_by_name(run) -> None:
    with registered(
        TargetRegistration("acme", lambda device: False),
        BuilderRegistration("RMSNormFwdOp", "acme", build),
    ):
        text = run("ops", "--target", "acme", "--status", "implemented").output
    assert line_of(text, "RMSNormFwdOp")[2:] == ["by", "name"]
    assert line_of(text, "SoftmaxFwdOp")[2:] == ["-"]


def test_two_detectors_that_claim_one_device_are_ambiguous(run) -> None:
    both = [TargetRegistration(name, lambda device: True) for name in ("acme", "bolt")]
    builders = [BuilderRegistration("RMSNormFwdOp", name, build) for name in ("acme", "bolt")]
    with registered(*both, *builders):
        assert rows(run)["RMSNormFwdOp"]["default"]["cpu"] == "ambiguous: acme, bolt"


def test_a_row_is_one_line_where_there_is_no_terminal(run) -> None:
    names = [f"a_target_with_quite_a_long_name_{i}" for i in range(20)]
    with registered(*(TargetRegistration(name, lambda device: False) for name in names)):
        lines = run("ops", "--status", "implemented").output.splitlines()
    implemented = [op for op in known_ops() if status_of(op) == "implemented"]
    assert len(lines) == len(implemented) + 1
    assert all(name in lines[0] for name in names)


@pytest.mark.usefixtures("one_broken")
def test_a_broken_backend_is_one_line_on_stderr_and_the_rest_is_shown(shell) -> None:
    done = shell("ops")
    assert done.returncode == 0
    assert done.stderr == "tileops: not all of broken could be used; see `tileops doctor`\n"
    assert "RMSNormFwdOp" in done.stdout


def test_nobody_serves_where_no_backend_is_installed(shell) -> None:
    done = shell("ops", "--json", TILEOPS_DISABLE_BACKENDS="*")
    assert {row["default"]["cpu"] for row in json.loads(done.stdout)} == {"nobody"}


WAITING = ("AcmeScaleFwdOp", "AcmeShiftFwdOp", "ClampedNormFwdOp")


@pytest.mark.usefixtures("contracts")
def test_an_op_without_a_class_is_listed_with_its_status_and_nobody_serves_it(shell) -> None:
    done = shell("ops")
    assert done.returncode == 0, done.stderr
    for op in WAITING:
        assert set(line_of(done.stdout, op)[2:]) == {"spec-only", "-"}
    assert line_of(done.stdout, "RMSNormFwdOp")[2] == "implemented"
    last = done.stdout.splitlines()[-1]
    assert last.endswith("of the others there is the contract, which `tileops show OP` prints")
    assert last.startswith(f"{len(implemented_ops())} of {len(implemented_ops()) + extra()} ops")


def implemented_ops() -> list[str]:
    return [op for op in known_ops() if status_of(op) == "implemented"]


def extra() -> int:
    return len(known_ops()) - len(implemented_ops()) + len(WAITING)


@pytest.mark.usefixtures("contracts")
def test_a_status_leaves_the_others_out(shell) -> None:
    waiting = {row["op"] for row in json.loads(shell("ops", "--status=spec-only", "--json").stdout)}
    assert waiting >= set(WAITING)
    assert not waiting & set(implemented_ops())
    text = shell("ops", "--status", "implemented").stdout
    assert "spec-only" not in text
    assert len(text.splitlines()) == len(implemented_ops()) + 1


@pytest.mark.usefixtures("contracts")
def test_a_family_and_a_status_are_asked_for_together(shell) -> None:
    text = shell("ops", "--family", "norm", "--status", "spec-only").stdout
    assert "ClampedNormFwdOp" in text
    assert "AcmeScaleFwdOp" not in text
    assert "RMSNormFwdOp" not in text
    assert shell("ops", "--family", "acme", "--status", "implemented").stdout == (
        "no op is of this family and this status\n"
    )


def test_an_unknown_status_is_a_misuse(run) -> None:
    done = run("ops", "--status", "planned")
    assert done.exit_code == 2
    assert "implemented" in done.stderr
