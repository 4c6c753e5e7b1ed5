"""``values`` and ``requires`` of inputs, and the indices that only workload rows give."""

from __future__ import annotations

import pytest

from tileops_core.signature.generators import GENERATORS
from tileops_core.signature.kinds import SEQ
from tileops_core.signature.predicates import PREDICATES

LENS = {"forall__lens": "Seq[Int]", "inputs__w": None}
ROW = {"label": "row", "M": 2, "N": 3, "S": [], "dtype_cases": [{"T": "float16"}]}


def offsets(name="offsets", **more):
    """An input that says where packed sequences begin and end, and the row that fills it."""
    given = {"dtype": "int32", "shape": "[M + 1]", "values": "prefix_sum(lens)", **more}
    return {
        **LENS,
        f"inputs__{name}": {key: value for key, value in given.items() if value is not None},
        "workloads": [{**ROW, "lens": [1, 2]}],
    }


def test_a_generator_and_predicates_are_kept_with_the_input(build):
    signature = build(**offsets(requires=["prefix_offsets(N)", "in_range(0, N + 1)"]))
    tensor = signature.inputs[-1]
    assert tensor.values.function == "prefix_sum"
    assert [r.text for r in tensor.requires] == ["prefix_offsets(N)", "in_range(0, N + 1)"]
    assert signature.kind_of("lens") == SEQ


def test_a_predicate_names_the_other_tensor_it_reads(build):
    first = offsets()
    signature = build(
        **first,
        inputs__chunks={
            "dtype": "int32",
            "shape": "[M + 1]",
            "values": "chunk_offsets(lens, 2)",
            "requires": ["chunk_offsets_of(offsets, 2)"],
            "optional": True,
        },
    )
    assert signature.inputs[-1].requires[0].tensors == ("offsets",)


def test_an_index_that_only_a_generator_reads_is_of_rows_only(build):
    changes = offsets(values="prefix_sum(balanced_sizes(total, M))")
    changes["workloads"] = [{**ROW, "total": 3}]
    del changes["forall__lens"]
    signature = build(**changes, forall__total="Dim")
    assert {i.name for i in signature.indices if i.row_only} == {"total"}


@pytest.mark.parametrize(
    ("changes", "code", "message", "hint"),
    [
        (offsets(values="prefix_sums(lens)"), "metadata", "did you mean 'prefix_sum'", ""),
        (offsets(values="lens"), "metadata", "values: no generator", "prefix_sum"),
        (offsets(values="repeat(M, 2)"), "metadata", "'repeat' is no generator", ""),
        (offsets(values="prefix_sum(M)"), "kind", "a list of ints (Seq[Int])", ""),
        (offsets(values="prefix_sum(S)"), "kind", "a list of ints (Seq[Int])", ""),
        (
            offsets(values="prefix_sum(lens, 2)"),
            "arguments",
            "takes 1 arg",
            "prefix_sum(lengths: a li",
        ),
        (offsets(values="prefix_sum(x)"), "tensor-read", "", ""),
        (offsets(values="prefix_sum(lens=lens)"), "arguments", "takes 1 arg", ""),
        (offsets(requires=["prefix_offset(N)"]), "metadata", "did you mean 'prefix_offsets'", ""),
        (offsets(requires=["N > 1"]), "metadata", "no predicate", "in_range"),
        (
            offsets(requires=["prefix_offsets()"]),
            "arguments",
            "takes 1",
            "prefix_offsets(total: an int)",
        ),
        (offsets(requires=["prefix_offsets(S)"]), "kind", "due as total", "(total: an int)"),
        (offsets(requires=["indices_within(offsets)"], shape="[M, 2]"), "metadata", "other", ""),
        (offsets(requires=["exclusive_prefix_of(x)"]), "metadata", "x is no other input", ""),
        (offsets(requires=["exclusive_prefix_of(N)"]), "kind", "a metadata tensor's name", ""),
        (offsets(requires=["prefix_offsets(N)"], shape="[M, 1]"), "metadata", "1 axis", ""),
        (offsets(requires=["prefix_offsets(N)"], shape="[*S]"), "metadata", "1 axis", ""),
        (offsets(requires=["in_range(0, N)"], shape="[]"), "metadata", "has no axis", ""),
        (offsets(values="prefix_sum(lens"), "expression-syntax", "never closed", ""),
        (offsets(dtype="float32"), "metadata", "dtype float32", ""),
        (offsets(dtype="T"), "metadata", "dtype T", ""),
        (offsets(requires=["prefix_offsets(U)"]), "unknown-name", "'U' is not declared", ""),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(problems, changes, code, message, hint):
    # Where the generator does not read lens, nothing does.
    (problem,) = [p for p in problems(**changes) if p.code != "unsourced-index"]
    assert problem.code == code
    assert message in problem.message
    assert hint in problem.hint
    assert "^" in problem.span.snippet()


def test_requirements_without_values_are_refused(problems):
    changes = {
        "inputs__w": None,
        "inputs__ids": {"dtype": "int32", "shape": "[M]", "requires": ["in_range(0, N)"]},
    }
    (problem,) = problems(**changes)
    assert problem.code == "metadata"
    assert "no workload row could fill it" in problem.message


def test_a_predicate_reads_only_tensors_that_are_always_there(problems):
    chunks = {
        "dtype": "int32",
        "shape": "[M + 1]",
        "values": "chunk_offsets(lens, 2)",
        "requires": ["chunk_offsets_of(offsets, 2)"],
        "optional": True,
    }
    (problem,) = problems(**offsets(optional=True), inputs__chunks=chunks)
    assert problem.message == "offsets may be absent, and a predicate reads what is always passed"


@pytest.mark.parametrize(
    "changes",
    [
        {"shape_rules": ["total > 1"]},
        {"let": {"L": "total + 1"}},
        {"outputs__y": {"dtype": "T", "shape": "[total]"}},
        {"roofline": {"flops": "total * M"}},
        {"inputs__ids__requires": ["in_range(0, total)"]},
    ],
)
def test_a_call_reads_nothing_that_only_rows_give(problems, changes):
    changes = {
        "inputs__w": None,
        "forall__total": "Dim",
        "inputs__ids": {
            "dtype": "int32",
            "shape": "[M]",
            "values": "as_tensor(balanced_sizes(total, M))",
        },
        "workloads": [{**ROW, "total": 5}],
        **changes,
    }
    assert {problem.code for problem in problems(**changes)} == {"unsourced-index"}


@pytest.mark.parametrize("text", ["lens == (1, 2)", "sum(lens) > 0", "len(lens) == M", "lens > 1"])
def test_a_list_of_lengths_is_read_by_generators_alone(problems, text):
    found = problems(**offsets(), shape_rules=[text])
    assert {problem.code for problem in found} <= {"kind", "unsourced-index"}
    assert found


def test_a_list_that_no_generator_reads_is_of_no_use(problems):
    (problem,) = problems(forall__lens="Seq[Int]")
    assert problem.code == "unsourced-index"


def test_what_makes_values_is_no_part_of_a_calls_meaning(build):
    plain = build(**offsets())
    other = build(**offsets(values="chunk_offsets(lens, 1)"))
    stricter = build(**offsets(requires=["prefix_offsets(N)"]))
    assert plain.entry_hash == other.entry_hash != stricter.entry_hash


def test_generators_and_predicates_have_names_of_their_own():
    assert not GENERATORS.keys() & PREDICATES.keys()
