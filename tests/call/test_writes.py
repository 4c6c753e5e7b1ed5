"""What a call writes: ``out``, written inputs, the outputs that are one of them."""

from __future__ import annotations

import re

import pytest
import torch
from call_support import Switch, faulty, layouts, op_class, served, small, target

from tileops_core.errors import SignatureError
from tileops_core.ops import ReLUFwdOp

STRIDED = [
    pytest.param(lambda: torch.zeros(4, 3).t(), id="transposed"),
    pytest.param(lambda: torch.zeros(3, 7)[:, 1:5], id="pitched"),
    pytest.param(lambda: torch.zeros(6, 8)[::2, ::2], id="stepped"),
    pytest.param(lambda: torch.zeros(13)[1:].view(3, 4), id="shifted"),
]


def refused(call, *says):
    with pytest.raises(SignatureError) as caught:
        call()
    for pattern in says:
        assert re.search(pattern, str(caught.value)), (pattern, str(caught.value))
    return caught.value


@pytest.fixture
def buffer():
    with served("BufferFwdOp") as op:
        yield op


@pytest.fixture
def accumulate():
    with served("AccumulateFwdOp") as op:
        yield op


# -- out --------------------------------------------------------------------------------------


def test_out_is_filled_and_is_the_result(buffer):
    for _ in range(2):
        out = torch.full((3, 4), 7.0)
        assert buffer(small(), out=out) is out
        assert torch.equal(out, small() * 2)


def test_out_is_taken_by_position_too(buffer):
    out = torch.empty(3, 4)
    assert buffer(small(), out) is out


def test_without_out_the_result_is_new(buffer):
    out = torch.empty(3, 4)
    buffer(small(), out=out)
    for _ in range(2):
        y = buffer(small())
        assert y is not out
        assert torch.equal(y, small() * 2)


@pytest.mark.parametrize(
    ("out", "says", "due"),
    [
        pytest.param(
            torch.empty(3, 5), r"out has shape \(3, 5\), y is .* = \(3, 4\)", (3, 4), id="shape"
        ),
        pytest.param(torch.empty(12), r"out has shape \(12,\)", (3, 4), id="rank"),
        pytest.param(
            torch.empty(3, 4, dtype=torch.float16),
            "out has dtype float16.*float32",
            torch.float32,
            id="dtype",
        ),
        pytest.param(
            torch.empty(3, 4, device="meta"),
            "out is on meta.*cpu",
            torch.device("cpu"),
            id="device",
        ),
    ],
)
def test_an_out_of_other_facts_is_refused(buffer, out, says, due):
    good = torch.empty(3, 4)
    buffer(small(), out=good)
    error = refused(lambda: buffer(small(), out=out), "BufferFwdOp", says)
    assert error.tensor == "out"
    assert error.expected == due
    assert error.actual in (out.shape, out.dtype, out.device)
    assert type(error.actual) is type(due)
    assert torch.equal(buffer(small(), out=good), small() * 2)


@pytest.mark.parametrize("make", STRIDED)
def test_an_out_that_is_not_dense_is_filled_and_returned(buffer, make):
    for _ in range(2):
        out = make()
        assert buffer(small(), out=out) is out
        assert torch.equal(out, small() * 2)


def test_memory_around_a_strided_out_stays(buffer):
    base = torch.full((3, 7), -1.0)
    buffer(small(), out=base[:, 1:5])
    assert (base[:, [0, 5, 6]] == -1).all()


def test_a_kernel_gets_dense_buffers_only():
    seen = []

    def kernel(x, out=None):
        seen.append(out.is_contiguous())
        return torch.mul(x, 2, out=out)

    with served("BufferFwdOp", lambda *specs, **params: kernel) as op:
        for _ in range(2):
            op(small(), out=torch.zeros(4, 3).t())
    assert seen == [True, True]


def test_out_may_be_the_very_same_view_as_an_input(buffer):
    """PIPE-11: an exact alias is right."""
    for _ in range(2):
        x = small()
        assert buffer(x, out=x) is x
        assert torch.equal(x, small() * 2)


def test_a_strided_out_may_be_the_very_same_view_as_an_input(buffer):
    for _ in range(2):
        x = small(4, 3).t()
        assert buffer(x, out=x) is x
        assert torch.equal(x, small(4, 3).t() * 2)


# -- overlap ----------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True])
def test_an_out_that_overlaps_an_input_in_part_is_refused(buffer, warm):
    """PIPE-11"""
    if warm:
        buffer(small(), out=torch.empty(3, 4))
    base = torch.zeros(24)
    x, out = base[:12].view(3, 4), base[4:16].view(3, 4)
    refused(lambda: buffer(x, out=out), "out is written and overlaps x", "clone")
    assert (base == 0).all()


