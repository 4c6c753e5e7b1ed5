"""What cannot be solved is told by its cause, once."""

from __future__ import annotations

import pytest

from tileops_core.signature.solving import solve


@pytest.fixture
def unsolved(build):
    """The messages of what an entry leaves unsolved."""
    return lambda **changes: [p.message for p in solve(build(**changes)).unsolved]


def x(shape, **more):
    return {"inputs__x": {"dtype": "T", "shape": shape}, **more}


def test_the_axis_at_fault_is_named_and_no_innocent_index(unsolved):
    assert unsolved(**x("[M * N, *S]")) == [
        "x cannot be solved for M and N: its axis M * N does not tell them"
    ]
    assert unsolved(**x("[M * N, N, *S]")) == [
        "x cannot be solved for M: its axis M * N does not tell it"
    ]


def test_each_axis_at_fault_is_told(build):
    signature = build(forall__K="Dim", **x("[M * M, N, K * K, *S]"))
    found = solve(signature).unsolved
    assert [p.span.text[p.span.column - 1 :][: p.span.length] for p in found] == ["M * M", "K * K"]
    assert all("as a plain axis" in p.hint for p in found)


def test_what_only_hangs_on_the_cause_is_not_told(unsolved):
    changes = {
        "let": {"L": "M + 1"},
        "shape_rules": ["L > N"],
        "outputs__y": {"dtype": "T", "shape": "[L, M]"},
        "inputs__v": {"dtype": "T", "shape": "[M + N]", "kw_only": True},
    }
    assert len(unsolved(**x("[M * N, *S]", **changes))) == 1


def test_the_tensor_that_no_other_could_help_is_the_cause(unsolved):
    """v could be read if x could, and not the other way round."""
    changes = {"inputs__v": {"dtype": "T", "shape": "[M * N]", "kw_only": True}}
    (message,) = unsolved(**x("[M + N, *S]", **changes))
    assert message.startswith("v cannot be solved for M and N")


def test_two_causes_are_both_told(unsolved):
    changes = {"forall__K": "Dim", "inputs__v": {"dtype": "T", "shape": "[K * K]", "kw_only": True}}
    found = unsolved(**x("[M * N, *S]", **changes))
    assert [message.split(" cannot")[0] for message in found] == ["x", "v"]


def test_two_splices_are_told(build):
    (problem,) = solve(build(forall__R="Shape", **x("[M, N, *S, *R]"))).unsolved
    assert problem.message.startswith("x cannot be solved for R and S: where one of them ends")
    assert problem.span.text[problem.span.column - 1 :].startswith("*R")


def test_a_computed_splice_is_told(unsolved):
    (message,) = unsolved(**x("[M, N, *S[1:]]"))
    assert message == "x cannot be solved for S: no axes tell them from *S[1:]"


def test_a_computed_dtype_is_told(unsolved):
    changes = {"inputs__x": {"dtype": "promote_int_to_float(T)", "shape": "[M, N, *S]"}}
    (message,) = unsolved(**changes, inputs__w=None)
    assert message == "x cannot be solved for T: its dtype is computed"


def test_a_shape_that_hangs_on_the_tensors_own_dtype_is_told(unsolved):
    family = {
        "params": {"t": "Bool", "A": "Dim", "B": "Dim", "R": "Shape"},
        "match": "t",
        "cases": [{"when": False, "is": "[A, B, *R]"}, {"when": True, "is": "[B, A, *R]"}],
    }
    (message,) = unsolved(types={"Mat": family}, inputs__w=None, **x("Mat[T == float16, M, N, S]"))
    assert message == "x cannot be solved for T: which case its shape has hangs on that"
