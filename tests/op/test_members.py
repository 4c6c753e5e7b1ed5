"""The names that parameters and inputs may not take are those that every op has."""

from __future__ import annotations

from tileops_core.op import Op
from tileops_core.signature.members import OP_MEMBERS


def test_the_members_that_entries_are_checked_against_are_those_of_op():
    members = {name for name in dir(Op) if not name.startswith("_")}
    assert members - {"dtype"} == OP_MEMBERS
