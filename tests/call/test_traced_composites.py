"""Composite ops under torch.compile: they are traced through their bodies."""

from __future__ import annotations

import composites
import pytest
import torch
from call_support import small, target
from torch.fx.experimental.proxy_tensor import make_fx

from tileops_core.errors import SignatureError, TileOpsError


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


# -- recorded and transformed -----------------------------------------------------------------


class Calls(torch.nn.Module):
    """A module around an op."""

    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x)


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_composite_computes_what_its_sub_ops_do(strict):
    op = composites.ops().nest()
    op(small())
    program = torch.export.export(Calls(op), (small(),), strict=strict)
    assert program.module()(small() * 3).equal(op(small() * 3))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_recorded_composite_computes_what_its_sub_ops_do(mode):
    op = composites.ops().nest()
    graph = make_fx(op, tracing_mode=mode)(small())
    assert graph(small() * 3).equal(op(small() * 3))


def test_a_recorded_composite_is_checked_by_its_own_entry():
    op = composites.ops().nest()
    with pytest.raises(SignatureError, match=f"^{type(op).__name__}: x "):
        make_fx(op, tracing_mode="fake")(small().long())


def test_a_composite_may_be_mapped():
    op, x = composites.ops().nest(), small()
    assert torch.func.vmap(op)(torch.stack([x, x * 2]))[1].equal(op(x * 2))


def test_a_composite_that_a_target_serves_whole_is_not_recorded():
    classes = composites.ops()
    with target(lambda x: lambda x: x * 3, op="TwiceFwdOp"):
        op = classes.twice(target="acme")
        op(small())
        with pytest.raises(TileOpsError, match="TwiceFwdOp: target 'acme' serves it whole"):
            make_fx(op, tracing_mode="fake")(small())
