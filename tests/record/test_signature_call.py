from __future__ import annotations

import pytest
import torch
from call_support import faulty, op_class, served, small, target

from tileops_core import BUILTIN
from tileops_core.errors import TileOpsError
from tileops_core.op import SignatureCall
from tileops_core.ops import (
    AddFwdOp,
    FusedAddLayerNormFwdOp,
    GEMMFwdOp,
    LayerNormFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SumFwdOp,
)


def record_of(op, *inputs, **named):
    op(*inputs, **named)
    return op.last_call


# -- before, after, and in spite of failures --------------------------------------------------


def test_before_any_call_there_is_no_record():
    """PIPE-08: an error that says so, of the record and of what needs it."""
    op = RMSNormFwdOp((4,))
    for read in (lambda: op.last_call, op.eval_roofline):
        with pytest.raises(RuntimeError, match="RMSNormFwdOp: no call has completed yet"):
            read()


def test_a_failing_call_leaves_the_last_record():
    """PIPE-08"""
    op = RMSNormFwdOp((4,))
    record = record_of(op, small())
    with pytest.raises(TileOpsError):
        op(small(3, 5))
    assert op.last_call is record


def test_a_failing_first_call_leaves_none():
    op = RMSNormFwdOp((4,))
    with pytest.raises(TileOpsError):
        op(small(3, 5))
    with pytest.raises(RuntimeError, match="no call"):
        op.last_call  # noqa: B018


def test_calls_of_one_route_share_a_record():
    op = RMSNormFwdOp((4,))
    first = record_of(op, small())
    second = record_of(op, small())
    assert record_of(op, small()) is second
    assert first.tensors == second.tensors


def test_a_record_does_not_change_with_later_calls():
    op = RMSNormFwdOp((4,))
    first = record_of(op, small())
    before = dict(first.tensors)
    op(small(7, 4), torch.ones(4))
    assert dict(first.tensors) == before


def test_a_record_holds_no_tensor():
    import gc
    import weakref

    op = RMSNormFwdOp((4,))
    x = small()
    gone = weakref.ref(x)
    record = record_of(op, x)
    del x
    gc.collect()
    assert gone() is None
    assert record.tensors["x"][0] == (3, 4)


# -- expansions -------------------------------------------------------------------------------


def test_indices_are_the_solved_names_and_the_parameters_that_stand_in_types():
    record = record_of(RMSNormFwdOp((4,), eps=1e-3), torch.ones(2, 3, 4))
    assert dict(record.indices) == {
        "normalized_shape": (4,),
        "T": torch.float32,
        "B": (2, 3),
    }


def test_single_axes_are_indices_by_their_names():
    record = record_of(GEMMFwdOp(), torch.ones(3, 4), torch.ones(5, 4))
    assert (record.indices["M"], record.indices["N"], record.indices["K"]) == (3, 5, 4)
    assert record.indices["trans_b"] is True


def test_lets_are_indices():
    spec = dict(faulty.SPECS["ProbeFwdOp"])
    signature = {**spec["signature"], "let": {"half": "N // 2", "area": "M * N"}}
    with target():
        op = op_class("ProbeFwdOp", spec={**spec, "signature": signature})(target="acme")
        record = record_of(op, small())
    assert (record.indices["half"], record.indices["area"]) == (2, 12)


def test_tensors_are_inputs_and_outputs_by_name():
    record = record_of(LayerNormFwdOp((4,)), small(), torch.ones(4))
    assert dict(record.tensors) == {
        "input": ((3, 4), torch.float32),
        "weight": ((4,), torch.float32),
        "output": ((3, 4), torch.float32),
    }


