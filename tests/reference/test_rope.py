"""Rotary embedding: angles, pairs, positions near and far, positions out of range."""

from __future__ import annotations

import math

import pytest
import torch

from tileops_core.interfaces.rope import PositionError
from tileops_reference.functions.rope import (
    long_rope,
    rope,
    rope_neox_position_ids,
    rotary_tables,
    rows_or_nan,
    turned,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LAYOUTS = ("neox", "interleaved")


def pairs(layout, features):
    """The feature indices of each pair."""
    half = features // 2
    return [(i, i + half) if layout == "neox" else (2 * i, 2 * i + 1) for i in range(half)]


def by_loop(x, positions, layout, features, base=10000.0):
    """``[tokens, D]``, one pair at a time: the result, and the size of the terms."""
    result, size = x.double().clone(), x.double().abs()
    for token, position in enumerate(positions):
        for i, (a, b) in enumerate(pairs(layout, features)):
            angle = position * base ** (-2 * i / features)
            cos, sin = math.cos(angle), math.sin(angle)
            one, two = x[token, a].item(), x[token, b].item()
            result[token, a], result[token, b] = one * cos - two * sin, two * cos + one * sin
            size[token, a] = abs(one * cos) + abs(two * sin)
            size[token, b] = abs(two * cos) + abs(one * sin)
    return result, size


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", [10000.0, 500_000.0, 1.0, 0.5])
def test_every_pair_is_turned_by_its_angle(dtype, layout, base, check_close):
    x = torch.randn(37, 10).to(dtype)
    expected, size = by_loop(x, range(37), layout, 10, base)
    check_close(rope(x, rope_layout=layout, base=base), expected, magnitude=size)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_angles_of_many_turns_are_not_rounded_to_float32(dtype, check_close):
    """An angle of 100,000 radians has seven fractional bits in float32."""
    positions = [0, 1, 4095, 99_999, 131_071, 1_000_003]
    x = torch.randn(len(positions), 1, 16).to(dtype)
    expected, size = by_loop(x[:, 0], positions, "neox", 16, 500_000.0)
    result = rope_neox_position_ids(
        x, torch.tensor(positions), max_position=1 << 20, base=500_000.0
    )
    check_close(result[:, 0], expected, magnitude=size)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("features", [96, 192])
def test_widths_that_are_no_power_of_two_keep_the_length_of_every_pair(layout, features):
    """ROP-02."""
    x = torch.randn(1001, features)
    result = rope(x, rope_layout=layout)
    for a, b in pairs(layout, features):
        before = torch.hypot(x[:, a], x[:, b])
        torch.testing.assert_close(torch.hypot(result[:, a], result[:, b]), before)


@pytest.mark.parametrize(("width", "rotary_dim"), [(128, 96), (256, 192), (8, 2), (8, 8)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_features_past_the_rotary_ones_are_copied(width, rotary_dim, dtype, check_close):
    """ROP-02."""
    x = torch.randn(5, 1, width).to(dtype)
    x[0, 0, rotary_dim:] = math.nan
    positions = torch.tensor([0, 3, 1000, 17, 3])
    result = rope_neox_position_ids(x, positions, max_position=1001, rotary_dim=rotary_dim)
    copied = result[..., rotary_dim:], x[..., rotary_dim:]
    assert torch.equal(*(t.contiguous().view(torch.uint8) for t in copied))
    expected, size = by_loop(x[:, 0, :rotary_dim], positions.tolist(), "neox", rotary_dim)
    check_close(result[:, 0, :rotary_dim], expected, magnitude=size)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_four_axes_are_sequences_of_heads(dtype):
    x = torch.randn(2, 5, 3, 8).to(dtype)
    for layout in LAYOUTS:
        result = rope(x, rope_layout=layout, input_layout="2d")
        for batch in range(2):
            for head in range(3):
                alone = rope(x[batch, :, head], rope_layout=layout)
                torch.testing.assert_close(result[batch, :, head], alone)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_a_token_by_position_is_the_row_of_the_full_run(dtype):
    """POS-02."""
    x = torch.randn(50, 3, 8)
    whole = rope(x[None], input_layout="2d")[0]
    one = rope_neox_position_ids(x[17:18], torch.tensor([17], dtype=dtype), max_position=50)
    assert torch.equal(one, whole[17:18])
    order = torch.randperm(50)
    some = rope_neox_position_ids(x[order], order.to(dtype), max_position=50)
    assert torch.equal(some, whole[order])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_position_zero_changes_nothing(layout, dtype):
    tiny = torch.finfo(dtype).tiny
    x = torch.tensor([[0.0, -0.0, tiny / 2, -tiny / 4, 1.0, torch.finfo(dtype).max]]).to(dtype)
    assert torch.equal(rope(x, rope_layout=layout), x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_not_finite_spoils_its_own_pair_alone(layout, value, dtype):
    x = torch.randn(4, 2, 10).to(dtype)[None]
    x[0, 2, 1, 3] = value
    finite = rope(x, rope_layout=layout, input_layout="2d").isfinite()
    spoiled = {(2, 1, feature) for pair in pairs(layout, 10) if 3 in pair for feature in pair}
    assert {tuple(at) for at in (~finite[0]).nonzero().tolist()} == spoiled


@pytest.mark.parametrize("layout", LAYOUTS)
def test_denormal_features_turn_like_others(layout, check_close):
    for dtype in DTYPES:
        x = (torch.randn(9, 6, dtype=torch.float64) * torch.finfo(dtype).tiny / 8).to(dtype)
        assert x.any()
        expected, size = by_loop(x, range(9), layout, 6)
        check_close(rope(x, rope_layout=layout), expected, magnitude=size)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_at_an_odd_offset_is_read_right(layout):
    x = torch.randn(5, 6)
    shifted = torch.zeros(31)
    shifted[1:] = x.flatten()
    assert torch.equal(
        rope(shifted[1:].view(5, 6), rope_layout=layout), rope(x, rope_layout=layout)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(0, 4), (0, 3, 2, 4), (2, 0, 3, 4), (2, 3, 0, 4)])
def test_nothing_is_turned_to_nothing(layout, shape):
    input_layout = "1d" if len(shape) == 2 else "2d"
    assert rope(torch.empty(shape), rope_layout=layout, input_layout=input_layout).shape == shape


def test_no_tokens_have_no_positions():
    x, positions = torch.empty(0, 3, 4), torch.empty(0, dtype=torch.int32)
    assert rope_neox_position_ids(x, positions, max_position=8).shape == (0, 3, 4)


@pytest.mark.parametrize("bad", [[0, 8], [-1, 0], [2**31 - 1, 1], [-(2**31), 3]])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_a_position_out_of_range_is_refused_on_the_cpu(bad, dtype):
    """POS-02."""
    x, positions = torch.ones(2, 1, 4), torch.tensor(bad, dtype=dtype)
    with pytest.raises(PositionError, match="RoPENeoxPositionIdsFwdOp: positions holds"):
        rope_neox_position_ids(x, positions, max_position=8)


@pytest.mark.parametrize("bound", [8, 2**31])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_where_nobody_looks_a_position_out_of_range_is_nan(bound, dtype):
    """POS-02: what other devices than the CPU do."""
    asked = []

    def rows_of(positions, limit):
        asked.append((positions.tolist(), limit))
        return rotary_tables(positions, 4, 10000.0, torch.float32)

    given = torch.tensor([7, -1, 0, -(2**31), min(bound, 2**31 - 1)], dtype=dtype)
    cos, sin = rows_or_nan(given, bound, rows_of)
    outside = [False, True, False, True, bound == 8]
    assert asked == [([7, 0, 0, 0, min(bound - 1, 2**31 - 1)], bound)]
    assert cos.isnan().all(1).tolist() == sin.isnan().all(1).tolist() == outside
    assert cos.isnan().any(1).tolist() == outside
    x = torch.ones(5, 1, 6)
    result = turned(x, cos.unsqueeze(1), sin.unsqueeze(1), 4, False, x.dtype)
    assert result[:, 0, :4].isnan().all(1).tolist() == outside
    assert result[..., 4:].eq(1).all()


def test_tables_are_the_exact_functions_rounded_once():
    positions = torch.tensor([0, 5, 77_777])
    cos, sin = rotary_tables(positions, 6, 10000.0, torch.float32)
    assert cos.shape == sin.shape == (3, 3)
    for table, function in ((cos, math.cos), (sin, math.sin)):
        for row, position in zip(table.double().tolist(), positions.tolist(), strict=True):
            exact = [function(position * 10000.0 ** (-i / 3)) for i in range(3)]
            assert row == pytest.approx(exact, rel=2**-24, abs=1e-10)


def long_by_loop(x, factors, base, amplitude):
    """``[tokens, D]``: the result, and the size of the terms."""
    result, size, half = x.double().clone(), x.double().abs(), x.shape[1] // 2
    for position in range(x.shape[0]):
        for i in range(half):
            angle = position * base ** (-2 * i / x.shape[1]) / factors[i]
            cos, sin = amplitude * math.cos(angle), amplitude * math.sin(angle)
            one, two = x[position, i].item(), x[position, i + half].item()
            result[position, i], result[position, i + half] = (
                one * cos - two * sin,
                two * cos + one * sin,
            )
            size[position, i] = abs(one * cos) + abs(two * sin)
            size[position, i + half] = abs(two * cos) + abs(one * sin)
    return result, size


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("factors_dtype", DTYPES, ids=str)
def test_angles_are_divided_by_factors_and_the_result_is_scaled(dtype, factors_dtype, check_close):
    x = torch.randn(37, 10).to(dtype)
    factors = torch.tensor([1.0, 1.25, -3.0, 17.5, 64.25]).to(factors_dtype)
    result = long_rope(x, rescale_factors=factors, max_position=131072, base=500.0)
    expected, size = long_by_loop(x, factors.tolist(), 500.0, math.sqrt(17 / 12))
    check_close(result, expected, magnitude=size)


@pytest.mark.parametrize(("longest", "trained"), [(4096, 4096), (100, 4096), (1, 1)])
def test_a_context_that_is_not_longer_is_not_scaled(longest, trained):
    x, params = torch.randn(5, 6), {"max_position": longest, "original_max_position": trained}
    assert torch.equal(long_rope(x, **params), rope(x))


def test_no_factors_are_ones():
    x = torch.randn(2, 5, 3, 6)
    for factors in (torch.ones(3), torch.ones(6)[::2], torch.ones(1).expand(3)):
        result = long_rope(x, input_layout="2d", rescale_factors=factors)
        assert torch.equal(result, rope(x, input_layout="2d"))


def test_an_infinite_factor_holds_its_pair_still():
    x = torch.randn(5, 4)
    result = long_rope(x, rescale_factors=torch.tensor([1.0, math.inf]))
    assert torch.equal(result[:, 1::2], x[:, 1::2])
