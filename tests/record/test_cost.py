"""Costs by a function's dotted name."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from call_support import faulty, op_class, small, target
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tileops_core.errors import ManifestError, TileOpsError


@pytest.fixture
def costs(monkeypatch):
    """A module of cost functions."""
    module = ModuleType("made_up_costs")
    monkeypatch.setitem(sys.modules, "made_up_costs", module)
    return module


def op_costing(func):
    spec = {**faulty.SPECS["ProbeFwdOp"], "roofline": {"func": func}}
    return op_class("ProbeFwdOp", spec=spec)(target="acme")


def cost(func):
    with target():
        op = op_costing(func)
        op(small())
        return op.eval_roofline()


def test_the_function_is_given_the_record(costs):
    costs.cost = lambda record: (record.indices["M"] * 10, record.bytes("x") + record.present("x"))
    assert cost("made_up_costs.cost") == (30, 49)


def test_the_function_is_looked_up_when_the_cost_is_asked_for():
    with target():
        op = op_costing("made_up_and_not_there.cost")
        assert op(small()).shape == (3, 4)
        with pytest.raises(TileOpsError, match=r"ProbeFwdOp: .*made_up_and_not_there\.cost"):
            op.eval_roofline()


class Cost:
    def __init__(self, record):
        pass


DUE = r"gives {}, due is \(flops, bytes\), two whole numbers from 0; the call is .*M=3"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda record: 7, DUE.format(7)),
        (lambda record: (1, 2, 3), DUE.format(r"\(1, 2, 3\)")),
        (lambda record: (1, 2.5), DUE.format(r"\(1, 2.5\)")),
        (lambda record: ("1", 2), DUE.format(r"\('1', 2\)")),
        (lambda record: (1, True), DUE.format(r"\(1, True\)")),
        (lambda record: (float("nan"), 1), DUE.format(r"\(nan, 1\)")),
        (lambda record: (1, float("inf")), DUE.format(r"\(1, inf\)")),
        (lambda record: (-1, 2), DUE.format(r"\(-1, 2\)")),
        (lambda record: (1, -2), DUE.format(r"\(1, -2\)")),
        (lambda record: (1, torch.tensor(2)), DUE.format(r"\(1, tensor\(2\)\)")),
        (lambda record: None, DUE.format(None)),
        (7, "which is no function but int"),
        (Cost, "which is no function but a class"),
        (lambda: (1, 2), "does not take the one record that it is given: too many"),
        (lambda record, more: (1, 2), "does not take the one record .*'more'"),
        (lambda *, record: (1, 2), "does not take the one record"),
    ],
)
def test_what_is_no_function_of_a_record_to_two_counts_is_refused(costs, function, message):
    costs.cost = function
    with pytest.raises(ManifestError, match=f"ProbeFwdOp: .*made_up_costs.cost.* {message}"):
        cost("made_up_costs.cost")


@pytest.mark.parametrize("more", [lambda record, scale=2: (1, 2), lambda *records: (1, 2)])
def test_a_function_may_take_more_than_the_record(costs, more):
    costs.cost = more
    assert cost("made_up_costs.cost") == (1, 2)


def test_a_name_that_the_module_lacks_is_told(costs):
    with pytest.raises(TileOpsError, match="which cannot be imported"):
        cost("made_up_costs.cots")


def test_a_whole_number_may_come_as_a_float(costs):
    costs.cost = lambda record: (3.0, 4)
    assert [(type(n), n) for n in cost("made_up_costs.cost")] == [(int, 3), (int, 4)]


def test_numpys_ints_are_counts(costs):
    numpy = pytest.importorskip("numpy")
    costs.cost = lambda record: (numpy.int64(3), numpy.int32(4))
    assert [(type(n), n) for n in cost("made_up_costs.cost")] == [(int, 3), (int, 4)]


def test_a_failing_function_is_named_and_its_error_is_the_cause(costs):
    costs.cost = lambda record: record.indices["no such index"]
    with pytest.raises(ManifestError, match="fails with KeyError: 'no such index'") as caught:
        cost("made_up_costs.cost")
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_module_that_fails_while_it_is_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "failing_costs.py").write_text("1 // 0", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ManifestError, match=r"failing_costs\.cost, which cannot be imported: int"):
        cost("failing_costs.cost")


# -- formulas ---------------------------------------------------------------------------------


def formula(x=None, **roofline):
    with target():
        spec = {**faulty.SPECS["ProbeFwdOp"], "roofline": roofline}
        op = op_class("ProbeFwdOp", spec=spec)(target="acme")
        op(small() if x is None else x)
        return op.eval_roofline()


@pytest.mark.parametrize(
    ("roofline", "message"),
    [
        ({"flops": "M // N"}, r"flops of its roofline, M // N, .* divides by zero, with M=3, N=0"),
        ({"flops": "M % N"}, "flops of its roofline, M % N, cannot be computed: it divides by"),
        ({"flops": "ceil_div(M, N)"}, r"PrimitiveError: ceil_div\(3, 0\) divides by zero"),
        ({"flops": "(M, N)[M]"}, r"it reads an axis that is not there, with M=3, N=0"),
        ({"flops": "N - M"}, "N - M, is -3, a cost is a whole number from 0, with N=0, M=3"),
        ({"flops": "M", "bytes": "N - M"}, "bytes of its roofline, N - M, is -3"),
    ],
)
def test_a_formula_that_has_no_cost_is_told_with_its_values(roofline, message):
    with pytest.raises(ManifestError, match=f"ProbeFwdOp: the .*{message}") as caught:
        formula(torch.ones(3, 0), **roofline)
    (problem,) = caught.value.problems
    assert problem.span.line > 0
    assert problem.span.short in str(caught.value)


def test_the_values_behind_quantities_are_told():
    with target():
        spec = dict(faulty.SPECS["ProbeFwdOp"])
        signature = {**spec["signature"], "let": {"half": "N // 2"}}
        spec |= {"signature": signature, "roofline": {"flops": "M // half"}}
        op = op_class("ProbeFwdOp", spec=spec)(target="acme")
        op(small(3, 1))
        with pytest.raises(ManifestError, match="by zero, with M=3, half=0, N=1"):
            op.eval_roofline()


def test_a_formula_works_on_what_it_is_right_for():
    assert formula(small(3, 4), flops="M // N", bytes="M - N + 1") == (0, 0)


def test_a_traced_call_has_no_cost_in_numbers():
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    x = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(
        small(), source=ConstantSource("x"), symbolic_context=context
    )
    with pytest.raises(TileOpsError, match=r"ProbeFwdOp: .* symbolic lengths"):
        formula(x, flops="M")


@pytest.mark.parametrize("name", ["cost", "a.b()", "os; import sys", "a..b", "1.b", ""])
def test_a_name_that_is_no_dotted_one_is_refused_with_the_entry(name):
    with target(), pytest.raises(ManifestError, match="func"):
        op_costing(name)
