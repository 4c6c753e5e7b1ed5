"""``tileops show``."""

from __future__ import annotations

import ast
import json

import pytest

from tileops_core.backend import registered
from tileops_core.backend.contract import ManifestPath
from tileops_core.spec.catalogue import known_ops


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_every_op_can_be_shown(run, op) -> None:
    result = run("show", op)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{op}\n")


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_the_plan_is_python(run, op) -> None:
    result = run("show", op, "--plan")
    assert result.exit_code == 0, result.output
    functions = {node.name for node in ast.walk(ast.parse(result.stdout)) if hasattr(node, "name")}
    assert {"construct", "check", "outputs"} <= functions


def test_an_op_is_shown_as_mathematics_and_as_python(run) -> None:
    lines = run("show", "RMSNormFwdOp").stdout.splitlines()
    assert "RMSNormFwdOp : ∀ B: Shape; T ∈ {float16, bfloat16, float32}." in lines
    assert (
        "op = RMSNormFwdOp(normalized_shape: list[int] | tuple[int, ...], "
        "eps: float | None = None, *, target=None)"
    ) in lines
    assert "output = op(x, weight=None)" in lines


def test_a_type_family_is_shown_with_its_cases(run) -> None:
    lines = run("show", "GEMMFwdOp").stdout.splitlines()
    assert "  where    Mat[transposed, R, C] = [R, C] if not transposed" in lines


def test_every_workload_case_is_there_with_its_shapes(run) -> None:
    facts = json.loads(run("show", "RMSNormFwdOp", "--json").stdout)
    case = next(c for c in facts["workloads"] if c["case"].startswith("llama-3.2-1b-prefill-"))
    assert case["params"]["normalized_shape"] == [2048]
    assert case["inputs"]["x"]["shape"] == [1, 2048, 2048]


def test_it_says_who_serves_the_op_here(run) -> None:
    facts = json.loads(run("show", "SumFwdOp", "--json").stdout)
    assert "cpu" in facts["targets"]["reference"]
    assert facts["targets"]["tilelang"] is None
    assert [(k["backend"], k["key"]) for k in facts["kernel_types"]] == [("reference", "reference")]


def test_it_says_every_backend_that_serves_the_op_here(run) -> None:
    facts = json.loads(run("show", "RMSNormFwdOp", "--json").stdout)
    assert facts["targets"]["tilelang"] == ["cpu"]
    found = {(kind["backend"], kind["key"]) for kind in facts["kernel_types"]}
    assert found == {("reference", "reference"), ("tilelang", "tilelang")}


def test_a_required_parameter_has_no_default(run) -> None:
    params = json.loads(run("show", "RMSNormFwdOp", "--json").stdout)["params"]
    assert "default" not in params[0]
    assert params[1]["default"] is None


def test_an_op_of_another_distribution_is_shown_from_its_spec_file(run, outside) -> None:
    with registered(ManifestPath(outside)):
        result = run("show", "AcmeScaleFwdOp")
    assert result.exit_code == 0, result.stderr
    assert "y: Tensor[T, [N]]" in result.stdout


def test_an_entry_that_is_wrong_is_told_with_its_place(run, outside) -> None:
    right = outside.read_text(encoding="utf-8")
    outside.write_text(right.replace('shape: "[N]"', 'shape: "[Q]"', 1), encoding="utf-8")
    with registered(ManifestPath(outside)):
        result = run("show", "AcmeScaleFwdOp")
    assert result.exit_code == 1
    assert "acme.yaml" in result.stderr
    assert result.stdout == ""


@pytest.mark.usefixtures("contracts")
def test_an_op_without_a_class_is_shown_as_the_contract_that_it_is(shell) -> None:
    done = shell("show", "ClampedNormFwdOp")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "ClampedNormFwdOp",
        "spec-only, family norm, entry norm_clamped.yaml:2",
    ]
    assert "no class implements it yet" in lines[2]
    assert "A class ClampedNormFwdOp, derived from tileops_core.Op, takes the contract" in lines[2]
    assert "  (x: Tensor[T, [N]])" in lines
    assert "Who serves it here" not in lines


@pytest.mark.usefixtures("contracts")
def test_the_plan_of_an_op_without_a_class_is_python(shell) -> None:
    done = shell("show", "AcmeScaleFwdOp", "--plan")
    assert done.returncode == 0, done.stderr
    ast.parse(done.stdout)


@pytest.mark.usefixtures("contracts")
def test_the_facts_of_an_op_without_a_class_say_so(shell) -> None:
    facts = json.loads(shell("show", "AcmeScaleFwdOp", "--json").stdout)
    assert (facts["status"], facts["summary"], facts["kernel_types"]) == ("spec-only", "", [])
