"""Costs by a function's dotted name."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from call_support import faulty, op_class, small, target

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


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda record: 7, "gives 7 .*due"),
        (lambda record: (1, 2, 3), "gives .*due"),
        (lambda record: (1, 2.5), "2.5, a count must be a whole number"),
        (lambda record: ("1", 2), "'1', a count must be a whole number"),
        (7, "no function"),
    ],
)
def test_what_is_no_pair_of_counts_is_refused(costs, function, message):
    costs.cost = function
    with pytest.raises(TileOpsError, match=f"ProbeFwdOp: .*{message}"):
        cost("made_up_costs.cost")


def test_a_name_that_the_module_lacks_is_told(costs):
    with pytest.raises(TileOpsError, match="which cannot be imported"):
        cost("made_up_costs.cots")


def test_a_whole_number_may_come_as_a_float(costs):
    costs.cost = lambda record: (3.0, 4)
    assert [(type(n), n) for n in cost("made_up_costs.cost")] == [(int, 3), (int, 4)]


def test_a_failing_function_fails_as_it_does(costs):
    costs.cost = lambda record: record.indices["no such index"]
    with pytest.raises(KeyError, match="no such index"):
        cost("made_up_costs.cost")


@pytest.mark.parametrize("name", ["cost", "a.b()", "os; import sys", "a..b", "1.b", ""])
def test_a_name_that_is_no_dotted_one_is_refused_with_the_entry(name):
    with target(), pytest.raises(ManifestError, match="func"):
        op_costing(name)