@pytest.mark.parametrize("warm", [False, True])
def test_another_view_of_an_inputs_memory_is_refused(buffer, warm):
    x = torch.zeros(4, 4)
    if warm:
        buffer(small(4, 4), out=torch.empty(4, 4).t())
    refused(lambda: buffer(x, out=x.t()), "out is written and overlaps x")


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("make", [small, lambda: small(4, 3).t()], ids=["dense", "strided"])
def test_one_tensor_for_two_written_inputs_is_refused(warm, make):
    """PIPE-11: the very same view is right for a read argument alone."""
    with served("RotateFwdOp") as op:
        if warm:
            op(make(), make())
        x = make()
        error = refused(lambda: op(x, x), "left and right are both written and share memory")
        assert error.tensor == "left"
        assert torch.equal(x, make())
        refused(lambda: op(x, x[:]), "left and right are both written")


@pytest.mark.parametrize("warm", [False, True])
def test_out_is_no_written_input(warm):
    spec = {
        **faulty.SPECS["AccumulateFwdOp"],
        "signature": {
            **faulty.SPECS["AccumulateFwdOp"]["signature"],
            "outputs": {"y": {"dtype": "T", "shape": "[M, N]", "buffer": "out"}},
        },
    }
    add = lambda state, x, out=None: torch.add(state.add_(x), 0, out=out)  # noqa: E731
    with target(lambda *specs, **params: add, op="AccumulateFwdOp"):
        op = op_class("AccumulateFwdOp", spec=spec)(target="acme")
        if warm:
            op(small(), small(), out=torch.zeros(3, 4))
        state = small()
        refused(
            lambda: op(state, small(), out=state), "state and out are both written and share memory"
        )


def test_a_call_that_autograd_follows_refuses_it_too():
    with served("RotateFwdOp") as op:
        x = small().requires_grad_() * 1
        refused(lambda: op(x, x), "left and right are both written")


def test_views_that_only_touch_are_no_overlap(buffer):
    base = torch.arange(24.0)
    x, out = base[:12].view(3, 4), base[12:].view(3, 4)
    buffer(x, out=out)
    assert torch.equal(out, x * 2)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("which", ["out", "state"])
def test_a_written_tensor_that_overlaps_itself_is_refused(which, warm):
    """PIPE-11"""
    expanded = torch.zeros(1, 4).expand(3, 4)
    name = {"out": "BufferFwdOp", "state": "AccumulateFwdOp"}[which]
    with served(name) as op:
        if which == "out":
            dense = torch.zeros(3, 4)
            call = lambda tensor: op(small(), out=tensor)  # noqa: E731
        else:
            dense = torch.zeros(4, 3).t()
            call = lambda tensor: op(tensor, small())  # noqa: E731
        if warm:
            call(dense)
        refused(lambda: call(expanded), f"{which} is written, but several of its elements")
        assert (expanded == 0).all()
        call(dense)


def test_a_window_view_overlaps_itself(accumulate):
    windows = torch.zeros(6).unfold(0, 4, 1)
    refused(lambda: accumulate(windows, small()), "several of its elements", r"\(1, 1\)")


def test_two_written_inputs_may_not_overlap_in_part():
    with served("SwapFwdOp") as op:
        base = torch.arange(24.0)
        left, right = base[:12].view(3, 4), base[12:].view(3, 4)
        op(left, right)
        assert base[0].item() == 12
        refused(lambda: op(left, base[6:18].view(3, 4)), "left and right are both written")


def test_a_read_input_that_is_the_written_view_is_allowed(accumulate):
    for _ in range(2):
        x = small()
        accumulate(x, x)
        assert torch.equal(x, small() * 2)


def test_a_buffer_that_is_itself_part_of_an_optional_input_is_refused():
    entry = {
        **faulty.SPECS["ProbePairFwdOp"],
        "signature": {
            **faulty.SPECS["ProbePairFwdOp"]["signature"],
            "outputs": {"y": {"dtype": "T", "shape": "[M, N]", "buffer": "out"}},
        },
    }

    def kernel(x, z=None, out=None):
        return torch.add(x, 0 if z is None else z, out=out)

    with target(lambda *specs: kernel, op="ProbePairFwdOp"):
        op = op_class("ProbePairFwdOp", spec=entry)(target="acme")
        base = torch.zeros(24)
        out = base[:12].view(3, 4)
        assert op(small(), out=out) is out
        refused(lambda: op(small(), base[4:16].view(3, 4), out=out), "overlaps z")
        assert torch.equal(op(small(), small(), out=out), small() * 2)


