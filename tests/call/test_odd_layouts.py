"""Tensors that are fine, though their memory lies in odd ways or is not there."""

from __future__ import annotations

import pytest
import torch
from call_support import Switch, good, layouts, op_class, served, small, target
from torch.nn import functional

from tileops_core.call import pipeline
from tileops_core.call.binding import UNBOUND
from tileops_core.ops import (
    AddFwdOp,
    BMMFwdOp,
    GELUFwdOp,
    GEMMFwdOp,
    LayerNormFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SoftmaxFwdOp,
    SumFwdOp,
)

LAYOUTS = [pytest.param(tensor, id=name) for name, tensor in layouts()]

UNARY = [
    pytest.param(lambda: GELUFwdOp(), functional.gelu, id="gelu"),
    pytest.param(lambda: ReLUFwdOp(), torch.relu, id="relu"),
    pytest.param(lambda: SoftmaxFwdOp(dim=-1), lambda x: x.softmax(-1), id="softmax"),
    pytest.param(lambda: SumFwdOp(dim=0), lambda x: x.sum(0), id="sum"),
]


@pytest.mark.parametrize("x", LAYOUTS)
@pytest.mark.parametrize(("make", "torch_function"), UNARY)
def test_an_ops_result_does_not_depend_on_layout(make, torch_function, x):
    """PIPE-06"""
    op = make()
    for _ in range(2):
        torch.testing.assert_close(op(x), torch_function(x))


@pytest.mark.parametrize("x", LAYOUTS)
def test_inputs_stay_as_they_were(x):
    """PIPE-04: bit for bit, and by their version."""
    before, version = x.clone(), x._version
    for make in (GELUFwdOp, ReLUFwdOp, lambda: SumFwdOp(dim=0), lambda: RMSNormFwdOp((4,))):
        make()(x)
        assert torch.equal(x, before)
        assert x._version == version


@pytest.mark.parametrize("x", LAYOUTS)
def test_a_new_result_is_contiguous_memory_of_its_own(x):
    with served() as op:
        for _ in range(2):
            y = op(x)
            assert y.is_contiguous()
            assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
            assert torch.equal(y, x * 2)


@pytest.mark.parametrize("x", LAYOUTS)
def test_a_kernel_sees_contiguous_memory_with_no_bit_set(x):
    seen = []
    switch = Switch(lambda x: seen.append((x.is_contiguous(), x.is_neg())) or good(x))
    with served(build=switch.build) as op:
        op(x)
        op(x)
    assert seen == [(True, False)] * 2


def test_layouts_alternate_on_one_instance():
    """Each layout has its own route; none is taken for another."""
    op = op_class("ProbeFwdOp")
    with target():
        op = op(target="acme")
        for _ in range(3):
            for _, x in layouts():
                assert torch.equal(op(x), x * 2)


def test_an_expanded_weight_equals_a_dense_one():
    """PIPE-06"""
    x, weight = torch.randn(3, 4), torch.full((1,), 0.5)
    op = RMSNormFwdOp((4,))
    assert torch.equal(op(x, weight.expand(4)), op(x, weight.expand(4).contiguous()))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)], ids=str)
def test_a_tensor_without_elements_gives_one(shape):
    with served() as op:
        for _ in range(2):
            y = op(torch.ones(shape))
            assert y.shape == shape
            assert y.is_contiguous()


def test_an_empty_result_is_made_without_anybody():
    switch = Switch(good)
    with served(build=switch.build) as op:
        op(torch.ones(0, 4))
        assert (switch.builds, op.serving_target) == (0, None)
        assert op.last_call.served_by.target is None


@pytest.mark.parametrize("name", ["ProbeFwdOp", "BufferFwdOp", "MaximaFwdOp"])
def test_an_empty_call_of_an_op_that_is_bound_is_known_the_second_time(name):
    with served(name) as op:
        op(small())
        empty = torch.ones(0, 4)
        op(empty)
        first = op.last_call
        results = [op(empty), op(empty)]
        assert op.last_call is first
        assert first.served_by.target is None
        assert results[0] is not results[1]
        op(small())
        assert op.last_call.served_by.target == "acme"


@pytest.mark.parametrize("name", ["ProbeFwdOp", "MaximaFwdOp"])
def test_results_without_elements_are_not_taken_for_one_piece_of_memory(name, monkeypatch):
    """What lies nowhere has the address 0, whatever it is: that asks for no closer look."""
    with served(name) as op:
        op(small())
        op(torch.ones(0, 4))
        looked = []
        monkeypatch.setattr(pipeline, "verify", lambda *_: looked.append(1))
        op(torch.ones(0, 4))
        assert looked == []


def test_an_empty_call_of_an_op_that_is_not_bound_keeps_nothing():
    with served() as op:
        op(torch.ones(0, 4))
        assert op._binding is UNBOUND
        assert len(UNBOUND) == 0


def test_a_result_with_elements_of_an_empty_tensor_is_computed():
    """PIPE-01: an empty sum is zero."""
    assert torch.equal(SumFwdOp(dim=0)(torch.ones(0, 8)), torch.zeros(8))
    assert SumFwdOp()(torch.ones(0)).item() == 0
    assert torch.equal(GEMMFwdOp()(torch.ones(2, 0), torch.ones(3, 0)), torch.zeros(2, 3))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)], ids=str)
def test_ops_take_tensors_without_elements_as_torch_does(shape):
    x = torch.ones(shape)
    assert SoftmaxFwdOp(dim=0)(x).shape == shape
    assert torch.equal(AddFwdOp()(x, x), x)
    assert LayerNormFwdOp(shape[1:])(x).shape == shape
    assert BMMFwdOp()(torch.ones(0, 2, 3), torch.ones(0, 3, 4)).shape == (0, 2, 4)


def test_a_tensor_without_axes_works():
    x = torch.tensor(-1.5)
    for _ in range(2):
        torch.testing.assert_close(GELUFwdOp()(x), functional.gelu(x))
        torch.testing.assert_close(AddFwdOp()(x, x), x + x)
        torch.testing.assert_close(SumFwdOp(dim=0)(x), x)
        torch.testing.assert_close(SoftmaxFwdOp(dim=-1)(x), x.softmax(-1))


def test_a_tensor_that_shares_memory_with_another_is_read_like_any():
    x = small(6)
    assert torch.equal(AddFwdOp()(x[:-1], x[1:]), x[:-1] + x[1:])
    assert torch.equal(AddFwdOp()(x, x), x * 2)
