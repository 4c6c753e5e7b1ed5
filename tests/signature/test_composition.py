from __future__ import annotations

from tileops_core.signature.model import Stage
from tileops_core.spans import NOWHERE


def test_stages_keep_their_order_and_may_hold_one_op_twice(build):
    stages = [
        {"name": "gate_up", "op": "GEMMFwdOp"},
        {"name": "down", "op": "GEMMFwdOp", "optional": True},
    ]
    composition = build(composition={"kind": "composite", "stages": stages}).composition
    assert composition.stages == (
        Stage("gate_up", "GEMMFwdOp", False, NOWHERE),
        Stage("down", "GEMMFwdOp", True, NOWHERE),
    )


def test_an_entry_without_composition_is_made_of_nothing_else(build):
    assert build().composition is None


def test_an_op_that_nobody_knows_here_may_be_a_stage(problems):
    stages = [{"name": "gate", "op": "FromElsewhereFwdOp"}]
    assert problems(composition={"kind": "composite", "stages": stages}) == ()
