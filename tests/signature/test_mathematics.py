"""A signature as a type."""

from __future__ import annotations

import hard_entries
import pytest

from tileops_core.signature.build import build_signature
from tileops_core.signature.mathematics import WIDTH, as_mathematics, broken
from tileops_core.spec.catalogue import ManifestFile, known_ops, load_spec, load_spec_from
from tileops_core.spec.comments import Comments


def written(op: str, **signature) -> str:
    spec = load_spec_from(
        {
            "family": "acme",
            "status": "spec-only",
            "signature": {
                "forall": {"N": "Dim", "T": "DType[float32]"},
                "inputs": {"x": {"dtype": "T", "shape": "[N]"}},
                "outputs": {"y": {"dtype": "T", "shape": "[N]"}},
                **signature,
            },
            "workloads": [{"label": "a", "N": 1, "dtype_cases": [{"T": "float32"}]}],
        },
        op,
    )
    return as_mathematics(build_signature(spec), spec.types)


def of(op: str, **options) -> str:
    spec = load_spec(op)
    return as_mathematics(build_signature(spec), spec.types, **options)


def test_an_op_is_a_function_of_tensors() -> None:
    assert written("AcmeFwdOp").splitlines() == [
        "AcmeFwdOp : ∀ N: Dim; T ∈ {float32}.",
        "  (x: Tensor[T, [N]])",
        "  → y: Tensor[T, [N]]",
    ]


def test_what_it_is_constructed_with_comes_first() -> None:
    assert of("GEMMFwdOp").splitlines()[:4] == [
        "GEMMFwdOp : ∀ M, N, K: Dim; T ∈ {float16, bfloat16, float32}.",
        "  (trans_a: bool = False, trans_b: bool = True)",
        "  → (a: Tensor[T, Mat[trans_a, M, K]], b: Tensor[T, Mat[trans_b, K, N]])",
        "  → d: Tensor[T, [M, N]]",
    ]


def test_a_star_is_in_front_of_what_is_passed_by_name() -> None:
    text = written(
        "AcmeFwdOp",
        params={
            "p": {"type": "int", "default": 0},
            "q": {"type": "int", "default": 1, "kw_only": True},
        },
        inputs={
            "x": {"dtype": "T", "shape": "[N]"},
            "w": {"dtype": "T", "shape": "[N]", "optional": True, "kw_only": True},
        },
    )
    assert "(p: int = 0, *, q: int = 1)" in text
    assert "(x: Tensor[T, [N]], *, w: Tensor[T, [N]] | None)" in text


def test_a_tensor_at_construction_has_its_type_and_its_default() -> None:
    text = written(
        "AcmeFwdOp",
        params={
            "w": {"dtype": "T", "shape": "[N]"},
            "b": {"dtype": "T", "shape": "[N]", "optional": True},
        },
    )
    assert "(w: Tensor[T, [N]], b: Tensor[T, [N]] | None = None)" in text


def test_an_op_may_take_and_return_nothing() -> None:
    text = written(
        "AcmeFwdOp",
        inputs={"x": {"dtype": "T", "shape": "[N]", "mutated": True}},
        outputs={},
    )
    assert text.endswith("→ ()")


def test_a_type_family_is_told_once_with_all_its_cases() -> None:
    assert of("GEMMFwdOp").splitlines()[4:] == [
        "  where    Mat[transposed, R, C] = [R, C] if not transposed",
        "                                   [C, R] if transposed",
    ]


def test_without_the_families_their_applications_are_told() -> None:
    text = as_mathematics(build_signature(load_spec("GEMMFwdOp")))
    assert "where    Mat[trans_a, M, K] = [M, K] if not trans_a; [K, M] if trans_a" in text


def test_a_case_names_the_form_of_a_sealed_sum_and_its_fields() -> None:
    spec = hard_entries.spec("ExpertProductsFwdOp")
    text = as_mathematics(hard_entries.signature("ExpertProductsFwdOp"), spec.types)
    assert "if layout is masked" in text
    assert "if layout is contiguous(metadata_kind='per_row')" in text


def test_quantities_and_refinements_have_a_line_each() -> None:
    text = written("AcmeFwdOp", let={"M": "2 * N", "K": "M + 1"}, shape_rules=["N > 0", "M > 1"])
    assert text.splitlines()[3:] == [
        "  with     M = 2 * N",
        "           K = M + 1",
        "  requires N > 0",
        "           M > 1",
    ]


def test_dtypes_that_go_together_are_a_refinement() -> None:
    spec = hard_entries.spec("GQAPagedFwdOp")
    text = as_mathematics(hard_entries.signature("GQAPagedFwdOp"), spec.types)
    assert "  requires (" in text
    assert ") in ((float16, float16)," in text


def test_indices_that_only_rows_have_are_not_quantified_over() -> None:
    lines = of("GQAPagedFwdOp").splitlines()
    assert lines[-1] == "  rows     q_lens, cache_lens: Seq[Int]"
    assert "Seq[Int]" not in "".join(lines[:-1])


def test_stages_of_a_composite_op_may_be_left_out() -> None:
    lines = of("FusedMoEExpertsFwdOp").splitlines()
    assert "  stages   pre_permute: MoEPrePermuteFwdOp | None" in lines
    assert "           expert_mlp: MoEExpertMLPFwdOp" in lines


def test_a_comment_stands_above_what_it_speaks_of() -> None:
    text = (
        "AcmeFwdOp:\n"
        "  family: acme\n"
        "  status: spec-only\n"
        "  signature:\n"
        "    forall: {N: Dim}\n"
        "    inputs: {x: {dtype: float32, shape: '[N]'}}\n"
        "    outputs: {}\n"
        "    let:\n"
        "      # twice\n"
        "      M: 2 * N\n"
        "  workloads: [{label: a, N: 1}]\n"
    )
    file = ManifestFile("acme.yaml", text)
    spec, comments = file.load("AcmeFwdOp"), Comments(file.source)
    told = as_mathematics(build_signature(spec), (), lambda span: comments.above(span.line))
    assert told.splitlines()[-2:] == ["  with     # twice", "           M = 2 * N"]


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_no_line_is_too_long(op: str) -> None:
    assert [line for line in of(op).splitlines() if len(line) > WIDTH] == []


def test_a_long_text_is_broken_where_it_binds_least() -> None:
    assert broken("aaaa + bbbb if cccc else dddd * eeee", 24) == [
        "aaaa + bbbb if cccc",
        "else dddd * eeee",
    ]
    assert broken("aaaa and bbbb or cccc and dddd", 20) == ["aaaa and bbbb", "or cccc and dddd"]


def test_a_line_within_brackets_is_indented() -> None:
    assert broken("f(aaaa, bbbb) + g(cccc, dddd)", 14) == ["f(aaaa, bbbb)", "+ g(cccc,", "  dddd)"]


def test_a_text_is_not_broken_within_quotes() -> None:
    assert broken("x == 'a or b'", 8) == ["x", "== 'a or b'"]


def test_a_text_without_a_place_to_break_it_stays_long() -> None:
    assert broken("a" * 20, 10) == ["a" * 20]
