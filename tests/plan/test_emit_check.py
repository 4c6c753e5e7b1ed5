"""What a refused call is told, and in which order its facts are checked."""

from __future__ import annotations

import pytest
import torch
from plan_support import facts, optional, plan, spec, statics

from tileops_core.errors import SignatureError
from tileops_core.plan.sites import AxisError
from tileops_core.tensor_spec import TensorSpec

SHAPE = "list[int] | tuple[int, ...]"


def refused(some_plan, inputs, **params):
    with pytest.raises(SignatureError) as caught:
        facts(some_plan, inputs, **params)
    return caught.value


NORM = plan(
    "*B",
    {"x": "[*B, *W]", "weight": optional("[*W]")},
    {"y": "[*B, *W]"},
    params={"W": SHAPE},
    shape_rules=["len(W) > 0"],
)
GEMM = plan("M N K", {"a": "[M, K]", "b": "[K, N]"}, {"d": "[M, N]"})


# -- every error says op, tensor, axis, both sides and the place --------------------------


def place(some_plan, tensor, part):
    """``file:line`` of a part of a tensor's declaration."""
    declared = next(t for t in some_plan.signature.inputs if t.name == tensor)
    return getattr(declared, part).short


def test_a_wrong_length_is_told_with_axis_both_shapes_and_place():
    error = refused(GEMM, {"a": spec(2, 3), "b": spec(4, 5)})
    where = place(GEMM, "b", "shape_span")
    assert str(error) == (
        "ProbeFwdOp: b has shape (4, 5), the signature says [K, N] = (3, N) (axis 0 differs)"
        f"  [{where}]"
    )
    assert (error.op, error.tensor, error.axis) == ("ProbeFwdOp", "b", 0)
    assert (error.actual, error.expected) == ((4, 5), (3, "N"))
    assert error.span.short == where
    assert where == "signature.inputs.b.shape"


def test_a_wrong_rank_is_told_with_both_numbers():
    error = refused(GEMM, {"a": spec(2, 3, 4), "b": spec(4, 5)})
    assert "a has 3 axes (2, 3, 4), the signature says [M, K], which has 2 axes  [" in str(error)
    assert (error.tensor, error.axis) == ("a", None)
    assert (error.actual, error.expected) == ((2, 3, 4), 2)


def test_a_wrong_shape_of_a_known_splice_is_told_whole():
    error = refused(NORM, {"x": spec(2, 3, 4), "weight": spec(4)}, W=(3, 4))
    assert "weight has shape (4,), the signature says [*W] = (3, 4)  [" in str(error)
    error = refused(NORM, {"x": spec(2, 3, 5)}, W=(3, 4))
    assert "x has shape (2, 3, 5), the signature says [*B, *W] = (2, 3, 4)  [" in str(error)


def test_a_dtype_outside_the_union_is_told_with_the_union():
    error = refused(GEMM, {"a": spec(2, 3, dtype=torch.int32), "b": spec(3, 5)})
    assert "a has dtype int32, the signature says T in float16 | float32  [" in str(error)
    assert error.span.short == place(GEMM, "a", "dtype_span")
    assert error.actual is torch.int32
    assert error.expected == (torch.float16, torch.float32)


def test_a_dtype_that_differs_is_told_with_what_settled_it():
    error = refused(GEMM, {"a": spec(2, 3), "b": spec(3, 5, dtype=torch.float16)})
    assert "b has dtype float16, the signature says T = float32  [" in str(error)
    assert (error.actual, error.expected) == (torch.float16, torch.float32)


def test_a_constant_dtype_is_told_once():
    checks = plan("M", {"x": "[M]", "n": {"dtype": "int64", "shape": "[M]"}})
    error = refused(checks, {"x": spec(2), "n": spec(2)})
    assert "n has dtype float32, the signature says int64  [" in str(error)


def test_a_device_that_differs_is_told_with_the_other_tensor():
    there = TensorSpec("meta", torch.float32, (3, 5))
    error = refused(GEMM, {"a": spec(2, 3), "b": there})
    assert "b is on meta, a is on cpu; every tensor of a call must be on one device" in str(error)
    assert (error.tensor, str(error.actual), str(error.expected)) == ("b", "meta", "cpu")


def test_a_tensor_that_stays_on_the_cpu_is_told_so():
    lengths = {"dtype": "int64", "shape": "[M]", "device": "cpu"}
    checks = plan("M", {"x": "[M]", "lengths": lengths})
    there = TensorSpec("meta", torch.float32, (2,))
    assert facts(checks, {"x": there, "lengths": spec(2, dtype=torch.int64)})["_device"].type == (
        "meta"
    )
    error = refused(checks, {"x": there, "lengths": TensorSpec("meta", torch.int64, (2,))})
    assert "lengths is on meta, the signature says it stays on the CPU" in str(error)


