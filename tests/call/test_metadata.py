"""``checks(metadata=True)``: the values of tensors that describe others are read and checked."""

from __future__ import annotations

import metadata_ops
import pytest
import torch
from call_support import in_threads, op_class, target

from tileops_core import checks
from tileops_core.errors import SignatureError


def ints(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def build_kernel(*specs, **params):
    return lambda q, *rest: q.clone()


@pytest.fixture
def packed():
    """Two requests of 2 and 4 queries, 3 and 6 keys."""
    with target(build_kernel, op="PackedFwdOp"):
        yield op_class("PackedFwdOp", spec=metadata_ops.SPECS["PackedFwdOp"])(target="acme")


def q(tokens=6):
    return torch.ones(tokens, 4, 8, dtype=torch.float16)


def k(tokens=9):
    return torch.ones(tokens, 2, 8, dtype=torch.float16)


GOOD = (ints(0, 2, 6), ints(0, 3, 9))


def test_what_the_entry_requires_is_accepted(packed):
    with checks(metadata=True):
        assert packed(q(), k(), *GOOD).shape == (6, 4, 8)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("offsets", "place", "value"),
    [
        (ints(1, 2, 6), "cu_seqlens_q[0] is 1", 1),
        (ints(0, 7, 6), "cu_seqlens_q[2] is 6", 6),
        (ints(0, 2, 5), "cu_seqlens_q[2] is 5", 5),
    ],
)
def test_a_value_that_breaks_a_requirement_is_named_with_its_place(
    packed, warm, offsets, place, value
):
    if warm:
        packed(q(), k(), *GOOD)
    with checks(metadata=True), pytest.raises(SignatureError) as caught:
        packed(q(), k(), offsets, GOOD[1])
    error = caught.value
    for part in (
        "PackedFwdOp: ",
        place,
        "requires prefix_offsets(T_q) of cu_seqlens_q",
        "[signature.inputs.",
    ):
        assert part in str(error)
    assert (error.op, error.tensor) == ("PackedFwdOp", "cu_seqlens_q")
    assert (error.expected, error.actual) == ("prefix_offsets(T_q)", value)
    assert error.span.line > 0


def test_a_refused_call_leaves_the_last_record(packed):
    packed(q(), k(), *GOOD)
    record = packed.last_call
    with checks(metadata=True), pytest.raises(SignatureError):
        packed(q(), k(), ints(0, 2, 5), GOOD[1])
    assert packed.last_call is record


def test_a_normal_call_reads_no_metadata(packed):
    assert packed(q(), k(), ints(5, 5, 5), GOOD[1]).shape == (6, 4, 8)


def test_only_the_thread_that_asked_checks(packed):
    def call():
        return packed(q(), k(), ints(5, 5, 5), GOOD[1])

    with checks(metadata=True):
        (other,) = in_threads(call)
        assert other.error is None
        with pytest.raises(SignatureError):
            call()


def test_a_shape_that_is_wrong_is_told_first(packed):
    with checks(metadata=True), pytest.raises(SignatureError, match="has shape"):
        packed(q(), k(), ints(0, 2, 3, 6), GOOD[1])


@pytest.mark.parametrize("device", ["meta"])
def test_tensors_without_data_are_not_read(packed, device):
    given = [x.to(device) for x in (q(), k(), ints(7, 7, 7), GOOD[1])]
    with checks(metadata=True):
        assert packed(*given).device.type == device


def test_views_are_read_as_they_are(packed):
    wide = torch.zeros(3, 2, dtype=torch.int32)
    wide[:, 0] = GOOD[0]
    with checks(metadata=True):
        packed(q(), k(), wide[:, 0], GOOD[1])
        wide[0, 0] = 3
        with pytest.raises(SignatureError, match=r"cu_seqlens_q\[0\] is 3"):
            packed(q(), k(), wide[:, 0], GOOD[1])


def gather(**params):
    """Two requests of 3 and 1 rows of pages of 4 rows, two pages each."""
    op = op_class("GatherFwdOp", spec=metadata_ops.SPECS["GatherFwdOp"])(target="acme", **params)
    cache, table = torch.ones(3, 4, 2, dtype=torch.float16), torch.tensor([[0, 1], [2, 2]]).int()

    def call(starts=None, table=table, offsets=GATHERED):
        result = torch.zeros(4, 2, dtype=torch.float16)
        return op(cache, table, offsets, result, starts)

    return call


GATHERED = ints(0, 3, 4)


@pytest.fixture
def gathered():
    with (
        target(lambda *s, **p: lambda *t: t[3], op="GatherFwdOp"),
        checks(metadata=True),
    ):
        yield gather()


def test_an_optional_tensor_is_read_when_it_is_there(gathered):
    gathered()
    gathered(ints(5, 7))
    with pytest.raises(SignatureError, match=r"seq_starts\[0\] is 6, with 3 rows it ends at 9"):
        gathered(ints(6, 7))


def test_a_requirement_reads_indices_and_nested_places(gathered):
    with pytest.raises(
        SignatureError, match=r"block_table\[1\]\[0\] is 3, it must lie from 0 to 2"
    ):
        gathered(table=ints(0, 1, 3, 2).reshape(2, 2))


def test_requirements_are_checked_in_their_order(gathered):
    with pytest.raises(SignatureError, match=r"prefix_offsets\(T_q\)"):
        gathered(offsets=ints(0, 20, 3))
