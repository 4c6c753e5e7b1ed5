"""Which calls an entry alone says to try."""

from __future__ import annotations

import faulty
import pytest

from tileops_core.conformance.variants import COLUMNS, Variants
from tileops_core.ops._index import OPS
from tileops_core.signature.build import build_signature
from tileops_core.signature.scaling import elements, scaled
from tileops_core.spec.catalogue import load_spec, load_spec_from
from tileops_core.spec.entries import AdtValue


def variants(op, size=1 << 14):
    spec = load_spec_from(faulty.SPECS[op], op) if op in faulty.SPECS else load_spec(op)
    return Variants(build_signature(spec), size)


def names(op, column):
    return [v.name for v in variants(op).all() if v.column == column]


def shapes(op, column):
    found = [v for v in variants(op).all() if v.column == column]
    return [[f[1] for f in v.call.inputs.values() if f] for v in found]


@pytest.mark.parametrize("op", OPS)
def test_every_call_is_one_that_the_entry_accepts(op):
    for variant in variants(op).all():
        assert variant.column in COLUMNS
        variant.call.check()


@pytest.mark.parametrize("op", OPS)
def test_ids_are_unique_and_the_same_each_time(op):
    ids = [v.id for v in variants(op).all()]
    assert len(set(ids)) == len(ids)
    assert ids == [v.id for v in variants(op).all()]


@pytest.mark.parametrize("op", OPS)
def test_every_row_is_there_with_every_dtype_case_scaled(op):
    of = variants(op)
    rows = [v for v in of.all() if v.column == "workload"]
    assert len(rows) == sum(len(row.dtype_cases) for row in of.signature.workloads)
    for variant in rows:
        # The blocks that some entries are written for are no smaller.
        least = elements(scaled(variant.call, 1))
        assert elements(variant.call) <= max(1 << 14, least)


@pytest.mark.parametrize("op", OPS)
def test_every_branch_of_our_ops_is_reached(op):
    of = variants(op)
    of.all()
    assert of.unreached == []


def is_of(value, branch):
    """Whether a parameter's value is on a branch, which tells of a sum only what decides."""
    if not isinstance(branch, AdtValue) or not isinstance(value, AdtValue):
        return value == branch
    return value.kind == branch.kind and set(branch.fields) <= set(value.fields)


@pytest.mark.parametrize("op", OPS)
def test_every_value_of_every_discriminant_is_there(op):
    of = variants(op)
    found = of.all()
    for key, values in of.calls.branches.values.items():
        name = key.removeprefix("present(").rstrip(")")
        accepted = [given[key] for given in of.calls.branches.accepted({key})]
        for value in (v for v in values if v in accepted):
            if name in of.calls.branches.inputs:
                assert any((name in v.call.some) == value for v in found), key
            elif name != key:
                assert any((v.call.params[name] is not None) == value for v in found), key
            elif name in of.base.params:
                assert any(is_of(v.call.params[name], value) for v in found), (key, value)
            else:
                assert any(v.call.given.get(name) == value for v in found), (key, value)


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_an_empty_a_single_an_odd_and_a_long_call(op):
    columns = {v.column for v in variants(op).all()}
    due = {"empty", "single", "odd", "long", "layout", "expanded", "special"}
    assert due & columns == (due if variants(op).signature.inputs else set())


def test_an_op_without_inputs_is_tried_with_other_parameters_and_dtypes():
    columns = {v.column for v in variants("AlibiFwdOp").all()}
    assert columns == {"workload", "dtype", "parameter"}
    assert {"num_heads=1", "num_heads=3", "seq_len=1"} <= set(names("AlibiFwdOp", "parameter"))


def test_axes_are_counted_from_both_ends():
    assert {f"dim={d}" for d in (-3, -2, 0, 1, 2)} <= set(names("SoftmaxFwdOp", "parameter"))
    assert {"dim=()", "dim=(0, 2)", "dim=(-1, -3)"} <= set(names("SumFwdOp", "parameter"))


def test_lengths_that_must_be_alike_are_changed_together():
    """MAN-18: shapes that broadcast."""
    for one, other in shapes("AddFwdOp", "empty"):
        assert 0 in one
        assert 0 in other


def test_tensors_without_axes_come_one_by_one_and_together():
    assert [(), ()] in shapes("AddFwdOp", "scalar")
    assert any(one == () and other != () for one, other in shapes("AddFwdOp", "scalar"))


def test_optional_tensors_are_there_and_not_there():
    assert set(names("RMSNormFwdOp", "optional")) == {"with weight", "without weight"}
    assert "without bias, without weight" in names("LayerNormFwdOp", "optional")


@pytest.mark.parametrize(
    ("op", "effects"),
    [
        ("ReLUFwdOp", {"inplace=False", "inplace=True"}),
        ("MaximaFwdOp", {"indices=False", "indices=True"}),
        ("BufferFwdOp", {"out"}),
        ("AccumulateFwdOp", set()),
    ],
)
def test_every_set_of_effects_is_there(op, effects):
    assert set(names(op, "effect")) == effects


def test_layouts_are_tried_on_every_set_of_effects():
    found = names("ReLUFwdOp", "layout")
    assert {"transposed", "transposed, inplace=True"} <= set(found)


def test_what_one_parameter_means_is_tried_with_every_value_of_another():
    found = names("GQADenseFwdOp", "branch")
    assert any("rope_layout=interleaved" in n and "pos_encoding_mode=rope" in n for n in found)


def test_a_branch_that_no_call_reaches_is_told():
    entry = {
        **faulty.SPECS["ProbeFwdOp"],
        "signature": {
            **faulty.SPECS["ProbeFwdOp"]["signature"],
            "params": {"fast": {"type": "bool", "default": False}},
            "shape_rules": ["not fast or M > 9000 and N > 9000 and M * N < 9000 ** 2 + 100000"],
        },
    }
    of = Variants(build_signature(load_spec_from(entry, "ProbeFwdOp")), 1000)
    of.all()
    assert of.unreached == ["fast=True"]


def test_representatives_are_the_effects_and_the_dtypes():
    few = variants("ReLUFwdOp").representatives()
    assert [v.column for v in few] == ["workload", "effect", "effect", "dtype", "dtype"]
