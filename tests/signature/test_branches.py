"""Discriminants, what they decide, and which combinations refinements leave."""

from __future__ import annotations

import pytest

from tileops_core.signature.branches import UNKNOWN, Branches, TooManyBranches
from tileops_core.spans import NOWHERE
from tileops_core.spec.grammar import parse_expression

FLAGS = {f"f{n}": {"type": "bool", "default": False} for n in range(20)}


@pytest.fixture
def branches(build):
    return lambda **changes: Branches(build(**changes))


def expr(text):
    return parse_expression(text, lambda offset, length: NOWHERE)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("flag", {"flag"}),
        ("not flag or mode == 'a'", {"flag", "mode"}),
        ("present(w)", {"present(w)"}),
        ("present(cap)", {"present(cap)"}),
        ("present(dtype) and dtype.value == T", {"dtype", "T"}),
        ("present(w) == (T == float16)", {"present(w)", "T"}),
        ("mode in ('a', 'b')", {"mode"}),
        ("category(T) == 'float'", {"T"}),
    ],
)
def test_a_condition_reads_discriminants(branches, text, keys):
    assert branches().keys(expr(text)) == keys


def test_a_comparison_of_lengths_stands_for_itself(branches):
    (key,) = branches().keys(expr("M > N"))
    assert key == expr("M > N")
    assert branches().keys(expr("flag and M > N")) == {"flag", expr("M > N")}


def test_the_presence_of_a_conditional_input_is_what_decides_it(branches):
    inputs = {"w": {"dtype": "T", "shape": "[N]", "optional": "flag and mode == 'a'"}}
    inputs = {"x": {"dtype": "T", "shape": "[M, N, *S]"}, **inputs}
    made = branches(inputs=inputs)
    assert made.keys(expr("present(w)")) == {"flag", "mode"}
    assert made.value(expr("present(w)"), {"flag": True, "mode": "a"}) is True
    assert made.value(expr("present(w)"), {"flag": False}) is False


def test_a_quantity_is_read_through(branches):
    made = branches(let={"either": "flag or mode == 'a'"})
    assert made.keys(expr("either")) == {"flag", "mode"}
    assert made.value(expr("not either"), {"flag": False, "mode": "b"}) is True


@pytest.mark.parametrize(
    ("text", "given", "value"),
    [
        ("flag and M > 1", {"flag": False}, False),
        ("flag or M > 1", {"flag": True}, True),
        ("flag and M > 1", {"flag": True}, UNKNOWN),
        ("flag", {}, UNKNOWN),
        ("not flag", {"flag": True}, False),
        ("M if flag else 3", {"flag": False}, 3),
        ("3 if M > 1 else 3", {}, 3),
        ("mode == 'a'", {"mode": "b"}, False),
        ("mode in ('a', 'b')", {"mode": "b"}, True),
        ("mode not in ('a', 'b')", {"mode": "b"}, False),
        ("present(dtype) and dtype.value == T", {"dtype": None, "T": "float16"}, False),
        ("present(dtype) and dtype.value == T", {"dtype": "float16", "T": "float16"}, True),
        ("T == float16", {"T": "float16"}, True),
        ("category(T) == 'float'", {"T": "float16"}, True),
        ("2 * 3 == 6", {}, True),
    ],
)
def test_an_expression_is_decided_as_far_as_it_can_be(branches, text, given, value):
    assert branches().value(expr(text), given) is value or value == 3


def test_what_is_unknown_is_never_taken_for_true_or_false():
    with pytest.raises(AssertionError):
        bool(UNKNOWN)


@pytest.mark.parametrize(
    ("text", "given", "names"),
    [
        ("M if flag else N", {"flag": True}, {"flag", "M"}),
        ("M if flag else N", {}, {"flag", "M", "N"}),
        ("flag and M > 1", {"flag": False}, {"flag"}),
        ("flag or M > 1", {"flag": True}, {"flag"}),
        ("M > 1 and flag and N > 1", {"flag": False}, {"M", "flag"}),
    ],
)
def test_names_behind_a_condition_that_does_not_hold_are_not_read(branches, text, given, names):
    assert branches().reads(expr(text), given) == names


def test_refinements_over_discriminants_rule_combinations_out(branches):
    made = branches(shape_rules=["flag == (mode == 'a')"])
    assert made.accepted({"flag"}) == (
        {"flag": False, "mode": "b"},
        {"flag": True, "mode": "a"},
    )
    assert made.count == 2


def test_a_refinement_over_lengths_rules_nothing_out(branches):
    made = branches(shape_rules=["flag or M > 1"])
    assert len(made.accepted({"flag"})) == 2


def test_dtype_combinations_tie_their_dtypes(branches):
    row = {"label": "r", "M": 1, "N": 1, "S": [], "dtype_cases": [{"T": "float16", "U": "float32"}]}
    rows = [{"T": "float16", "U": "float32"}, {"T": "float32", "U": "float16"}]
    made = branches(
        forall__U="DType[float16 | float32]",
        inputs={
            "x": {"dtype": "T", "shape": "[M, N, *S]"},
            "w": {"dtype": "U", "shape": "[N]"},
        },
        dtype_combos=rows,
        workloads=[row],
    )
    assert list(made.accepted({"T"})) == rows


def test_sealed_sums_are_told_apart_by_form_and_finite_fields(branches):
    made = branches(
        params={"layout": {"type": "MGroupedLayout"}},
        workloads=[
            {"label": "r", "M": 1, "N": 1, "S": [], "layout": {"masked": {"max_m": 8}},
             "dtype_cases": [{"T": "float16"}]}
        ],
    )  # fmt: skip
    kinds = [given["layout"].kind for given in made.accepted({"layout"})]
    assert kinds == ["contiguous"] * 4 + ["masked"]
    masked = made.accepted({"layout"})[-1]
    assert made.value(expr("layout.kind == 'masked'"), masked) is True
    assert made.value(expr("layout.max_m > 8"), masked) is UNKNOWN


def test_too_many_combinations_are_refused(branches):
    made = branches(params=FLAGS, inputs__w=None)
    with pytest.raises(TooManyBranches, match="f0, f1, f10"):
        made.accepted(FLAGS)
