"""Rotary embedding: layouts, positions in and out of range, special values."""

from __future__ import annotations

import math

import pytest
import torch
from tilelang_cases import DTYPES, turned

from tileops_core import ops
from tileops_core.interfaces.rope import PositionError

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_index = pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)


def by_index(*args, **params):
    return ops.RoPEFwdOp(*args, **params, target="tilelang")


def by_position(*args, **params):
    return ops.RoPENeoxPositionIdsFwdOp(*args, **params, target="tilelang")


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@every_dtype
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("base", [10000.0, 500_000.0, 0.5])
@pytest.mark.parametrize("shape", [(2, 37, 3, 10), (1, 300, 1, 64), (3, 1, 5, 2)])
def test_sequences_of_heads_equal_float64(dtype, layout, base, shape, check_close):
    x = torch.randn(shape).to(dtype)
    exact = turned(x.double(), torch.arange(shape[1])[:, None], layout, base)
    result = by_index(layout, "2d", base=base)(x)
    check_close(result, exact.value, magnitude=exact.magnitude)


@every_dtype
@pytest.mark.parametrize(("width", "rotary_dim"), [(128, 96), (256, 192), (8, 2), (8, 8)])
def test_features_past_the_rotary_ones_are_copied_bit_for_bit(
    dtype, width, rotary_dim, check_close
):
    """ROP-02."""
    x, positions = torch.randn(5, 3, width).to(dtype), torch.tensor([0, 3, 1000, 17, 3])
    x[0, 0, rotary_dim:] = -0.0
    x[1, 0, rotary_dim:] = math.inf
    result = by_position(1001, rotary_dim=rotary_dim)(x, positions)
    assert torch.equal(bits(result[..., rotary_dim:]), bits(x[..., rotary_dim:]))
    exact = turned(x[..., :rotary_dim].double(), positions[:, None])
    check_close(result[..., :rotary_dim], exact.value, magnitude=exact.magnitude)


@every_dtype
@every_index
def test_a_position_is_that_row_of_the_full_run(dtype, index):
    """POS-02."""
    x = torch.randn(1, 40, 3, 8).to(dtype)
    whole = by_index(input_layout="2d")(x)[0]
    order = torch.randperm(40)
    assert torch.equal(by_position(40)(x[0, order], order.to(index)), whole[order])


@every_index
def test_positions_beyond_the_first_tables_are_right(index, check_close):
    """POS-02."""
    op = by_position(1 << 20)
    for farthest in (255, 256, 257, 5000, (1 << 20) - 1, 3):
        positions = torch.tensor([0, farthest, 1, farthest]).to(index)
        x = torch.randn(4, 2, 16)
        exact = turned(x.double(), positions[:, None])
        check_close(op(x, positions), exact.value, magnitude=exact.magnitude)


@every_index
def test_positions_beyond_all_tables_are_right(index, monkeypatch, check_close):
    monkeypatch.setattr("tileops_reference.kernels.rope._MOST_BYTES", 4 * 16 * 300)
    op = by_position(2**31)
    for farthest in (299, 300, 2**31 - 1, 5):
        positions = torch.tensor([7, farthest, 0]).to(index)
        x = torch.randn(3, 2, 16)
        exact = turned(x.double(), positions[:, None])
        check_close(op(x, positions), exact.value, magnitude=exact.magnitude)


@every_dtype
@every_index
@pytest.mark.parametrize("bound", [8, 300])
@pytest.mark.parametrize("beyond", [-1, 0, 1, 10**6, 2**31 - 1, -(2**31), 2**32, 2**40, -(2**62)])
def test_a_position_out_of_range_is_named_and_a_good_call_follows(dtype, index, bound, beyond):
    """POS-02: also below the 256 rows that the first tables have."""
    bad = beyond if beyond < 0 or beyond > 1 else bound + beyond
    if not torch.iinfo(index).min <= bad <= torch.iinfo(index).max:
        pytest.skip("no position of that dtype")
    op, x = by_position(bound), torch.randn(4, 2, 8).to(dtype)
    good = torch.tensor([bound - 1, 0, 1, 2], dtype=index)
    expected = by_position(bound)(x, good)
    wrong = good.clone()
    wrong[2] = bad
    for _ in range(2):  # the call that finds who serves, and one on a known route
        with pytest.raises(PositionError, match=rf"positions holds {bad} at index 2"):
            op(x, wrong)
        assert torch.equal(op(x, good), expected)
    assert wrong.tolist() == [bound - 1, 0, bad, 2]


