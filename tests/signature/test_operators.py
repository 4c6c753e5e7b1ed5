"""The operators that stand for an op in a traced graph."""

from __future__ import annotations

import json
from importlib.resources import files

import attrs
import pytest
import torch

from tileops_core.signature.build import build_signature
from tileops_core.signature.operators import operator_name, operators
from tileops_core.spec.catalogue import known_ops, load_spec, status_of

X = {"dtype": "T", "shape": "[M, N, *S]"}
Y = {"dtype": "T", "shape": "[M, N, *S]"}


def schemas(signature):
    return [operator.schema for operator in operators(signature)]


@pytest.mark.parametrize(
    ("family", "op", "name"),
    [
        ("norm", "RMSNormFwdOp", "rms_norm_fwd"),
        ("norm", "FusedQKNormRoPEFwdOp", "fused_qk_norm_rope_fwd"),
        ("gemm", "GEMMFwdOp", "gemm_fwd"),
        ("gemm", "GEMMINT8W8A8FwdOp", "gemm_int8_w8a8_fwd"),
        ("gemm", "BMMFP8FwdOp", "gemm_bmm_fp8_fwd"),
        ("elementwise", "PReLUFwdOp", "elementwise_prelu_fwd"),
        ("elementwise", "SiLUAndMulFwdOp", "elementwise_silu_and_mul_fwd"),
        ("rope", "LongRoPEFwdOp", "long_rope_fwd"),
        ("rope", "RoPELlama31FwdOp", "rope_llama31_fwd"),
        ("moe", "MoEGroupedGEMMFP8FwdOp", "moe_grouped_gemm_fp8_fwd"),
        ("attention", "MLAKVCacheWriteFwdOp", "attention_mla_kv_cache_write_fwd"),
        ("pool", "MaxPool2dIndicesFwdOp", "pool_max_pool2d_indices_fwd"),
        ("fft", "FFTC2CFwdOp", "fft_c2c_fwd"),
        ("reduction", "LogSumExpFwdOp", "reduction_log_sum_exp_fwd"),
    ],
)
def test_a_name_is_the_family_and_the_words_of_the_class(build, family, op, name):
    assert operator_name(attrs.evolve(build(), family=family, op=op)) == name


def test_a_pure_op_has_one_operator_with_its_tensors_in_order(build):
    assert schemas(build()) == ["test_fwd(str key, Tensor x, Tensor? w) -> Tensor"]


def test_results_are_a_tuple_unless_there_is_one(build):
    assert schemas(build(outputs={"y": Y, "z": Y}))[0].endswith("-> (Tensor, Tensor)")
    assert schemas(build(outputs={}))[0].endswith("-> ()")


def test_a_written_input_makes_a_branch_that_returns_nothing_for_its_alias(build):
    made = operators(
        build(inputs={"x": {**X, "mutated": "flag"}}, outputs={"y": {**Y, "alias": "x"}, "z": Y})
    )
    assert [operator.schema for operator in made] == [
        "test_fwd(str key, Tensor x) -> (Tensor, Tensor)",
        "test_fwd_writes_x(str key, Tensor(a!) x) -> Tensor",
    ]
    assert [operator.written for operator in made] == [(), ("x",)]


def test_a_buffer_makes_a_branch_that_fills_it(build):
    assert schemas(build(outputs={"y": {**Y, "buffer": "out"}, "z": Y})) == [
        "test_fwd(str key, Tensor x, Tensor? w) -> (Tensor, Tensor)",
        "test_fwd_out(str key, Tensor x, Tensor? w, Tensor(a!) out) -> Tensor",
    ]


def test_an_output_that_may_be_none_makes_a_branch_without_it(build):
    assert schemas(build(outputs={"y": Y, "z": {**Y, "nullable": "flag"}})) == [
        "test_fwd(str key, Tensor x, Tensor? w) -> (Tensor, Tensor)",
        "test_fwd_without_z(str key, Tensor x, Tensor? w) -> Tensor",
    ]


def test_a_branch_that_refinements_rule_out_has_no_operator(build):
    names = [
        operator.name
        for operator in operators(
            build(
                inputs={"x": {**X, "mutated": "flag"}},
                outputs={"y": Y, "z": {**Y, "nullable": "mode == 'a'"}},
                shape_rules=["flag == (mode == 'a')"],
            )
        )
    ]
    assert names == ["test_fwd", "test_fwd_writes_x_without_z"]


def test_an_optional_input_that_is_written_is_there_on_its_branch(build):
    inputs = {"x": X, "w": {"dtype": "T", "shape": "[N]", "optional": True, "mutated": True}}
    assert schemas(build(inputs=inputs)) == [
        "test_fwd(str key, Tensor x, Tensor? w) -> Tensor",
        "test_fwd_writes_w(str key, Tensor x, Tensor(a!) w) -> Tensor",
    ]


def test_an_input_may_be_called_key(build):
    (schema,) = schemas(build(inputs={"key": X}))
    assert schema.startswith("test_fwd(str op_key, Tensor key)")
    torch._C.parse_schema(f"tileops_core::{schema}")


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_torch_reads_every_schema(op):
    for operator in operators(build_signature(load_spec(op))):
        parsed = torch._C.parse_schema(f"tileops_core::{operator.schema}")
        written = tuple(
            a.name for a in parsed.arguments if a.alias_info is not None and a.alias_info.is_write
        )
        assert written == (*operator.written, *(["out"] if operator.out else []))


def test_names_are_unique_in_the_whole_manifest():
    names = [o.name for op in known_ops() for o in operators(build_signature(load_spec(op)))]
    assert len(names) == len(set(names))


def test_the_packaged_schemas_are_fresh():
    """The generator's own freshness test compares the text; this one says what is in it."""
    text = (files("tileops_core.ops") / "_operators.json").read_text(encoding="utf-8")
    packaged = json.loads(text)
    assert packaged["namespace"] == "tileops_core"
    assert packaged["schemas"] == {
        op: schemas(build_signature(load_spec(op)))
        for op in sorted(known_ops())
        if status_of(op) == "implemented"
    }
