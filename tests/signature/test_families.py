from __future__ import annotations

import pytest

from tileops_core.signature.evaluate import axes_of, evaluate

MAT = {
    "params": {"t": "Bool", "R": "Dim", "C": "Dim"},
    "match": "t",
    "cases": [{"when": False, "is": "[R, C]"}, {"when": True, "is": "[C, R]"}],
}
PAIR = {
    "params": {"a": "Bool", "m": "'a' | 'b'", "P": "Shape"},
    "match": ["a", "m"],
    "cases": [
        {"when": [False, "a"], "is": "[*P]"},
        {"when": [False, "b"], "is": "[*P, 1]"},
        {"when": [True, "a"], "is": "Mat[a, 2, 3]"},
        {"when": [True, "b"], "is": "[]"},
    ],
}


def shapes(tensor, **values):
    """The shape of every case whose condition holds."""
    return [
        axes_of(case.axes, values)
        for case in tensor.shape
        if case.when is None or evaluate(case.when, values)
    ]


def test_a_plain_shape_is_one_case_that_always_holds(build):
    x = build().inputs[0]
    assert [case.when for case in x.shape] == [None]
    assert shapes(x, M=2, N=3, S=(4,)) == [(2, 3, 4)]


def test_a_family_is_expanded_with_its_arguments(build):
    w = build(types={"Mat": MAT}, inputs__w={"dtype": "T", "shape": "Mat[not flag, M + 1, 2 * N]"})
    assert shapes(w.inputs[1], flag=True, M=1, N=2) == [(2, 4)]
    assert shapes(w.inputs[1], flag=False, M=1, N=2) == [(4, 2)]


def test_a_literal_argument_leaves_one_case_that_always_holds(build):
    w = build(types={"Mat": MAT}, inputs__w={"dtype": "T", "shape": "Mat[True, M, N]"}).inputs[1]
    assert [case.when for case in w.shape] == [None]
    assert shapes(w, M=1, N=2) == [(2, 1)]


def test_several_discriminants_and_families_in_families(build):
    entry = build(
        types={"Mat": MAT, "Pair": PAIR},
        inputs__w={"dtype": "T", "shape": "Pair[flag, mode, S]"},
    )
    w = entry.inputs[1]
    for flag, mode, expected in (
        (False, "a", (7, 8)),
        (False, "b", (7, 8, 1)),
        (True, "a", (3, 2)),
        (True, "b", ()),
    ):
        assert shapes(w, flag=flag, mode=mode, S=(7, 8)) == [expected]


def test_the_presence_of_a_tensor_can_choose_the_case(build):
    entry = build(types={"Mat": MAT}, outputs__y={"dtype": "T", "shape": "Mat[present(w), M, N]"})
    (y,) = entry.outputs
    assert shapes(y, w=None, M=1, N=2) == [(1, 2)]
    assert shapes(y, w=("float16", (2,)), M=1, N=2) == [(2, 1)]


def test_one_family_may_serve_several_tensors_with_different_arguments(build):
    entry = build(
        types={"Mat": MAT},
        inputs__x={"dtype": "T", "shape": "Mat[flag, M, N]"},
        inputs__w={"dtype": "T", "shape": "Mat[mode == 'a', N, M]"},
        outputs__y={"dtype": "T", "shape": "[M]"},
        forall__S=None,
        workloads=[{"label": "row", "M": 2, "N": 3, "dtype_cases": [{"T": "float16"}]}],
    )
    x, w = entry.inputs
    assert shapes(x, flag=True, M=1, N=2) == [(2, 1)]
    assert shapes(w, mode="b", M=1, N=2) == [(2, 1)]


@pytest.mark.parametrize(
    ("argument", "more"),
    [
        ("M > 1", {}),
        ("flag and len(S) > 1", {}),
        ("big", {"let": {"big": "half > 1", "half": "M // 2"}}),
    ],
)
def test_a_discriminant_hangs_on_no_length(problems, argument, more):
    shape = {"dtype": "T", "shape": f"Mat[{argument}, M, N]"}
    (problem,) = problems(types={"Mat": MAT}, outputs__y=shape, **more)
    assert problem.code == "family-match"
    assert "has no finitely many values" in problem.message
    assert problem.span.text[problem.span.column - 1 :].startswith(argument)
    assert "present(t)" in problem.hint


def test_one_that_is_passed_on_to_another_family_hangs_on_no_length_either(problems):
    outer = {
        "params": {"t": "Bool", "R": "Dim"},
        "match": "t",
        "cases": [{"when": False, "is": "[R]"}, {"when": True, "is": "Mat[R > 1, R, 2]"}],
    }
    shape = {"dtype": "T", "shape": "Outer[flag, M]"}
    (problem,) = problems(types={"Mat": MAT, "Outer": outer}, outputs__y=shape)
    assert problem.code == "family-match"
    assert problem.span.text[problem.span.column - 1 :].startswith("R > 1")


@pytest.mark.parametrize(
    ("argument", "more"),
    [
        ("size.value > 1 if present(size) else flag", {}),
        ("present(w) and T == float16", {}),
        ("both", {"let": {"both": "flag and present(w)"}}),
    ],
)
def test_one_is_settled_at_construction_or_by_presence_and_dtypes(problems, argument, more):
    shape = {"dtype": "T", "shape": f"Mat[{argument}, M, N]"}
    assert problems(types={"Mat": MAT}, outputs__y=shape, **more) == ()


def test_a_word_that_may_be_none_is_matched_with_a_word_for_none(build):
    family = {
        "params": {"m": "'a' | 'b' | 'none'", "R": "Dim"},
        "match": "m",
        "cases": [
            {"when": "a", "is": "[R]"},
            {"when": "b", "is": "[R, 2]"},
            {"when": "none", "is": "[]"},
        ],
    }
    y = build(
        params__how={"type": "'a' | 'b' | None", "default": None},
        types={"F": family},
        outputs__y={"dtype": "T", "shape": "F[how.value if present(how) else 'none', M]"},
    ).outputs[0]
    assert shapes(y, how="a", M=3) == [(3,)]
    assert shapes(y, how="b", M=3) == [(3, 2)]
    assert shapes(y, how=None, M=3) == [()]


def test_a_shape_that_could_not_be_read_leaves_no_family_unused(problems):
    changes = {"types": {"Mat": MAT}, "inputs__w": {"dtype": "T", "shape": "Mat[flag, M, N"}}
    assert [problem.code for problem in problems(**changes)] == ["expression-syntax"]