def test_a_tensor_that_was_not_passed_is_not_present():
    record = record_of(LayerNormFwdOp((4,)), small(), torch.ones(4))
    assert record.present("weight")
    assert not record.present("bias")
    assert (record.bytes("weight"), record.bytes("bias")) == (16, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_bytes_count_elements_of_the_dtype(dtype):
    record = record_of(ReLUFwdOp(), torch.ones(3, 5, dtype=dtype))
    assert record.bytes("input") == record.bytes("output") == 15 * dtype.itemsize


def test_a_strided_input_counts_by_what_it_holds():
    record = record_of(ReLUFwdOp(), torch.zeros(3, 100)[:, :5])
    assert record.bytes("input") == 60


def test_an_output_that_a_call_does_not_have_is_not_present():
    with served("MaximaFwdOp", indices=False) as op:
        record = record_of(op, small())
    assert set(record.tensors) == {"x", "values"}
    assert record.branch_key == "without_where"


def test_a_caller_s_out_is_not_listed_again():
    with served("BufferFwdOp") as op:
        record = record_of(op, small(), out=torch.empty(3, 4))
    assert set(record.tensors) == {"x", "y"}
    assert record.has_out
    assert record.branch_key == "out"
    assert record.written == ()


def test_a_call_without_out_says_so():
    with served("BufferFwdOp") as op:
        op(small(), out=torch.empty(3, 4))
        record = record_of(op, small())
    assert not record.has_out
    assert record.branch_key == ""


TRAFFIC = [
    pytest.param("ProbeFwdOp", (small(),), {"x": (1, 0), "y": (0, 1)}, "", id="pure"),
    pytest.param(
        "AccumulateFwdOp",
        (small(), small()),
        {"state": (1, 1), "x": (1, 0)},
        "writes_state",
        id="mutated",
    ),
    pytest.param(
        "StoreFwdOp",
        (small(), small()),
        {"cache": (0, 1), "x": (1, 0)},
        "writes_cache",
        id="write only",
    ),
    pytest.param(
        "RotateFwdOp",
        (small(), small()),
        {"left": (1, 1), "right": (1, 1)},
        "writes_left_writes_right",
        id="aliased",
    ),
]


@pytest.mark.parametrize(("name", "inputs", "traffic", "branch"), TRAFFIC)
def test_traffic_and_branch_follow_from_the_effects(name, inputs, traffic, branch):
    with served(name) as op:
        record = record_of(op, *inputs)
    assert {n: (t.reads, t.writes) for n, t in record.traffic.items()} == traffic
    assert record.branch_key == branch
    assert list(record.written) == [n for n, (_, w) in traffic.items() if w and n != "y"]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_branch_that_a_parameter_decides_shows(in_place):
    record = record_of(ReLUFwdOp(inplace=in_place), small())
    assert record.written == (("input",) if in_place else ())
    assert record.branch_key == ("writes_input" if in_place else "")


def test_expansions_are_read_only():
    record = record_of(RMSNormFwdOp((4,)), small())
    for mapping in (record.indices, record.tensors, record.traffic):
        with pytest.raises(TypeError):
            mapping["x"] = 1


def test_the_device_is_the_calls():
    assert record_of(ReLUFwdOp(), small()).device == torch.device("cpu")
    assert record_of(ReLUFwdOp(), small().to("meta")).device.type == "meta"


def test_a_record_prints_op_device_tensors_and_who_served():
    text = repr(record_of(RMSNormFwdOp((4,), target="reference"), small()))
    for part in ("RMSNormFwdOp", "cpu", "x: float32[3, 4]", "reference (reference:reference)"):
        assert part in text


def test_a_record_is_a_signature_call():
    record = record_of(ReLUFwdOp(), small())
    assert isinstance(record, SignatureCall)
    assert record.op == "ReLUFwdOp"


# -- who served -------------------------------------------------------------------------------


def test_in_tree_the_kernel_type_of_each_interface_is_named():
    by = record_of(SumFwdOp(dim=0), small()).served_by
    assert by.target is BUILTIN
    assert dict(by.kernels) == {"reduce": "reference"}
    assert dict(by.backends) == {"reduce": "reference"}


def test_a_targets_name_is_told():
    with served() as op:
        by = record_of(op, small()).served_by
    assert (by.target, dict(by.kernels), str(by)) == ("acme", {}, "acme")


def test_a_hand_written_body_records_what_it_asked_for():
    interfaces, kernel_type = faulty.in_tree()

    def forward(self, x):
        call = interfaces["probe"].request(x.device, x.dtype, tuple(x.shape))
        return self.kernel_for("probe", call)(x)

    op = op_class(
        "ProbeFwdOp", interfaces=interfaces, kernel_types={"only": kernel_type}, forward=forward
    )()
    for rows in (3, 3, 5):
        by = record_of(op, small(rows, 4)).served_by
        assert dict(by.kernels) == {"probe": "only"}
        assert str(by) == "BUILTIN (own:only)"


def test_nobody_is_named_where_nobody_had_to_run():
    by = record_of(ReLUFwdOp(), torch.ones(0, 3)).served_by
    assert by.target is None
    assert str(by).startswith("nobody")


# -- roofline ---------------------------------------------------------------------------------


def test_the_roofline_is_exact_at_any_size():
    """MAN-16: whole numbers, no floats, no loss."""
    n = 2**18
    op = GEMMFwdOp()
    meta = torch.empty(n, n, device="meta", dtype=torch.float16)
    op(meta, meta)
    flops, moved = op.eval_roofline()
    assert (type(flops), type(moved)) == (int, int)
    assert flops == 2 * 2**54
    assert moved == 3 * n * n * 2


def test_bytes_follow_from_the_effects_where_the_entry_is_silent():
    op = FusedAddLayerNormFwdOp()
    op(small(), small(), torch.ones(4), torch.ones(4))
    _, moved = op.eval_roofline()
    assert moved == 4 * (4 * 12 + 2 * 4)


def test_a_buffer_is_written_once():
    with served("BufferFwdOp") as op:
        op(small(), out=torch.empty(3, 4))
        assert op.eval_roofline() == (12, 2 * 48)


@pytest.mark.parametrize(
    ("name", "moved"),
    [("AccumulateFwdOp", 3 * 48), ("StoreFwdOp", 2 * 48), ("RotateFwdOp", 4 * 48)],
)
def test_written_inputs_count_as_read_and_written_or_written_once(name, moved):
    with served(name) as op:
        op(small(), small())
        assert op.eval_roofline() == (12, moved)


def test_a_presence_and_a_parameter_change_the_cost():
    op = RMSNormFwdOp((4,))
    op(small())
    plain = op.eval_roofline()
    op(small(), torch.ones(4))
    assert op.eval_roofline()[0] == plain[0] + 12
    one, two = AddFwdOp(), AddFwdOp(alpha=2)
    for add in (one, two):
        add(small(), small())
    assert two.eval_roofline()[0] == 2 * one.eval_roofline()[0]


def test_an_empty_call_costs_nothing():
    op = ReLUFwdOp()
    op(torch.ones(0, 4))
    assert op.eval_roofline() == (0, 0)


def test_the_roofline_is_of_the_last_call():
    op = ReLUFwdOp()
    op(small(3, 4))
    op(small(5, 4))
    assert op.eval_roofline()[0] == 20


def with_roofline(**roofline):
    return {**faulty.SPECS["ProbeFwdOp"], "roofline": roofline}


def test_bytes_may_be_stated_and_read_tensors_sizes():
    with target():
        spec = with_roofline(flops="M", bytes="2 * bytes(x) + bytes(y)")
        op = op_class("ProbeFwdOp", spec=spec)(target="acme")
        op(small())
        assert op.eval_roofline() == (3, 3 * 48)


def test_an_entry_without_a_roofline_says_so():
    spec = {k: v for k, v in faulty.SPECS["ProbeFwdOp"].items() if k != "roofline"}
    with target():
        op = op_class("ProbeFwdOp", spec=spec)(target="acme")
        op(small())
        with pytest.raises(NotImplementedError, match=r"ProbeFwdOp: .*no roofline"):
            op.eval_roofline()


def test_a_function_of_the_record_may_give_the_roofline(monkeypatch):
    import sys
    from types import ModuleType

    module = ModuleType("made_up_costs")
    module.cost = lambda record: (record.indices["M"] * 10, record.bytes("x"))
    monkeypatch.setitem(sys.modules, "made_up_costs", module)
    with target():
        op = op_class("ProbeFwdOp", spec=with_roofline(func="made_up_costs.cost"))(target="acme")
        op(small())
        assert op.eval_roofline() == (30, 48)


def test_the_bytes_that_are_written_are_those_of_the_signature():
    with target():
        op = op_class("ProbeFwdOp", spec=with_roofline(flops="M"))(target="acme")
        op(small())
        assert op.last_call.written_bytes() == 48
        assert op.eval_roofline_read_bytes() == op.eval_roofline()[1] - 48
