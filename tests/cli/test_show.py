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


# -- what a case costs ------------------------------------------------------------------------

GEMM = ["GEMMFwdOp", "--case", "llama-3.2-1b-qkv-prefill-float16"]


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_the_cost_of_every_case_can_be_shown(run, op) -> None:
    for case in json.loads(run("show", op, "--json").stdout)["workloads"]:
        result = run("show", op, "--case", case["case"], "--profile", "h100-sxm", "--json")
        assert result.exit_code == 0, result.output
        cost = json.loads(result.stdout)
        assert cost["bytes"] == cost["read_bytes"] + cost["written_bytes"] > 0
        assert cost["roof"]["seconds"] > 0


def test_a_cost_is_operations_bytes_and_a_roof(run) -> None:
    lines = run("show", *GEMM, "--profile", "h100-sxm").stdout.splitlines()
    assert lines[1:] == [
        "Cost of llama-3.2-1b-qkv-prefill-float16",
        "operations: 25,769,803,776",
        "bytes: 33,554,432 (20,971,520 read, 12,582,912 written)",
        "intensity: 768 operations per byte",
        (
            "roof: at least 26 us, bound by compute, on h100-sxm "
            "(NVIDIA H100 Tensor Core GPU Architecture (whitepaper), H100 SXM5; dense, boost "
            "clock: vectors 1980 MHz, matrices 1830 MHz)"
        ),
        "  tensor_core.fp16: 989.4 Top/s; memory: 3.35 TB/s",
    ]


def test_the_unit_is_that_of_the_operands_dtype(run) -> None:
    for op, unit in (("GEMMFwdOp", "tensor_core.fp16"), ("ReLUFwdOp", "cuda_core.fp32")):
        cases = json.loads(run("show", op, "--json").stdout)["workloads"]
        case = next(c["case"] for c in cases if "float16" in c["case"].split("-"))
        assert json.loads(run("show", op, "--case", case, "--json").stdout)["unit"] == unit


def test_where_no_roof_is_known_it_says_how_to_know_one(run, tmp_path) -> None:
    result = run("show", *GEMM, TILEOPS_CACHE_DIR=str(tmp_path))
    assert "`tileops bench --profile` measures this machine's CPU" in result.stdout


def test_an_op_without_a_class_has_a_cost_too(run, outside) -> None:
    entry = outside.read_text() + "  roofline: {flops: 3 * N}\n"
    outside.write_text(entry)
    with registered(ManifestPath(str(outside)), backend="acme"):
        result = run("show", "AcmeScaleFwdOp", "--case", "small-float32", "--json")
    cost = json.loads(result.stdout)
    assert (cost["flops"], cost["bytes"]) == (24, 64)


def test_an_entry_without_a_cost_is_told(run, outside) -> None:
    with registered(ManifestPath(str(outside)), backend="acme"):
        result = run("show", "AcmeScaleFwdOp", "--case", "small-float32")
    assert result.exit_code == 2
    assert "states no roofline" in result.stderr


def test_a_profile_is_about_a_case(run) -> None:
    result = run("show", "GEMMFwdOp", "--profile", "h100-sxm")
    assert (result.exit_code, "name one with --case" in result.stderr) == (2, True)
    assert run("show", *GEMM, "--profile", "h100").exit_code == 2
    assert run("show", "GEMMFwdOp", "--case", "nope").exit_code == 2


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
    assert any("(x: Tensor[T, [N]])" in line for line in lines)
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
