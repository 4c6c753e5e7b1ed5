"""Composite ops: what they are made of, and how they come to hold it."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import ClassVar

import composites
import pytest
from call_support import in_threads, op_class, small, target

from tileops_core import BUILTIN, Op
from tileops_core.ops import ReLUFwdOp, RMSNormFwdOp, SumFwdOp

SUM_THEN_NORM = composites.composite_spec(sum="SumFwdOp", norm="RMSNormFwdOp")


class SumThenNormFwdOp(Op):
    """Of ops with parameters; in the module, where pickle finds it."""

    spec = SUM_THEN_NORM
    delegate_types: ClassVar = {"sum": SumFwdOp, "norm": RMSNormFwdOp}

    def __init__(self, *, given=None, target=None):
        super().__init__(target=target)
        self.delegate_for("sum", (), given, dim=(0,))

    def forward(self, x):
        return self.delegate_for("norm", x.shape[-1], normalized_shape=x.shape[-1:])(x)


# -- the class --------------------------------------------------------------------------------


def test_a_class_states_the_stages_of_its_entry():
    probe = op_class("ProbeFwdOp")
    with pytest.raises(TypeError) as caught:
        op_class("TwiceFwdOp", spec=composites.TWICE, delegate_types={"first": probe})
    text = str(caught.value)
    assert "delegate_types is {'first': ProbeFwdOp}" in text
    assert "composition is {'first': ProbeFwdOp, 'second': ProbeFwdOp}" in text


def test_stages_have_the_order_of_the_entry():
    probe = op_class("ProbeFwdOp")
    stages = {"second": probe, "first": probe}
    with pytest.raises(TypeError, match="delegate_types"):
        op_class("TwiceFwdOp", spec=composites.TWICE, delegate_types=stages)


def test_a_stage_holds_the_op_of_the_entry():
    stages = {"first": op_class("ProbeFwdOp"), "second": ReLUFwdOp}
    with pytest.raises(TypeError, match="'second': ReLUFwdOp"):
        op_class("TwiceFwdOp", spec=composites.TWICE, delegate_types=stages)


def test_an_op_without_composition_holds_nothing():
    with pytest.raises(TypeError, match=r"composition is \{\}"):
        op_class("ProbeFwdOp", delegate_types={"first": ReLUFwdOp})
    op = ReLUFwdOp()
    assert op.held_delegates() == ()
    with pytest.raises(ValueError, match="no stage 'first'"):
        op.delegate_for("first", ())


# -- holding ----------------------------------------------------------------------------------


def test_a_sub_op_is_built_once_for_a_stage_and_an_identity():
    op = SumThenNormFwdOp()
    held = op.delegate_for("sum", ())
    assert (type(held), held.dim) == (SumFwdOp, (0,))
    assert op.delegate_for("sum", (), dim=(1,)) is held
    assert op.delegate_for("sum", 1, dim=(1,)) is not held


def test_identities_that_python_takes_for_equal_are_two():
    """DIS-03"""
    op = SumThenNormFwdOp()
    places = [1, True, 1.0, 0.0, -0.0]
    held = [op.delegate_for("norm", place, normalized_shape=(4,)) for place in places]
    assert len(set(map(id, held))) == 5
    again = [op.delegate_for("norm", place) for place in places]
    assert [id(h) for h in again] == [id(h) for h in held]


def test_an_identity_that_no_table_can_hold_is_told():
    with pytest.raises(TypeError, match=r"stage 'sum' has no place for identity \[1\]: .* a tuple"):
        SumThenNormFwdOp().delegate_for("sum", [1], dim=(1,))


def test_a_sub_op_is_built_once_however_many_threads_ask():
    classes = composites.ops()
    made = []

    def init(self, *, target=None):
        made.append(self)
        threading.Event().wait(0.02)
        super(classes.probe, self).__init__(target=target)

    classes.probe.__init__ = init
    op = classes.twice()
    outcomes = in_threads(*[lambda: op.delegate_for("first", ())] * 16)
    assert {id(o.result) for o in outcomes} == {id(made[0])}
    assert len(made) == 1


def test_a_sub_op_that_cannot_be_built_is_not_held():
    op = SumThenNormFwdOp()
    with pytest.raises(TypeError):
        op.delegate_for("norm", (), no_such_parameter=3)
    assert [type(o) for o in op.held_delegates()] == [SumFwdOp]
    assert op.delegate_for("norm", (), normalized_shape=(4,)).normalized_shape == (4,)


def test_sub_ops_are_listed_in_the_order_of_the_stages():
    classes = composites.ops()
    op = classes.twice()
    second = op.delegate_for("second", ())
    first = [op.delegate_for("first", place) for place in (7, 3)]
    assert op.held_delegates() == (*first, second)


def test_an_unknown_stage_is_told_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'summ' \(did you mean 'sum'\?\).*sum, norm"):
        SumThenNormFwdOp().delegate_for("summ", ())


def test_sub_ops_are_held_after_the_base_is_constructed():
    class Early(SumThenNormFwdOp):
        def __init__(self, *, target=None):
            self.delegate_for("sum", ())

    with pytest.raises(TypeError, match="must call super"):
        Early()


# -- given ones -------------------------------------------------------------------------------


def test_a_given_op_is_held_as_it_is():
    given = SumFwdOp(dim=(1,), target=BUILTIN)
    op = SumThenNormFwdOp(given=given, target="reference")
    assert op.delegate_for("sum", ()) is given
    assert given.target is BUILTIN


def test_a_given_op_is_of_the_stages_class():
    with pytest.raises(TypeError, match="'sum' holds a SumFwdOp, got ReLUFwdOp"):
        SumThenNormFwdOp(given=ReLUFwdOp())


def test_one_instance_is_held_at_one_place():
    op = SumThenNormFwdOp()
    with pytest.raises(ValueError, match=r"is held for stage 'sum', identity \(\) already"):
        op.delegate_for("sum", 1, op.delegate_for("sum", ()))
    assert len(op.held_delegates()) == 1


def test_a_place_holds_one_instance():
    op = SumThenNormFwdOp()
    with pytest.raises(ValueError, match="already, and cannot hold"):
        op.delegate_for("sum", (), SumFwdOp(dim=(0,)))


def test_an_instance_may_serve_two_composites():
    given = SumFwdOp(dim=(1,))
    ops = [SumThenNormFwdOp(given=given) for _ in range(2)]
    assert {id(op.delegate_for("sum", ())) for op in ops} == {id(given)}


# -- targets ----------------------------------------------------------------------------------


def test_a_sub_op_that_is_built_has_the_composites_target():
    """DIS-13: those that are built late and those of copies too."""
    op = SumThenNormFwdOp(target="reference")
    late = op.delegate_for("norm", (), normalized_shape=(4,))
    copied = copy.deepcopy(op).held_delegates()
    assert {o.target for o in (*op.held_delegates(), late, *copied)} == {"reference"}


def test_a_sub_ops_target_is_no_parameter():
    with pytest.raises(TypeError, match="pass it as given"):
        SumThenNormFwdOp().delegate_for("sum", 2, dim=(0,), target="reference")


def test_sub_ops_run_under_the_composites_target_whoever_claims_the_device():
    """DIS-13"""
    classes = composites.ops()
    with target(op="ProbeFwdOp", name="fake", detect=lambda device: True):
        op = classes.nest(target=BUILTIN)
        op(small())
        served = [o.serving_target for o in op.held_delegates()]
        served += [o.serving_target for o in op.held_delegates()[0].held_delegates()]
    assert served == [BUILTIN] * 4


# -- copies -----------------------------------------------------------------------------------

WAYS = [copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))]


@pytest.mark.parametrize("way", WAYS, ids=["deepcopy", "pickle"])
def test_a_copy_holds_copies_of_the_sub_ops(way):
    op = SumThenNormFwdOp(target="reference")
    op.delegate_for("norm", 4, normalized_shape=(4,))
    other = way(op)
    for mine, theirs in zip(op.held_delegates(), other.held_delegates(), strict=True):
        assert type(mine) is type(theirs)
        assert mine is not theirs
        assert repr(mine) == repr(theirs)
    assert other.delegate_for("norm", 4) is other.held_delegates()[1]


def test_a_copy_of_a_composite_is_bound_by_nobody():
    classes = composites.ops()
    op = classes.nest()
    op(small())
    other = copy.deepcopy(op)
    assert [o.serving_target for o in (other, *other.held_delegates())] == [None] * 3
    assert other(small()).equal(small() * 8)
    assert op.held_delegates()[0] is not other.held_delegates()[0]