# -- written inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*STRIDED, pytest.param(lambda: torch.zeros(3, 4), id="dense")])
def test_a_written_input_holds_the_result_however_it_lies(accumulate, make):
    for _ in range(2):
        state = make()
        accumulate(state, small())
        accumulate(state, small())
        assert torch.equal(state, small() * 2)


def test_a_pure_write_returns_nothing(accumulate):
    assert accumulate(torch.zeros(3, 4), small()) is None
    assert accumulate(torch.zeros(3, 4), small()) is None


@pytest.mark.parametrize("make", STRIDED)
def test_a_write_only_input_is_written_whole(make):
    with served("StoreFwdOp") as op:
        for _ in range(2):
            cache = make()
            op(cache, small())
            assert torch.equal(cache, small())


@pytest.mark.parametrize("make", [*STRIDED, pytest.param(lambda: torch.zeros(3, 4), id="dense")])
def test_an_aliased_output_is_the_callers_own_object(make):
    with served("RotateFwdOp") as op:
        for _ in range(2):
            left, right = make(), make()
            left.copy_(small())
            right.copy_(small() * 3)
            total, difference = op(left, right)
            assert total is left
            assert difference is right
            assert torch.equal(left, small() * 4)
            assert torch.equal(right, small() * -2)


def test_a_kernel_may_return_nothing_for_aliased_outputs():
    def kernel(left, right):
        faulty.KERNELS["RotateFwdOp"]()(left, right)

    with served("RotateFwdOp", lambda *specs: kernel) as op:
        left, right = small(), small()
        assert op(left, right) == (left, right)
        assert torch.equal(left, small() * 2)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_parameter_decides_whether_the_input_is_written(in_place):
    with served("MaybeInPlaceFwdOp", in_place=in_place) as op:
        for _ in range(2):
            x = small()
            y = op(x)
            assert (y is x) is in_place
            assert torch.equal(y, small() * 2)
            assert torch.equal(x, small() * (2 if in_place else 1))


@pytest.mark.parametrize(("name", "x"), layouts())
def test_relu_in_place_writes_any_layout_that_can_be_written(name, x):
    """PIPE-11"""
    x = x.clone() if "expanded" in name else x
    due = torch.relu(x)
    op = ReLUFwdOp(inplace=True)
    assert op(x) is x
    assert torch.equal(x, due)


def test_a_contiguous_written_input_is_refused_strided():
    with served("ContiguousInPlaceFwdOp") as op:
        x = small()
        assert op(x) is x
        refused(lambda: op(small(4, 3).t()), "x is not contiguous")


# -- what autograd and inference mode ask -----------------------------------------------------


@pytest.mark.parametrize("make", [*STRIDED, pytest.param(lambda: torch.zeros(3, 4), id="dense")])
def test_versions_of_written_tensors_are_bumped(accumulate, buffer, make):
    for _ in range(2):
        state, out = make(), make()
        before = state._version, out._version
        accumulate(state, small())
        buffer(small(), out=out)
        assert state._version > before[0]
        assert out._version > before[1]


def test_a_bumped_version_stops_a_wrong_backward(accumulate):
    w = torch.ones(3, 4, requires_grad=True)
    state = torch.ones(3, 4)
    y = (w * state).sum()
    accumulate(state, small())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_versions_of_read_tensors_stay(accumulate):
    x = small()
    for _ in range(2):
        accumulate(torch.zeros(3, 4), x)
    assert x._version == 0


@pytest.mark.parametrize("warm", [False, True])
def test_a_leaf_that_requires_grad_is_not_written(accumulate, warm):
    leaf = torch.zeros(3, 4, requires_grad=True)
    if warm:
        accumulate(torch.zeros(3, 4), small())
        with torch.no_grad():
            accumulate(torch.zeros(3, 4, requires_grad=True), small())
    refused(lambda: accumulate(leaf, small()), "leaf that requires grad", r"torch\.no_grad")
    assert (leaf == 0).all()
    with torch.no_grad():
        accumulate(leaf, small())
    assert torch.equal(leaf.detach(), small())


def test_a_leaf_that_requires_grad_is_no_out(buffer):
    out = torch.zeros(3, 4, requires_grad=True)
    refused(lambda: buffer(small(), out=out), "out")
    with torch.no_grad():
        assert buffer(small(), out=out) is out


