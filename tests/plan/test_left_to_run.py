"""Lengths that only data tell: what is known refuses a call, what is not is left to its run."""

from __future__ import annotations

import composites
import pytest
import torch
from graphs import fresh, whole
from plan_support import plan, signature, spec, statics
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tileops_core.errors import SignatureError
from tileops_core.ops import AddFwdOp, ArgmaxFwdOp, GQADenseFwdOp, MulFwdOp, RMSNormFwdOp
from tileops_core.plan.build import build_plan
from tileops_core.plan.left_to_run import PRIMITIVES, broadcast, differ, is_refused, known
from tileops_core.signature.build import build_signature
from tileops_core.signature.primitives import PRIMITIVES as PRIMITIVES_OF_NUMBERS
from tileops_core.signature.primitives import PrimitiveError
from tileops_core.spec.catalogue import load_spec_from


class Data:
    """Lengths that only data tell."""

    def __init__(self):
        self.env = ShapeEnv()

    def length(self):
        found = self.env.create_unbacked_symint()
        torch._check(found >= 0)
        return found

    def checks(self):
        """What is checked at the run, but that lengths are not negative."""
        asserts = [a for of in self.env.deferred_runtime_asserts.values() for a in of]
        return [str(a.expr) for a in asserts if str(a.expr).startswith("Eq")]


@pytest.fixture
def data():
    return Data()


# -- pieces -----------------------------------------------------------------------------------


def test_what_a_test_says_is_known_or_not(data):
    n = data.length()
    assert [known(lambda: n == n), known(lambda: n == -1), known(lambda: n == 3)] == [
        True,
        False,
        None,
    ]


def test_what_is_not_known_refuses_nothing(data):
    n = data.length()
    assert is_refused(lambda: n < 0) is False
    assert is_refused(lambda: n > 5) is False
    assert is_refused(lambda: n >= 0) is True


def test_a_refusal_of_the_language_passes(data):
    def refuse():
        raise PrimitiveError("no")

    with pytest.raises(PrimitiveError):
        is_refused(refuse)


def test_runs_differ_by_what_is_known(data):
    n = data.length()
    assert differ((n, 3), (n,))
    assert differ((n, 3), (2, 4))
    assert not differ((n, 3), (2, 3))


def test_equal_lengths_broadcast_without_a_check(data):
    n = data.length()
    assert broadcast((n, 8), (n, 8)) == (n, 8)
    assert data.checks() == []


@pytest.mark.parametrize("turn", [1, -1])
def test_one_gives_way(data, turn):
    n = data.length()
    assert broadcast(*((n, 8), (1, 8))[::turn]) == (n, 8)
    assert data.checks() == []


@pytest.mark.parametrize("turn", [1, -1])
def test_a_number_is_the_result_whether_the_other_is_one_or_equal(data, turn):
    n = data.length()
    assert broadcast(*((n, 8), (5, 8))[::turn]) == (5, 8)
    assert data.checks() == []


def test_lengths_of_different_data_are_checked_to_be_equal_at_the_run(data):
    n, m = data.length(), data.length()
    broadcast((n, 8), (m, 8))
    assert len(data.checks()) == 1


def test_known_lengths_that_do_not_broadcast_are_refused_in_the_same_words(data):
    with pytest.raises(PrimitiveError) as due:
        PRIMITIVES_OF_NUMBERS["broadcast"].run((4, 8), (4, 7))
    with pytest.raises(PrimitiveError) as told:
        broadcast((4, 8), (4, 7))
    assert str(told.value) == str(due.value)


@pytest.mark.parametrize(("name", "due"), [("max", 7), ("min", 2)])
def test_the_greatest_and_the_least_are_as_of_numbers(name, due):
    assert PRIMITIVES[name](2, 7) == due
    assert PRIMITIVES[name]((2, 7, 3)) == due


@pytest.mark.parametrize("name", ["max", "min"])
def test_of_nothing_there_is_neither(name):
    with pytest.raises(PrimitiveError, match=f"{name} of nothing"):
        PRIMITIVES[name](())


def test_the_greatest_of_what_is_not_known_is_not_known(data):
    found = PRIMITIVES["max"](data.length(), 3)
    assert isinstance(found, torch.SymInt)


# -- entries ----------------------------------------------------------------------------------


def check(made, *shapes, **params):
    return made.check(statics(made, **params), *(spec(*shape) for shape in shapes))


def test_a_rule_that_is_not_known_to_hold_is_left(data):
    made = plan("M", {"x": "[M]"}, shape_rules=["M > 2"])
    assert check(made, (data.length(),))


def test_a_rule_that_is_known_to_fail_refuses(data):
    made = plan("M N", {"x": "[M, N]"}, shape_rules=["M > 2", "N > 2"])
    with pytest.raises(SignatureError, match="the signature requires N > 2, got N=2"):
        check(made, (data.length(), 2))


def test_the_refusal_stands_alone(data):
    made = plan("M N", {"x": "[M, N]"}, shape_rules=["M > 2", "N > 2"])
    with pytest.raises(SignatureError) as caught:
        check(made, (data.length(), 2))
    assert caught.value.__context__ is None


