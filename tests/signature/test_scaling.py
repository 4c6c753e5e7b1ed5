"""Cases at a smaller size."""

from __future__ import annotations

import attrs
import metadata_ops
import pytest

from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import cases, instantiate
from tileops_core.spec.catalogue import known_ops, load_spec

ROW = {"label": "row", "M": 64, "N": 96, "S": [128], "dtype_cases": [{"T": "float16"}]}


def only(signature):
    (case,) = cases(signature)
    return case


def sizes(case):
    return {name: value for name, value in case.indices.items() if name != "T"}


def test_a_case_that_fits_stays_as_it_is(build):
    case = only(build(workloads=[{**ROW, "small": {"M": 1}}]))
    assert case.scaled(case.elements) is case


def test_the_rows_own_small_sizes_are_taken(build):
    case = only(build(workloads=[{**ROW, "small": {"M": 3, "S": [5]}}]))
    assert sizes(case.scaled(10_000)) == {"M": 3, "N": 96, "S": (5,)}


def test_small_sizes_that_do_not_fit_are_halved_further(build):
    case = only(build(workloads=[{**ROW, "small": {"M": 4, "N": 4, "S": [64]}}]))
    assert sizes(case.scaled(500)) == {"M": 4, "N": 4, "S": (8,)}


def test_the_greatest_length_is_halved_first(build):
    case = only(build(workloads=[ROW]))
    assert sizes(case.scaled(case.elements - 1)) == {"M": 64, "N": 96, "S": (64,)}
    assert sizes(case.scaled(case.elements // 2 - 1)) == {"M": 64, "N": 48, "S": (64,)}


def test_what_the_entry_refuses_is_not_halved(build):
    case = only(build(workloads=[ROW], shape_rules=["N == 96", "M % 16 == 0", "len(S) == 1"]))
    assert sizes(case.scaled(1)) == {"M": 16, "N": 96, "S": (1,)}


def test_what_a_refinement_ties_is_halved_together(build):
    case = only(build(workloads=[{**ROW, "M": 96, "S": [192]}], shape_rules=["S == (2 * M,)"]))
    small = sizes(case.scaled(20_000))
    assert small["S"] == (2 * small["M"],)
    assert case.scaled(20_000).elements <= 20_000


def test_a_shape_among_the_parameters_is_scaled(build):
    signature = build(
        params__tail={"type": "list[int] | tuple[int, ...]", "kw_only": True},
        inputs__w={"dtype": "T", "shape": "[*tail]"},
        workloads=[{**ROW, "tail": [1024, 3]}],
    )
    case = only(signature).scaled(2_000)
    assert case.params["tail"] == case.inputs["w"][1]
    assert case.elements <= 2_000


def test_other_parameters_stay(build):
    case = only(build(workloads=[{**ROW, "size": 4096, "flag": True, "dim": 2}]))
    assert case.scaled(100).params == case.params


def test_a_scaled_case_keeps_its_name_and_seed(build):
    case = only(build(workloads=[ROW]))
    small = case.scaled(100)
    assert (small.case_id, small.label, small.seed) == (case.case_id, case.label, case.seed)


def test_nothing_becomes_empty(build):
    case = only(build(workloads=[ROW])).scaled(0)
    assert sizes(case) == {"M": 1, "N": 1, "S": (1,)}


METADATA_OPS = [
    pytest.param(op, case, id=f"{op}-{case.label}")
    for op in metadata_ops.SPECS
    for case in cases(metadata_ops.signature_of(op), requires=False)
    if case.case_id.endswith("-float16")
]


@pytest.mark.parametrize(("op", "case"), METADATA_OPS)
@pytest.mark.parametrize("bound", [50_000, 5_000])
def test_lengths_that_metadata_tells_follow_it(op, case, bound):
    small = case.scaled(bound)
    assert small.elements <= bound
    # What it came to is a row of its own, with everything that the entry requires.
    row = {**small.indices, **small.params}
    signature = metadata_ops.signature_of(op)
    again = instantiate(signature, *_as_row(signature, case, row))
    assert again == small


def _as_row(signature, case, values):
    (row,) = [r for r in signature.workloads if r.label == case.label]
    names = {param.name for param in signature.params}
    indices = {n: v for n, v in values.items() if n not in names and n != "T"}
    params = {n: v for n, v in values.items() if n in names}
    return attrs.evolve(row, indices=indices, params=params), {"T": values["T"]}


def test_requests_become_fewer_in_all_lists_at_once():
    signature = metadata_ops.signature_of("PackedFwdOp")
    case = next(cases(signature)).scaled(100)
    assert len(case.indices["q_lens"]) == len(case.indices["kv_lens"]) == case.indices["B"] < 8


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_every_case_of_the_manifest_can_be_made_small(op):
    signature = build_signature(load_spec(op))
    for case in cases(signature):
        # a tile of float8 with its own multiplier has 128 by 128 elements already
        assert case.scaled(20_000).elements <= 21_000
