"""An axis of an output has a length, whatever the entry's expression gives."""

from __future__ import annotations

import pytest
import torch
from call_support import Switch, op_class, target
from plan_support import FLOATS, plan, spec, statics
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from tileops_core.errors import SignatureError
from tileops_core.plan.lengths import Lengths, first_wrong, is_no_length
from tileops_core.tensor_spec import TensorSpec

INT, INTS = {"type": "int", "default": 1}, "list[int] | tuple[int, ...]"


def made(shape, params=(), **more):
    """The plan of an op from ``[M, N, *S]`` to one output."""
    return plan("M N *S", {"x": "[M, N, *S]"}, {"y": shape}, params=dict(params), **more)


def outputs(made, *shape, **params):
    known = statics(made, **params)
    return made.outputs(known, made.check(known, spec(*shape)))


REFUSED = [
    ("[M - 1, N]", {}, (0, 3), 0, "M - 1", -1),
    ("[N, -M]", {}, (2, 3), 1, "-M", -2),
    ("[N, k - 3]", {"k": 1}, (2, 3), 1, "k - 3", -2),
    ("[*S, k]", {"k": -1}, (2, 3, 4, 5), 2, "k", -1),
    ("[M, *S, M * k]", {"k": -1}, (2, 3, 4), 2, "M * k", -2),
    ("[M // k]", {"k": -1}, (2, 3), 0, "M // k", -2),
    ("[M % k]", {"k": -3}, (2, 3), 0, "M % k", -1),
    ("[k ** 3]", {"k": -1}, (2, 3), 0, "k ** 3", -1),
    ("[min(M, k)]", {"k": -1}, (2, 3), 0, "min(M, k)", -1),
    ("[M if k == 0 else k]", {"k": -1}, (2, 3), 0, "M if k == 0 else k", -1),
    ("[M, *broadcast((M - 3,), (1,))]", {}, (2, 3), 1, "*broadcast((M - 3,), (1,))", -1),
    ("[conv.out(M, 5, 1, 0, 1)]", {}, (3, 3), 0, "conv.out(M, 5, 1, 0, 1)", -1),
    ("[sum(n - 4 for n in S)]", {}, (3, 3, 2), 0, "sum(n - 4 for n in S)", -2),
]


@pytest.mark.parametrize(("shape", "given", "sizes", "axis", "form", "value"), REFUSED)
def test_what_is_no_length_is_refused_with_its_place(shape, given, sizes, axis, form, value):
    entry = made(shape, dict.fromkeys(given, INT))
    with pytest.raises(SignatureError) as caught:
        outputs(entry, *sizes, **given)
    error, text = caught.value, str(caught.value)
    assert (error.op, error.tensor, error.axis, error.actual) == ("ProbeFwdOp", "y", axis, value)
    assert f"ProbeFwdOp: y would have the length {value} on axis {axis}" in text
    assert form in text
    assert f"  [{error.span.short}]" in text


def test_the_values_behind_it_are_told():
    entry = made("[L]", {"k": INT}, let={"L": "half - k", "half": "M // 2"})
    with pytest.raises(SignatureError, match=r"L in \[L\].*; got L=-3, half=1, k=4, M=2  \["):
        outputs(entry, 2, 3, k=4)


def test_it_is_the_outputs_line_that_is_told():
    entry = made("[M - 1]")
    with pytest.raises(SignatureError) as caught:
        outputs(entry, 0, 3)
    assert caught.value.span == entry.signature.outputs[0].shape_span


@pytest.mark.parametrize(("shape", "given", "sizes", "axis", "form", "value"), REFUSED)
def test_the_same_expression_may_give_a_length(shape, given, sizes, axis, form, value):
    entry = made(shape, dict.fromkeys(given, INT))
    big = (0, 9) if "-M" in shape else (9, 9, *(n + 5 for n in sizes[2:]))
    params = dict.fromkeys(given, 4)
    ((found, _),) = outputs(entry, *big, **params)
    assert all(isinstance(n, int) and n >= 0 for n in found)


SAFE = [
    "[M, N, *S]", "[M * N + 3]", "[M // 2, M % 5, N ** 2]", "[*reduced(S, d, False, 'full')]",
    "[*broadcast(S, (M, 1))]", "[len(S), prod(S), sum(S)]", "[max(M - 3, 0)]", "[ceil_div(M, 2)]",
    "[S[0], *S[1:]]", "[M if M > N else N]", "[*shape]", "[D]",
    "[min(M, N)]",
]  # fmt: skip