def test_the_device_is_that_of_a_tensor_that_is_there():
    flag = {"y": {"dtype": "bool", "shape": "[]"}}
    checks = plan("M N", {"x": optional("[M]"), "z": optional("[N]")}, flag)
    there = TensorSpec("meta", torch.float32, (2,))
    assert facts(checks, {"z": there})["_device"] == torch.device("meta")
    assert facts(checks, {})["_device"].type in ("cpu", "cuda")
    assert "z is on meta, another input is on cpu" in str(
        refused(checks, {"x": spec(2), "z": there})
    )


def test_a_layout_that_is_not_contiguous_is_told_with_the_remedy():
    checks = plan("M N", {"x": {"dtype": "T", "shape": "[M, N]", "contiguous": True}})
    checks.check((), torch.ones(2, 3))
    with pytest.raises(SignatureError, match=r"x is not contiguous, .*; pass x.contiguous\(\)"):
        checks.check((), torch.ones(2, 3).t())


@pytest.mark.parametrize(("given", "verb"), [(True, "must not"), (False, "must")])
def test_a_presence_that_does_not_fit_is_told_with_its_condition(given, verb):
    checks = plan("M", {"x": "[M]", "table": optional("[M]", "mode == 'b'")},
                  params={"mode": {"type": "'a' | 'b'", "default": "a"}})  # fmt: skip
    inputs = {"x": spec(2), **({"table": spec(2)} if given else {})}
    mode = "a" if given else "b"
    error = refused(checks, inputs, mode=mode)
    assert f"table {verb} be given with mode='{mode}'" in str(error)
    assert "the signature takes it exactly when mode == 'b'  [" in str(error)
    assert (error.actual, error.expected) == (given, not given)


def test_a_refinement_that_fails_is_told_with_what_it_read():
    checks = plan("M N", {"x": "[M, N]"}, params={"p": "int"}, shape_rules=["M % p == 0 or N < p"])
    error = refused(checks, {"x": spec(7, 4)}, p=3)
    assert "the signature requires M % p == 0 or N < p, got M=7, p=3, N=4  [" in str(error)
    assert error.expected == "M % p == 0 or N < p"
    assert error.actual == {"M": 7, "p": 3, "N": 4}


def test_a_refinement_over_presence_and_dtype_tells_both():
    inputs = {"x": "[M]", "w": optional("[M]")}
    checks = plan("M", inputs, shape_rules=["present(w) == (T == float16)"])
    error = refused(checks, {"x": spec(2), "w": spec(2)})
    assert "got present(w)=True, T=float32  [" in str(error)


def test_an_axis_that_is_not_there_is_an_index_error_too():
    checks = plan("*S", {"x": "[*S]"}, params={"dim": "int"}, shape_rules=["valid_axes(S, dim)"])
    error = refused(checks, {"x": spec(2, 3)}, dim=5)
    assert type(error) is AxisError
    assert isinstance(error, IndexError)
    said = "dim 5 is out of range for rank 2, it must lie in [-2, 1], got S=(2, 3), dim=5  ["
    assert said in str(error)
    assert error.tensor is None
    assert error.expected == "valid_axes(S, dim)"
    assert error.actual == "dim 5 is out of range for rank 2, it must lie in [-2, 1]"


def test_a_primitive_that_refuses_its_values_is_told_with_the_declaration():
    checks = plan("*A *B", {"a": "[*A]", "b": "[*B]"}, let={"C": "broadcast(A, B)"})
    error = refused(checks, {"a": spec(2, 3), "b": spec(4)})
    assert "ProbeFwdOp: C: (2, 3) and (4,) do not broadcast: lengths 3 and 4 meet  [" in str(error)


@pytest.mark.parametrize(
    ("let", "said"),
    [("M // (M - 3)", "let L divides by zero"), ("S[M]", "let L reads an axis that is not there")],
)
def test_arithmetic_that_fails_is_told_with_the_declaration(let, said):
    checks = plan("M *S", {"x": "[M, *S]"}, let={"L": let})
    error = refused(checks, {"x": spec(3, 2)})
    assert f"ProbeFwdOp: L: {said}  [" in str(error)
    assert error.span.text.strip() == f"L: {let}"


def test_a_refusal_names_no_error_it_stands_for():
    """The primitive's own error would only hide the sentence below two tracebacks."""
    checks = plan("M", {"x": "[M]"}, let={"L": "M // (M - 3)"})
    assert refused(checks, {"x": spec(3)}).__cause__ is None


def test_an_axis_in_an_expression_is_told_as_it_is_written():
    checks = plan("M", {"m": "[M]", "x": "[2 * (M + 1), M]"})
    error = refused(checks, {"m": spec(3), "x": spec(9, 3)})
    assert "x has shape (9, 3), the signature says [2 * (M + 1), M] = (8, 3) (axis 0 differs)" in (
        str(error)
    )


