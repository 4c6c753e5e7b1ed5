"""What a record keeps of the tensors that describe others."""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType

import metadata_ops
import pytest
import torch
from call_support import Switch, in_threads, op_class, served, small, target
from torch._subclasses import FakeTensorMode

from tileops_core.errors import SignatureError, TileOpsError
from tileops_core.plan.cases import call_of
from tileops_core.record import Served, SignatureCall
from tileops_core.signature.workload import cases
from tileops_core.validate import validate


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def q():
    return torch.ones(6, 4, 8, dtype=torch.float16)


def k():
    return torch.ones(9, 2, 8, dtype=torch.float16)


@pytest.fixture
def kernel():
    return Switch(lambda q, *rest: q.clone())


@pytest.fixture
def packed(kernel):
    """Two requests of 2 and 4 queries, 3 and 6 keys."""
    with target(kernel.build, op="PackedFwdOp"):
        yield op_class("PackedFwdOp", spec=metadata_ops.SPECS["PackedFwdOp"])(target="acme")


def gathering():
    return op_class("GatherFwdOp", spec=metadata_ops.SPECS["GatherFwdOp"])(target="acme")


def gather(op, starts=None):
    cache, table = torch.ones(3, 4, 2, dtype=torch.float16), torch.tensor([[0, 1], [2, 2]]).int()
    return op(cache, table, ints(0, 3, 4), torch.zeros(4, 2, dtype=torch.float16), starts)


def test_metadata_are_the_tensors_that_were_passed(packed):
    a, b = ints(0, 2, 6), ints(0, 3, 9)
    packed(q(), k(), a, b)
    assert set(packed.last_call.metadata) == {"cu_seqlens_q", "cu_seqlens_kv"}
    assert packed.last_call.metadata["cu_seqlens_q"] is a
    assert packed.last_call.metadata["cu_seqlens_kv"] is b


def test_a_call_on_a_known_route_leaves_its_own(packed, kernel):
    packed(q(), k(), ints(0, 2, 6), ints(0, 3, 9))
    first = packed.last_call
    packed(q(), k(), ints(0, 5, 6), ints(0, 3, 9))
    assert kernel.builds == 1
    assert packed.last_call.metadata_values("cu_seqlens_q") == [0, 5, 6]
    assert first.metadata_values("cu_seqlens_q") == [0, 2, 6]


def test_values_are_read_when_they_are_asked_for(packed):
    offsets = ints(0, 2, 6)
    packed(q(), k(), offsets, ints(0, 3, 9))
    offsets[1] = 4
    assert packed.last_call.metadata_values("cu_seqlens_q") == [0, 4, 6]


def test_values_are_nested_like_the_tensor():
    with target(lambda *s, **p: lambda *t: t[3], op="GatherFwdOp"):
        op = gathering()
        gather(op)
    values = op.last_call.metadata_values("block_table")
    assert values == [[0, 1], [2, 2]]
    assert type(values[0][0]) is int


def test_a_route_keeps_no_tensor_of_a_call(packed):
    offsets = ints(0, 2, 6)
    gone = weakref.ref(offsets)
    packed(q(), k(), offsets, ints(0, 3, 9))
    del offsets
    packed(q(), k(), ints(0, 5, 6), ints(0, 3, 9))
    gc.collect()
    assert gone() is None


def test_a_failing_call_leaves_the_old_ones(packed, kernel):
    packed(q(), k(), ints(0, 2, 6), ints(0, 3, 9))
    record = packed.last_call
    with pytest.raises(SignatureError):
        packed(q(), k(), ints(0, 6), ints(0, 3, 9))

    def fail(*tensors):
        raise ValueError("no")

    kernel.does = fail
    with pytest.raises(ValueError, match="no"):
        packed(q(), k(), ints(0, 5, 6), ints(0, 3, 9))
    assert packed.last_call is record
    assert record.metadata_values("cu_seqlens_q") == [0, 2, 6]


def test_each_thread_has_its_own(packed):
    def call(at):
        def run():
            for _ in range(20):
                packed(q(), k(), ints(0, at, 6), ints(0, 3, 9))
                seen = packed.last_call.metadata_values("cu_seqlens_q")
                assert seen == [0, at, 6]

        return run

    assert [o.error for o in in_threads(call(1), call(3))] == [None, None]


def test_an_optional_one_that_was_not_passed_is_named():
    with target(lambda *s, **p: lambda *t: t[3], op="GatherFwdOp"):
        op = gathering()
        for _ in range(2):
            gather(op)
            assert "seq_starts" not in op.last_call.metadata
            with pytest.raises(TileOpsError, match=r"GatherFwdOp: seq_starts was not part"):
                op.last_call.metadata_values("seq_starts")
        gather(op, ints(5, 7))
    assert op.last_call.metadata_values("seq_starts") == [5, 7]