def test_lengths_that_may_be_equal_are_left(data):
    made = plan("M", {"a": "[M, 3]", "b": "[M, 3]"})
    assert check(made, (data.length(), 3), (5, 3))


def test_lengths_beside_them_are_compared(data):
    made = plan("M N", {"a": "[M, N]", "b": "[M, N]"})
    with pytest.raises(SignatureError, match=r"b has shape .* \(axis 1 differs\)"):
        check(made, (data.length(), 3), (5, 4))


def test_a_number_of_axes_is_known(data):
    made = plan("*S", {"a": "[*S]", "b": "[*S]"})
    n = data.length()
    with pytest.raises(SignatureError, match="b has shape"):
        check(made, (n, 3), (5,))
    assert check(made, (n, 3), (5, 3))


def test_a_length_may_solve(data):
    made = plan("M", {"a": "[2*M + 1]"})
    assert check(made, (data.length(),))


def test_numbers_are_checked_as_ever():
    made = plan("M", {"x": "[M]"}, shape_rules=["M > 2"])
    with pytest.raises(SignatureError, match="requires M > 2, got M=2"):
        check(made, (2,))


def test_what_is_no_question_of_lengths_is_not_hidden():
    class Odd:
        device, dtype = torch.device("cpu"), torch.float32

        @property
        def shape(self):
            raise RuntimeError("no shape")

    made = plan("M", {"x": "[M]"})
    with pytest.raises(RuntimeError, match="no shape"):
        made.check(statics(made), Odd())


def test_a_composite_leaves_nothing_for_it_is_no_node():
    made = build_plan(
        build_signature(
            load_spec_from(composites.composite_spec(relu="ReLUFwdOp"), "CompositeFwdOp")
        )
    )
    assert "_left_to_run" not in made.source
    assert "_left_to_run" in build_plan(signature("M", {"x": "[M]"})).source


# -- graphs -----------------------------------------------------------------------------------


@pytest.fixture
def _graphs():
    with fresh(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        yield


def first(n, of=8):
    return torch.arange(of) < n


def rows(x, mask):
    return x[mask.nonzero().squeeze(1)]


def keys(x, mask):
    return x[:, mask.nonzero().squeeze(1)]


def both(op):
    def call(x, mask):
        kept = mask.nonzero().squeeze(1)
        return op(x[kept], x[kept] + 1)

    return call


add, multiply, causal = AddFwdOp(), MulFwdOp(), GQADenseFwdOp(is_causal=True)
first_axis, all_axes = ArgmaxFwdOp(0), ArgmaxFwdOp(None)
Q, X = torch.randn(1, 8, 4, 16), torch.randn(8, 4)

WORK = {
    "equal lengths": both(add),
    "a row": lambda x, mask: add(rows(x, mask), x[:1]),
    "a row first": lambda x, mask: multiply(x[:1], rows(x, mask)),
    "along them": lambda x, mask: first_axis(rows(x, mask)),
    "of all": lambda x, mask: all_axes(rows(x, mask)),
}


@pytest.mark.usefixtures("_graphs")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("call", WORK.values(), ids=WORK)
def test_a_graph_takes_what_torch_takes(call, backend):
    compiled = whole(call, backend)
    for n in (5, 2, 1):
        assert torch.equal(compiled(X, first(n)), call(X, first(n)))


@pytest.mark.usefixtures("_graphs")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_attention_takes_them(backend):
    def call(q, mask):
        k = keys(q, mask)
        return causal(k, k, k), causal(q, k, k)

    compiled = whole(call, backend)
    for n in (8, 3, 1):
        for found, due in zip(compiled(Q, first(n)), call(Q, first(n)), strict=True):
            assert torch.equal(found, due)


WRONG = {
    "a number": (lambda x, mask: add(rows(x, mask), x), 3, "do not broadcast: lengths 3 and 8"),
    "of nothing": (lambda x, mask: first_axis(rows(x, mask)), 0, "axis 0 has length 0"),
    "no key": (lambda x, mask: causal(Q, keys(Q, mask), keys(Q, mask)), 0, "requires S_kv > 0"),
    "a parameter": (
        lambda x, mask: RMS(rows(x, mask).t()),
        3,
        r"x has shape \(4, 3\), the signature says",
    ),
}
RMS = RMSNormFwdOp((8,))


@pytest.mark.usefixtures("_graphs")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("call", "n", "says"), WRONG.values(), ids=WRONG)
def test_the_run_refuses_what_is_wrong_in_the_words_of_a_call(call, n, says, backend):
    compiled = whole(call, backend)
    assert torch.equal(compiled(X, first(8)), call(X, first(8)))
    with pytest.raises(SignatureError, match=says):
        compiled(X, first(n))


@pytest.mark.usefixtures("_graphs")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("n", "m"), [(3, 2), (1, 5), (5, 1), (0, 1)])
def test_the_run_refuses_lengths_that_the_graph_takes_for_equal(n, m, backend):
    compiled = whole(lambda x, one, other: add(rows(x, one), rows(x, other)), backend)
    assert torch.equal(compiled(X, first(3), first(3)), X[:3] + X[:3])
    with pytest.raises(RuntimeError, match="Eq"):
        compiled(X, first(n), first(m))