def test_an_axis_after_the_open_splice_counts_from_the_front_in_the_error():
    checks = plan("*B K", {"k": "[K]", "x": "[*B, K, 2]"})
    assert refused(checks, {"k": spec(3), "x": spec(5, 5, 4, 2)}).axis == 2
    assert refused(checks, {"k": spec(3), "x": spec(5, 5, 3, 1)}).axis == 3


# -- order --------------------------------------------------------------------------------


def test_the_order_of_checks_is_presence_then_domain_then_dtype_and_shape_then_the_rest():
    checks = plan(
        "M",
        {"x": "[M, 2]", "w": optional("[M]", "flag")},
        params={"flag": "bool", "p": {"type": "int", "default": 1}},
        shape_rules=["not present(w) or p > 0", "M > 1"],
    )
    call = {"x": TensorSpec("meta", torch.int8, (1, 3)), "w": spec(4)}
    said = []
    repairs = [
        lambda: params.update(flag=True),
        lambda: params.update(p=1),
        lambda: call.update(x=spec(1, 3, dtype=torch.int8)),
        lambda: call.update(x=spec(1, 3)),
        lambda: call.update(x=spec(1, 2)),
        lambda: call.update(w=spec(1)),
        lambda: call.update(x=spec(2, 2), w=spec(2)),
    ]
    params = {"flag": False, "p": 0}
    for repair in repairs:
        said.append(str(refused(checks, call, **params)).split(": ")[1].split("  [")[0])
        repair()
    assert [text.split(",")[0] for text in said] == [
        "w must not be given with flag=False",
        "the signature requires not present(w) or p > 0",
        "w is on cpu",
        "x has dtype int8",
        "x has shape (1",
        "w has shape (4",
        "the signature requires M > 1",
    ]
    facts(checks, call, **params)


# -- construction -------------------------------------------------------------------------


def test_what_parameters_decide_is_computed_and_checked_once():
    checks = plan("M", {"x": "[M, L]"}, params={"p": "int"}, let={"L": "2 * p"},
                  shape_rules=["p > 0", "L < 10"])  # fmt: skip
    assert statics(checks, p=3) == (3, 6)
    for bad, rule in ((0, "p > 0"), (5, "L < 10")):
        with pytest.raises(SignatureError, match=f"requires {rule}"):
            statics(checks, p=bad)


def test_a_rule_comes_before_the_let_that_stands_on_it():
    checks = plan("M", {"x": "[M, L]"}, params={"p": "int"}, let={"L": "12 // p"},
                  shape_rules=["p != 0"])  # fmt: skip
    with pytest.raises(SignatureError, match="requires p != 0"):
        statics(checks, p=0)


# -- names --------------------------------------------------------------------------------


def test_statics_are_the_parameters_and_then_the_lets_they_decide():
    checks = plan("M", {"x": "[M]"}, params={"p": "int", "q": "bool"},
                  let={"B": "A + 1", "A": "2 * p", "C": "A + M"})  # fmt: skip
    assert checks.static_names == ("p", "q", "A", "B")
    assert checks.fact_names[0] == "_device"
    assert set(checks.fact_names[1:]) == {"T", "M", "C"}


def test_facts_are_device_presence_indices_and_lets():
    checks = plan(
        "M N", {"x": "[M]", "w": optional("[N]"), "v": optional("[M]")}, let={"L": "M + 1"}
    )
    assert checks.fact_names[:3] == ("_device", "_has_w", "_has_v")
    assert set(checks.fact_names[3:]) == {"T", "M", "N", "L"}
    found = facts(checks, {"x": spec(2), "v": spec(2)})
    assert (found["_has_w"], found["_has_v"], found["N"], found["L"]) == (False, True, None, 3)


def test_checks_read_of_a_tensor_only_what_a_stand_in_has():
    tensors = {"a": torch.ones(2, 3), "b": torch.ones(3, 5)}
    stand_ins = {name: TensorSpec.of(tensor) for name, tensor in tensors.items()}
    assert facts(GEMM, tensors) == facts(GEMM, stand_ins)


def test_a_check_does_not_know_the_op():
    """Facts in, facts out: two instances of equal parameters share all of it."""
    names = NORM.check.__code__.co_varnames[: NORM.check.__code__.co_argcount]
    assert names == ("_static", "x", "weight")
    assert NORM.construct.__code__.co_varnames[:1] == ("W",)


def test_a_predicate_that_was_not_reached_explains_nothing():
    checks = plan(
        "*S",
        {"x": "[*S]"},
        params={"dim": "int | None"},
        shape_rules=["present(dim) and valid_axes(S, dim.value)"],
    )
    error = refused(checks, {"x": spec(2, 3)}, dim=None)
    assert "requires present(dim) and valid_axes(S, dim.value), got " in str(error)
    assert "dim 5 is out of range" in str(refused(checks, {"x": spec(2, 3)}, dim=5))
