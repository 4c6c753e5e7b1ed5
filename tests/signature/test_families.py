from __future__ import annotations

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