@pytest.mark.parametrize("shape", SAFE)
def test_what_is_always_a_length_is_not_asked(shape):
    params = {"d": INT, "shape": {"type": INTS, "default": [1]}}
    entry = made(shape, params, let={"D": "M * N"})
    assert "_is_no_length" not in entry.source
    assert "_first_wrong" not in entry.source


def test_only_the_axis_that_may_be_none_is_asked():
    source = made("[M, N - 1, *S]").source
    assert source.count("if _is_no_length") == 1


def test_a_branch_asks_for_its_own():
    types = {
        "Half": {
            "params": {"b": "Bool", "M": "Dim"},
            "match": "b",
            "cases": [{"when": True, "is": "[M - 1]"}, {"when": False, "is": "[M]"}],
        }
    }
    entry = made("Half[b, M]", {"b": "bool"}, types=types)
    assert outputs(entry, 0, 3, b=False)[0][0] == (0,)
    with pytest.raises(SignatureError, match="length -1 on axis 0"):
        outputs(entry, 0, 3, b=True)


def test_two_outputs_keep_their_own():
    entry = plan("M", {"x": "[M]"}, {"y": "[M - 1]", "z": "[M - 2]"})
    known = statics(entry)
    (y, _), (z, _) = entry.outputs(known, entry.check(known, spec(5)))
    assert (y, z) == ((4,), (3,))
    with pytest.raises(SignatureError, match="z would have the length -1"):
        entry.outputs(known, entry.check(known, spec(1)))


@pytest.mark.parametrize(("value", "no"), [(0, False), (3, False), (-1, True)])
def test_a_length_is_not_negative(value, no):
    assert is_no_length(value) is no


def test_the_first_wrong_of_a_run_is_found():
    assert first_wrong((1, 0, -2, -3)) == 2
    assert first_wrong((1, 0)) is None


def test_a_long_chain_of_quantities_is_no_deep_recursion():
    lets = {"l0": "M - 1", **{f"l{i}": f"l{i - 1} + 1" for i in range(1, 1500)}}
    entry = made("[l1499]", let=lets)
    assert Lengths(entry.signature).may_fail(entry.signature.outputs[0].shape[0].axes[0])


# -- where a call meets it --------------------------------------------------------------------

SHORTER = {
    "family": "probe",
    "status": "spec-only",
    "signature": {
        "forall": {"M": "Dim", "T": FLOATS},
        "inputs": {"x": {"dtype": "T", "shape": "[M]"}},
        "outputs": {"y": {"dtype": "T", "shape": "[M - 1]", "buffer": "out"}},
    },
    "workloads": [{"label": "row", "M": 4, "dtype_cases": [{"T": "float32"}]}],
    "roofline": {"flops": "M"},
}


@pytest.fixture
def shorter():
    """An op that leaves the last element out, and its kernel."""
    kernel = Switch(lambda x, out=None: x[:-1].clone() if out is None else out.copy_(x[:-1]))
    with target(kernel.build, op="ShorterFwdOp"):
        yield op_class("ShorterFwdOp", spec=SHORTER)(target="acme"), kernel


@pytest.mark.parametrize("out", [None, torch.empty(0)])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_call_is_refused_before_anybody_runs(shorter, device, out):
    op, kernel = shorter
    with pytest.raises(SignatureError, match="ShorterFwdOp: y would have the length -1"):
        op(torch.empty(0, device=device), out=out)
    assert kernel.builds == 0
    assert op.serving_target is None


def test_inferring_shapes_refuses_it_too(shorter):
    op, _ = shorter
    assert op._infer_output_shapes(torch.empty(3)) == ((2,),)
    with pytest.raises(SignatureError, match="length -1 on axis 0"):
        op._infer_output_shapes(TensorSpec("cpu", torch.float32, (0,)))


def test_a_call_that_has_lengths_is_served(shorter):
    op, _ = shorter
    assert op(torch.ones(3)).shape == (2,)
    assert op(torch.ones(1)).shape == (0,)


def test_nothing_is_asked_of_a_symbolic_length():
    """A guard would tie the graph to lengths of one side."""
    env = ShapeEnv()
    source = ConstantSource("n")
    symbol = env.create_symbol(5, source, DimDynamic.DYNAMIC)
    length = env.create_symintnode(symbol, hint=5, source=source)
    entry, guards = made("[M - 1]"), len(env.guards)
    known = statics(entry)
    given = TensorSpec("cpu", torch.float32, (length, 3))
    ((shape, _),) = entry.outputs(known, entry.check(known, given))
    assert str(shape[0]) == str(length - 1)
    assert len(env.guards) == guards
