"""``tileops explain``."""

from __future__ import annotations

import json

import click
import composites
import pytest
from plan_support import signature

from tileops_core.cli import calls
from tileops_core.ops._index import OPS
from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import load_spec

IN_TREE = ["--target", "builtin"]
NORM = ["RMSNormFwdOp", "--shape", "x=float16[8,64]", "--param", "normalized_shape=64", *IN_TREE]
ROPE = ["LongRoPEFwdOp", "--shape", "x=float32[4,8]"]
CASE = "llama-3.2-1b-prefill-float16"


def explained(run, *arguments):
    result = run("explain", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("op", sorted(OPS))
def test_the_cases_of_every_op_can_be_explained(run, op):
    for case in cases(build_signature(load_spec(op)), requires=False):
        result = run("explain", op, "--case", case.case_id, *IN_TREE)
        assert result.exit_code == 0, result.output
        assert "chosen" in result.stdout


def test_a_call_is_explained_from_its_plan_to_its_kernel(run):
    lines = run("explain", *NORM).stdout.splitlines()
    assert lines[0] == "RMSNormFwdOp, x=float16[8,64], normalized_shape=64"
    assert "parameters: normalized_shape=[64], eps=None" in lines
    assert "tensors: x: float16[8, 64], output: float16[8, 64] on cpu" in lines
    assert "indices: normalized_shape = [64], T = float16, B = [8]" in lines
    assert "target: BUILTIN" in lines
    assert "  target=BUILTIN was given to the constructor" in lines
    assert sum(line.startswith("  chosen") for line in lines) == 1


def test_all_of_it_is_there_as_json(run):
    facts = explained(run, *NORM)
    assert facts["indices"] == {"normalized_shape": [64], "T": "float16", "B": [8]}
    assert facts["tensors"]["x"] == {"dtype": "float16", "shape": [8, 64]}
    (kernel,) = facts["kernels"]
    outcomes = {k["key"]: k["outcome"] for k in kernel["kernel_types"]}
    assert outcomes[kernel["chosen"]] == "chosen"
    assert (facts["target"], facts["error"], facts["stages"]) == ("BUILTIN", None, [])


def test_a_case_brings_its_parameters_and_tensors(run):
    facts = explained(run, "RMSNormFwdOp", "--case", CASE)
    assert facts["parameters"]["normalized_shape"] == [2048]
    assert facts["tensors"]["x"]["shape"] == [1, 2048, 2048]


def test_a_target_may_be_named(run):
    facts = explained(run, *NORM, "--target", "reference")
    assert facts["target"] == "reference"
    outcomes = {k["key"]: k["outcome"] for k in facts["kernels"][0]["kernel_types"]}
    assert outcomes == {"reference": "chosen", "tilelang": "other backend"}
    assert explained(run, *NORM)["target"] == "BUILTIN"


def test_another_device_may_be_asked_about(run):
    facts = explained(run, *NORM, "--device", "cuda", "--arch", "90")
    assert facts["device"] == "cuda:0"
    assert "stated arch=90" in facts["kernels"][0]["call"]


def test_a_tensor_that_the_constructor_takes_has_a_shape_too(run):
    facts = explained(run, *ROPE, "--shape", "rescale_factors=float32[4]")
    assert facts["tensors"]["rescale_factors"] == {"dtype": "float32", "shape": [4]}
    assert facts["parameters"]["rescale_factors"] == "float32[4]"


def test_a_call_on_a_device_that_is_not_here_can_be_explained(run, monkeypatch):
    def missing():
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr("torch.cuda.current_device", missing)
    options = ["seq_len=4", "num_heads=2", "device=cuda"]
    facts = explained(run, "AlibiFwdOp", *[x for o in options for x in ("--param", o)], *IN_TREE)
    assert facts["device"] == "cuda"


def test_shapes_without_names_are_the_inputs_in_order(run):
    facts = explained(run, "GEMMFwdOp", "--shape", "float16[2,3]", "--shape", "float16[5,3]")
    assert facts["indices"]["N"] == 5


def test_a_call_that_nobody_serves_ends_with_1_and_says_why(run):
    result = run("explain", "SumFwdOp", "--shape", "float32[2,3]", "--target", "tilelang")
    assert result.exit_code == 1
    assert "fails: SumFwdOp: target 'tilelang' does not serve it on cpu" in result.stdout


def test_a_composite_is_explained_with_its_stages(run, monkeypatch):
    from tileops_core.cli.survey import Entry, Survey

    classes = composites.ops()
    entry = type("Known", (Entry,), {"signature": lambda self: classes.nest._plan.signature})
    known = {"NestFwdOp": entry("NestFwdOp", "probe", "implemented", "somewhere.yaml")}
    monkeypatch.setattr(Survey, "entries", known)
    lines = run("explain", "NestFwdOp", "--shape", "float32[3,4]").stdout.splitlines()
    heads = [line for line in lines if "stage" in line]
    assert heads == [
        "TwiceFwdOp, stage 'inner'",
        "  ProbeFwdOp, stage 'first'",
        "  ProbeFwdOp, stage 'second'",
        "ProbeFwdOp, stage 'last'",
    ]


ATTENTION = [
    "GQADenseFwdOp",
    *("--shape", "q=float16[1,8,4,16]"),
    *("--shape", "k=float16[1,8,2,16]"),
    *("--shape", "v=float16[1,8,2,16]"),
]
MISUSE = {
    "an unknown op": (["RMSNromFwdOp"], "there is no op 'RMSNromFwdOp' (did you mean"),
    "no call": (["RMSNormFwdOp"], f"for each tensor, or --case with one of {CASE}"),
    "an unknown case": (["RMSNormFwdOp", "--case", "lama"], "there is no case 'lama'"),
    "a case and a shape": ([*NORM, "--case", CASE], "give --case, or --shape and --param"),
    "a shape of no form": (["ReLUFwdOp", "--shape", "3x4"], "'3x4' is not of the form NAME="),
    "a shape of no input": (["ReLUFwdOp", "--shape", "y=float32[3]"], "there is no tensor 'y'"),
    "a shape too many": (
        ["ReLUFwdOp", *["--shape", "float32[3]"] * 2], "is one too many: the op takes input",
    ),
    "a tensor that is missing": (
        ["GEMMFwdOp", "--shape", "a=float16[2,8]"],
        "GEMMFwdOp takes b in this call, and no option says so: add --shape b=DTYPE[",
    ),
    "tensors that are missing": (
        ["FusedAddRMSNormFwdOp", "--shape", "weight=float16[8]"],
        "takes input, residual in this call, and no option says so: add --shape input=DTYPE[",
    ),
    "a tensor that other options ask for": (
        [*ATTENTION, "--param", "pos_encoding_mode=rope", "--param", "rotary_dim=16"],
        "GQADenseFwdOp takes rope_cos in this call",
    ),
    "a tensor of the constructor's by its place": (
        ["LongRoPEFwdOp", *["--shape", "float32[4,8]"] * 2], "is one too many: the op takes x",
    ),
    "a tensor of the constructor's as text": (
        [*ROPE, "--param", "rescale_factors=1"], "is a tensor; give --shape rescale_factors=DTYPE[",
    ),
    "a tensor of the constructor's twice": (
        [*ROPE, "--shape", "rescale_factors=float32[4]", "--param", "rescale_factors=None"],
        "rescale_factors was given by --shape and by --param",
    ),
    "a tensor of the constructor's that is too large": (
        [*ROPE, "--shape", f"rescale_factors=float32[{2**40}]"], "with at most 268435456 elements",
    ),
    "a tensor of the constructor's that has no ones": (
        [*ROPE, "--shape", "rescale_factors=bits8[4]"], "rescale_factors: no ones of torch.bits8",
    ),
    "a tensor of no name": ([*ROPE, "--shape", "rescale_factor=float32[4]"], "(did you mean"),
    "a shape said twice": (["GEMMFwdOp", *["--shape", "a=float16[2,8]"] * 2], "a was given before"),
    "a parameter said twice": ([*NORM, *["--param", "eps=1.0"] * 2], "eps was given before"),
    "a length that no tensor has": (
        ["ReLUFwdOp", "--shape", f"input=float32[{10**20}]"], "no tensor has so many elements",
    ),
    "a dtype that is none": (["ReLUFwdOp", "--shape", "input=ones[3]"], "'ones' is no dtype"),
    "a parameter that is missing": (NORM[:3], "normalized_shape"),
    "an unknown parameter": ([*NORM, "--param", "epz=3"], "there is no parameter 'epz' (did you"),
    "a parameter of no form": ([*NORM, "--param", "eps"], "--param 'eps' is not of the form"),
    "an unknown target": ([*NORM, "--target", "tilelan"], "(did you mean 'tilelang'?)"),
    "an unknown device": ([*NORM, "--device", "gpu"], "there is no device 'gpu'"),
}  # fmt: skip


@pytest.mark.parametrize("misuse", MISUSE)
def test_misuse_is_one_line_and_exit_2(run, misuse):
    arguments, says = MISUSE[misuse]
    result = run("explain", *arguments)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_call_that_the_signature_refuses_is_an_error(run):
    result = run("explain", "ReLUFwdOp", "--shape", "int64[3]")
    assert result.exit_code == 1
    assert "ReLUFwdOp: input has dtype int64" in result.stderr


def test_an_op_without_a_class_cannot_be_called(run, outside):
    from tileops_core.backend import registered
    from tileops_core.backend.contract import ManifestPath

    with registered(ManifestPath(str(outside)), backend="acme"):
        result = run("explain", "AcmeScaleFwdOp", "--shape", "float32[3]")
    assert result.exit_code == 2
    assert "tileops explain: AcmeScaleFwdOp has an entry and no class here" in result.stderr


def test_a_tensor_that_the_constructor_must_have_is_asked_for():
    table = {"dtype": "T", "shape": "[M]"}
    with pytest.raises(click.UsageError, match=r"table, and .* add --shape table=DTYPE\[M\]"):
        calls._held(signature("M", {"x": "[M]"}, params={"table": table}), {})
