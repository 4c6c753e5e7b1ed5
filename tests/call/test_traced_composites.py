"""Composite ops under torch.compile: they are traced through their bodies."""

from __future__ import annotations

import composites
import pytest
import torch
from call_support import small, target


@pytest.fixture
def compiled():
    """What compiles a function here; what it keeps of tensors is gone afterwards."""
    yield lambda function: torch.compile(function, backend="eager")
    torch._dynamo.reset()


def test_traced_a_composite_is_its_body(compiled):
    op = composites.ops().nest()
    op(small())
    before = op.last_call
    assert compiled(lambda x: op(x) + 1)(small()).equal(small() * 8 + 1)
    assert op.last_call is before
    assert op.delegate_for("last", ()).last_call is not None


def test_traced_a_composite_that_a_target_serves_whole_is_called(compiled):
    classes = composites.ops()
    with target(lambda x: lambda x: x * 3, op="TwiceFwdOp"):
        op = classes.twice(target="acme")
        op(small())
        assert compiled(lambda x: op(x) + 1)(small(2, 2)).equal(small(2, 2) * 3 + 1)
        assert op.last_call.tensors["x"][0] == (2, 2)