@every_index
def test_positions_out_of_range_make_nothing_be_written_outside(index):
    """A guard on either side of every tensor that a kernel gets stays as it was."""
    op = by_position(8)

    def guarded(*shape, dtype):
        count = math.prod(shape)
        base = torch.full((count + 128,), 77, dtype=dtype)
        return base, base[64 : 64 + count].view(shape)

    whole, x = guarded(4, 2, 8, dtype=torch.float32)
    ids, positions = guarded(4, dtype=index)
    positions[:] = torch.tensor([0, -5, 10**6, 3], dtype=index)
    before = whole.clone(), ids.clone()
    with pytest.raises(PositionError, match="-5 at index 1"):
        op(x, positions)
    assert torch.equal(whole, before[0])
    assert torch.equal(ids, before[1])


def test_the_last_position_of_all_has_an_angle():
    x, positions = torch.randn(2, 1, 4), torch.tensor([2**31 - 1, 0], dtype=torch.int32)
    result = by_position(2**31)(x, positions)
    angle = (2**31 - 1) * 10000.0**-0.5
    expected = x[0, 0, 1] * math.cos(angle) - x[0, 0, 3] * math.sin(angle)
    torch.testing.assert_close(result[0, 0, 1], expected)
    assert torch.equal(result[1], x[1])


@every_dtype
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_spoils_its_own_pair_alone(dtype, layout, value):
    x = torch.randn(1, 4, 2, 10).to(dtype)
    x[0, 2, 1, 3] = value
    finite = by_index(layout, "2d")(x).isfinite()
    pair = (3, 8) if layout == "neox" else (2, 3)
    assert {tuple(at) for at in (~finite[0]).nonzero().tolist()} == {(2, 1, f) for f in pair}


@every_dtype
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_denormal_features_turn_like_others(dtype, layout, check_close):
    x = (torch.randn(9, 6, dtype=torch.float64) * torch.finfo(dtype).tiny / 8).to(dtype)
    assert x.any()
    exact = turned(x.double(), torch.arange(9), layout)
    check_close(by_index(layout)(x), exact.value, magnitude=exact.magnitude)


@every_dtype
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_the_first_position_changes_no_bit_of_a_finite_number(dtype, layout):
    """Every stored 16-bit value, and many float32: widened, narrowed, and the same again."""
    if dtype is torch.float32:
        x = torch.randint(-(2**31), 2**31, (1 << 16,), dtype=torch.int32).view(dtype)
    else:
        x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    x = x.masked_fill(~x.isfinite(), 1.0)
    # A zero would take its sign from the product of its pair with the sine, which is zero.
    x = torch.stack((x, x), -1).flatten() if layout == "interleaved" else torch.cat((x, x))
    result = by_index(layout)(x[None])[0]
    assert torch.equal(result, x)
    rest = x != 0
    assert torch.equal(bits(result[rest]), bits(x[rest]))


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_what_overflows_float16_is_infinite(layout, check_close):
    x = torch.full((5, 4), 60000.0).half()
    exact = turned(x.double(), torch.arange(5), layout)
    result = by_index(layout)(x)
    assert result.isinf().any()
    check_close(result, exact.value, magnitude=exact.magnitude)


def test_longer_calls_of_one_instance_are_right(check_close):
    """POS-02: the tables grow."""
    op, x = by_index(), torch.randn(3000, 8)
    exact = turned(x.double(), torch.arange(3000))
    for length in (1, 256, 257, 3000, 5):
        check_close(op(x[:length]), exact.value[:length], magnitude=exact.magnitude[:length])