@pytest.mark.parametrize("warm", [False, True])
def test_an_inference_tensor_is_written_in_inference_mode_only(accumulate, warm):
    if warm:
        accumulate(torch.zeros(3, 4), small())
    with torch.inference_mode():
        state = torch.zeros(3, 4)
        accumulate(state, small())
    refused(lambda: accumulate(state, small()), "state", "inference mode")
    assert torch.equal(state, small())
    with torch.inference_mode():
        accumulate(state, small())
    assert torch.equal(state, small() * 2)


# -- empty writes -----------------------------------------------------------------------------


def empty_calls():
    empty = torch.zeros(0, 4)
    return [
        pytest.param("BufferFwdOp", lambda op: op(empty, out=empty), empty, id="out"),
        pytest.param("AccumulateFwdOp", lambda op: op(empty, torch.zeros(0, 4)), None, id="write"),
        pytest.param(
            "RotateFwdOp", lambda op: op(empty, empty), (empty, empty), id="several written"
        ),
    ]


@pytest.mark.parametrize(("name", "call", "due"), empty_calls())
def test_an_empty_write_runs_nobody_and_does_not_fix_the_target(name, call, due):
    switch = Switch(None)
    with served(name, switch.build) as op:
        for _ in range(2):
            result = call(op)
            if isinstance(due, tuple):
                assert all(r is d for r, d in zip(result, due, strict=True))
            else:
                assert result is due
        assert (switch.builds, op.serving_target) == (0, None)
        assert op.last_call.served_by.target is None


def test_an_empty_write_is_checked_like_any():
    with served("BufferFwdOp") as op:
        empty = torch.zeros(0, 4)
        refused(lambda: op(empty, out=torch.zeros(0, 5)), r"\(0, 5\)")
        refused(lambda: op(empty, out=torch.zeros(0, 4, dtype=torch.float16)), "float16")


def test_a_write_of_something_and_nothing_is_run():
    """Everything written must be empty for nobody to run."""
    entry = {
        **faulty.SPECS["AccumulateFwdOp"],
        "signature": {
            "forall": {"M": "Dim", "N": "Dim", "T": "DType[float32]"},
            "inputs": {
                "left": {"dtype": "T", "shape": "[M]", "mutated": True},
                "right": {"dtype": "T", "shape": "[N]", "mutated": True},
            },
            "outputs": {},
        },
    }
    ran = []
    with target(lambda *specs: lambda left, right: ran.append(1), op="AccumulateFwdOp"):
        op = op_class("AccumulateFwdOp", spec=entry)(target="acme")
        op(torch.zeros(0), torch.zeros(2))
        assert ran == [1]
        op(torch.zeros(0), torch.zeros(0))
        assert ran == [1]


# -- several outputs, absent outputs, inputs by name ------------------------------------------


def test_several_outputs_come_as_a_tuple_in_order():
    with served("MaximaFwdOp") as op:
        for _ in range(2):
            values, where = op(small())
            assert values.tolist() == [4, 8, 12]
            assert where.dtype is torch.int64
            assert where.tolist() == [3, 3, 3]


def test_an_output_that_a_call_does_not_have_is_none():
    with served("MaximaFwdOp", indices=False) as op:
        for _ in range(2):
            values, where = op(small())
            assert values.tolist() == [4, 8, 12]
            assert where is None


def test_a_kernel_takes_an_input_by_name_where_the_caller_does():
    seen = []

    def kernel(*positional, **named):
        seen.append((len(positional), sorted(named)))
        return torch.where(named["keep"], positional[0], 0)

    with served("MaskFwdOp", lambda *specs: kernel) as op:
        for _ in range(2):
            assert op(small(), keep=small() > 11).sum() == 12
    assert seen == [(1, ["keep"])] * 2


def test_an_optional_input_by_name_may_be_left_out():
    with served("MaybeMaskFwdOp") as op:
        for _ in range(2):
            assert torch.equal(op(small()), small())
            assert op(small(), keep=small() > 11).sum() == 12


def test_strided_inputs_by_name_reach_the_kernel_dense():
    seen = []

    def kernel(x, keep):
        seen.append((x.is_contiguous(), keep.is_contiguous()))
        return torch.where(keep, x, 0)

    with served("MaskFwdOp", lambda *specs: kernel) as op:
        keep = (small(4, 3) > 11).t()
        for _ in range(2):
            op(small(4, 3).t(), keep=keep)
    assert seen == [(True, True)] * 2


def test_a_failed_write_copies_nothing_back():
    def kernel(state, x):
        state.add_(x)
        raise ValueError("later")

    with served("AccumulateFwdOp", lambda *specs: kernel) as op:
        state = torch.zeros(4, 3).t()
        with pytest.raises(ValueError, match="later"):
            op(state, small())
        assert (state == 0).all()