@pytest.mark.parametrize("name", ["cu_seqlen_q", "q", "o"])
def test_a_name_that_describes_nothing_is_refused(packed, name):
    packed(q(), k(), ints(0, 2, 6), ints(0, 3, 9))
    with pytest.raises(TileOpsError, match=f"PackedFwdOp: {name!r} is no input that describes"):
        packed.last_call.metadata_values(name)


def test_a_name_that_is_nearly_right_is_guessed(packed):
    packed(q(), k(), ints(0, 2, 6), ints(0, 3, 9))
    with pytest.raises(TileOpsError, match="did you mean 'cu_seqlens_q'"):
        packed.last_call.metadata_values("cu_seqlen_q")


def test_an_op_whose_inputs_describe_nothing_has_none():
    with served() as op:
        op(small())
        assert dict(op.last_call.metadata) == {}
        with pytest.raises(TileOpsError, match=r"ProbeFwdOp: 'x' .* are none"):
            op.last_call.metadata_values("x")


def test_meta_tensors_have_no_values(packed):
    packed(*(x.to("meta") for x in (q(), k(), ints(0, 2, 6), ints(0, 3, 9))))
    assert packed.last_call.metadata["cu_seqlens_q"].device.type == "meta"
    with pytest.raises(TileOpsError, match=r"cu_seqlens_q has no values, .* \(meta or fake\)"):
        packed.last_call.metadata_values("cu_seqlens_q")


def test_fake_tensors_have_no_values(packed):
    with FakeTensorMode():
        packed(q(), k(), ints(0, 2, 6), ints(0, 3, 9))
    with pytest.raises(TileOpsError, match=r"cu_seqlens_q has no values, .* \(meta or fake\)"):
        packed.last_call.metadata_values("cu_seqlens_q")


def test_a_call_that_nobody_had_to_run_keeps_them(packed):
    packed(q()[:0], k(), ints(0, 0, 0), ints(0, 3, 9))
    assert packed.last_call.served_by.target is None
    assert packed.last_call.metadata_values("cu_seqlens_q") == [0, 0, 0]


def test_a_call_that_autograd_follows_keeps_them(packed):
    for _ in range(2):
        packed(q().requires_grad_(), k(), ints(0, 2, 6), ints(0, 3, 9))
        assert packed.last_call.metadata_values("cu_seqlens_kv") == [0, 3, 9]


def test_metadata_are_read_only(packed):
    packed(q(), k(), ints(0, 2, 6), ints(0, 3, 9))
    with pytest.raises(TypeError):
        packed.last_call.metadata["cu_seqlens_q"] = None


def test_a_record_may_be_made_with_a_rows_values():
    from tileops_core.plan.build import build_plan

    plan = build_plan(metadata_ops.signature_of("PackedFwdOp"))
    case = list(cases(plan.signature))[-1]
    statics, specs = call_of(plan, case)
    record = SignatureCall(plan, statics, specs, False, Served(None), metadata=case.metadata())
    assert record.metadata_values("cu_seqlens_q") == [0, 2, 2, 5]
    without = SignatureCall(plan, statics, specs, False, Served(None))
    with pytest.raises(TileOpsError, match="PackedFwdOp: the values of cu_seqlens_q are not here"):
        without.metadata_values("cu_seqlens_q")


def test_parameters_are_all_of_the_entry_as_the_op_keeps_them():
    from tileops_core.ops import RMSNormFwdOp

    op = RMSNormFwdOp([4], eps=1e-3)
    op(small())
    assert dict(op.last_call.parameters) == {"normalized_shape": (4,), "eps": 1e-3}
    with pytest.raises(TypeError):
        op.last_call.parameters["eps"] = 1


def test_a_cost_function_is_run_with_the_values_of_every_row(monkeypatch):
    """The validator gives it what a call would have."""
    seen = []

    def cost(record):
        seen.append(record.metadata_values("cu_seqlens_q"))
        return sum(record.metadata_values("cu_seqlens_kv")), 1

    module = ModuleType("made_up_costs")
    module.cost = cost
    monkeypatch.setitem(sys.modules, "made_up_costs", module)
    spec = {**metadata_ops.SPECS["PackedFwdOp"], "roofline": {"func": "made_up_costs.cost"}}
    assert list(validate(op_class("PackedFwdOp", spec=spec))) == []
    assert seen[-1] == [0, 2, 2, 5]
    assert len(seen) == 4
