"""Rotary embedding through the public API: layouts, positions, what the entries exclude."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops_core import ops
from tileops_core.errors import SignatureError

pytestmark = pytest.mark.usefixtures("server")

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def test_a_token_at_a_position_is_that_row_of_the_full_run():
    """POS-02."""
    x = torch.randn(1, 40, 3, 8)
    whole = ops.RoPEFwdOp(input_layout="2d")(x)[0]
    op = ops.RoPENeoxPositionIdsFwdOp(40)
    for dtype in (torch.int32, torch.int64):
        one = op(x[0, 17:18], torch.tensor([17], dtype=dtype))
        torch.testing.assert_close(one, whole[17:18])
        order = torch.randperm(40)
        torch.testing.assert_close(op(x[0, order], order.to(dtype)), whole[order])


def test_longer_and_farther_calls_of_one_instance_are_right():
    """POS-02: the tables grow."""
    x = torch.randn(3000, 8)
    by_index, by_position = ops.RoPEFwdOp(), ops.RoPENeoxPositionIdsFwdOp(3000)
    whole = ops.RoPEFwdOp()(x)
    for length in (1, 256, 257, 3000, 5):
        torch.testing.assert_close(by_index(x[:length]), whole[:length])
        one = by_position(x[length - 1 : length, None], torch.tensor([length - 1]))
        torch.testing.assert_close(one[:, 0], whole[length - 1 : length])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_the_layouts_are_one_turn_of_features_in_another_order(dtype, layout):
    x = torch.randn(30, 10).to(dtype)
    halves = torch.arange(10).reshape(2, 5).T.flatten()  # neox's pairs as neighbors
    neox, interleaved = ops.RoPEFwdOp(), ops.RoPEFwdOp("interleaved")
    torch.testing.assert_close(interleaved(x[:, halves]), neox(x)[:, halves])


@pytest.mark.parametrize("bad", [[0, 8], [-1, 0], [2**31 - 1, 1], [-(2**31), 3]])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_a_position_out_of_range_is_an_index_error_and_the_next_call_works(bad, dtype):
    """POS-02."""
    op, x = ops.RoPENeoxPositionIdsFwdOp(8), torch.randn(2, 1, 4)
    outside = next(p for p in bad if not 0 <= p < 8)
    for _ in range(2):  # the call that selects who serves, and one on a known route
        with pytest.raises(SignatureError, match=rf"RoPENeoxPositionIdsFwdOp: .*{outside}") as told:
            op(x, torch.tensor(bad, dtype=dtype))
        assert isinstance(told.value, IndexError)
        assert not getattr(told.value, "__notes__", None)  # the caller's, nobody else's
        assert op(x, torch.tensor([7, 0], dtype=dtype)).isfinite().all()


def test_the_last_position_of_all_has_an_angle():
    x, positions = torch.randn(2, 1, 4), torch.tensor([2**31 - 1, 0], dtype=torch.int32)
    result = ops.RoPENeoxPositionIdsFwdOp(2**31)(x, positions)
    angle = (2**31 - 1) * 10000.0**-0.5
    expected = x[0, 0, 1] * math.cos(angle) - x[0, 0, 3] * math.sin(angle)
    torch.testing.assert_close(result[0, 0, 1], expected)
    assert torch.equal(result[1], x[1])


@pytest.mark.parametrize("params", [{"rotary_dim": 4}, {}])
def test_the_rotary_features_are_the_first_ones(params):
    """ROP-02."""
    x, positions = torch.randn(5, 2, 8), torch.arange(5)
    result = ops.RoPENeoxPositionIdsFwdOp(5, **params)(x, positions)
    turned = params.get("rotary_dim", 8)
    assert torch.equal(result[..., turned:], x[..., turned:])
    alone = ops.RoPENeoxPositionIdsFwdOp(5)(x[..., :turned], positions)
    torch.testing.assert_close(result[..., :turned], alone)


X, AT = torch.ones(2, 1, 6), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("op", "params", "inputs", "match"),
    [
        ("RoPEFwdOp", {}, (torch.ones(2, 5),), "D % 2"),
        ("RoPEFwdOp", {}, (torch.ones(2, 0),), "D > 0"),
        ("RoPEFwdOp", {}, (torch.ones(1, 2, 1, 4),), "x has"),
        ("RoPEFwdOp", {"input_layout": "2d"}, (torch.ones(2, 4),), "x has"),
        ("RoPEFwdOp", {"base": 0.0}, (torch.ones(2, 4),), "base > 0"),
        ("RoPEFwdOp", {"base": math.nan}, (torch.ones(2, 4),), "base > 0"),
        ("RoPEFwdOp", {"rope_layout": "gptj"}, (torch.ones(2, 4),), "rope_layout"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 0}, (X, AT), "max_position"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2**31 + 1}, (X, AT), "max_position"),
        (
            "RoPENeoxPositionIdsFwdOp",
            {"max_position": 2, "rotary_dim": 3},
            (X, AT),
            "value % 2",
        ),
        (
            "RoPENeoxPositionIdsFwdOp",
            {"max_position": 2, "rotary_dim": 0},
            (X, AT),
            "value > 0",
        ),
        (
            "RoPENeoxPositionIdsFwdOp",
            {"max_position": 2, "rotary_dim": 8},
            (X, AT),
            "value <= D",
        ),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2}, (X[..., :5], AT), "D % 2"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2}, (X, AT.float()), "positions has dtype"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2}, (X, AT.short()), "positions has dtype"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2}, (X, AT[:1]), "positions has"),
    ],
)
def test_what_the_entries_exclude_is_refused(op, params, inputs, match):
    """POS-02."""
    with pytest.raises(SignatureError, match=f"{op}.*{match}"):
        getattr(ops, op)(**params)(*inputs)


def test_no_tokens_need_no_position():
    result = ops.RoPENeoxPositionIdsFwdOp(8)(torch.empty(0, 2, 4), torch.empty(0).int())
    assert result.shape == (0, 2, 4)


def test_a_call_with_shapes_alone_leaves_nothing_that_an_ordinary_one_reads():
    """CMP-16."""
    x, positions = torch.randn(5, 2, 8), torch.arange(5)
    by_index, by_position = ops.RoPEFwdOp(input_layout="2d"), ops.RoPENeoxPositionIdsFwdOp(5)
    with FakeTensorMode() as mode:
        tokens, at = mode.from_tensor(x), mode.from_tensor(positions)
        assert by_index(tokens[None]).shape == (1, 5, 2, 8)
        assert by_position(tokens, at).shape == (5, 2, 8)
    assert by_position(x.to("meta"), positions.to("meta")).device.type == "meta"
    with torch.inference_mode():
        first = by_index(x[None])
    assert torch.equal(by_index(x[None]), first)
    torch.testing.assert_close(by_position(x, positions), first[0])


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_strided_expanded_and_shifted_tokens_are_read_right(layout):
    """PIPE-06."""
    op = ops.RoPEFwdOp(layout, "2d")
    x = torch.randn(2, 5, 3, 8)
    expected = op(x)
    for view in (
        x.transpose(1, 2).contiguous().transpose(1, 2),
        torch.cat((x, x), -1)[..., :8],
        torch.cat((torch.zeros(1), x.flatten()))[1:].view(x.shape),
    ):
        torch.testing.assert_close(op(view), expected)
    torch.testing.assert_close(op(x[:1].expand(x.shape)), op(x[:1].repeat(2, 1, 1, 1)))


# -- angles that factors given at construction rescale ----------------------------------------


FACTORS = torch.tensor([1.0, 1.25, 4.0, 64.0])


def long_rope(x, factors, amplitude):
    """``[S, D]`` in float64, by complex numbers."""
    half = x.shape[1] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half) / factors.double()
    angles = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * rates
    pairs = torch.complex(x[:, :half].double(), x[:, half:].double())
    turned = pairs * torch.polar(torch.full_like(angles, amplitude), angles)
    return torch.cat((turned.real, turned.imag), -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("factors_dtype", DTYPES, ids=str)
def test_factors_slow_their_pairs_down(dtype, factors_dtype):
    x, factors = torch.randn(300, 8).to(dtype), FACTORS.to(factors_dtype)
    op = ops.LongRoPEFwdOp(rescale_factors=factors, max_position=131072)
    expected = long_rope(x, factors, math.sqrt(17 / 12))
    # One rounding, and those of the terms in float32.
    atol = 2.0**-20
    torch.testing.assert_close(op(x).double(), expected, rtol=torch.finfo(dtype).eps, atol=atol)


def test_heads_are_turned_like_single_ones():
    x = torch.randn(2, 5, 3, 8)
    op = ops.LongRoPEFwdOp("2d", rescale_factors=FACTORS)
    alone = ops.LongRoPEFwdOp(rescale_factors=FACTORS)
    for batch, head in ((0, 0), (1, 2)):
        torch.testing.assert_close(op(x)[batch, :, head], alone(x[batch, :, head]))


@pytest.mark.parametrize(
    "factors",
    [
        FACTORS.repeat_interleave(2)[::2],
        torch.cat((torch.zeros(1), FACTORS))[1:],
        FACTORS[:, None][:, 0],
    ],
    ids=["strided", "shifted", "view"],
)
def test_factors_may_lie_anywhere_in_memory(factors):
    x = torch.randn(5, 8)
    expected = ops.LongRoPEFwdOp(rescale_factors=FACTORS)(x)
    assert torch.equal(ops.LongRoPEFwdOp(rescale_factors=factors)(x), expected)


def test_factors_that_are_written_after_construction_change_nothing():
    x, factors = torch.randn(5, 8), FACTORS.clone()
    op = ops.LongRoPEFwdOp(rescale_factors=factors)
    factors.zero_()
    assert torch.equal(op(x), ops.LongRoPEFwdOp(rescale_factors=FACTORS)(x))
    factors.fill_(7)
    assert torch.equal(op(torch.cat((x, x)))[:5], op(x))


@pytest.mark.parametrize("bad", [0.0, -0.0, math.nan])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_factor_that_gives_no_angle_is_refused_at_construction(bad, dtype):
    factors = torch.tensor([1.0, 2.0, bad, bad]).to(dtype)
    match = rf"LongRoPEFwdOp: rescale_factors holds {bad} at index 2"
    with pytest.raises(SignatureError, match=match) as told:
        ops.LongRoPEFwdOp(rescale_factors=factors)
    assert told.value.tensor == "rescale_factors"


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"rescale_factors": torch.ones(4).int()}, "rescale_factors has dtype int32"),
        ({"rescale_factors": torch.ones(4).double()}, "rescale_factors has dtype float64"),
        ({"rescale_factors": torch.ones(2, 2)}, "rescale_factors has 2 axes"),
        ({"rescale_factors": [1.0]}, "rescale_factors must be a torch.Tensor or None"),
        ({"base": 0.0}, "base > 0"),
        ({"max_position": 0}, "max_position > 0"),
        ({"original_max_position": 0}, "original_max_position > 0"),
        ({"original_max_position": 1}, "original_max_position > 1"),
        ({"input_layout": "3d"}, "input_layout must be one of '1d', '2d'"),
    ],
)
def test_what_the_entry_of_long_rope_excludes_is_refused_at_construction(params, match):
    with pytest.raises(SignatureError, match=f"LongRoPEFwdOp: .*{match}"):
        ops.LongRoPEFwdOp(**params)


@pytest.mark.parametrize(("width", "match"), [(6, r"rescale_factors .*\(4,\)"), (9, "D % 2")])
def test_a_width_that_the_factors_do_not_fit_is_refused_at_the_call(width, match):
    op = ops.LongRoPEFwdOp(rescale_factors=FACTORS)
    with pytest.raises(SignatureError, match=f"LongRoPEFwdOp: .*{match}"):
        op(torch.ones(3, width))
    assert op(torch.ones(3, 8)).shape == (3, 8)


@pytest.mark.parametrize("shape", [(0, 8), (0, 3, 2, 8), (2, 0, 3, 8), (2, 3, 0, 8)])
def test_no_tokens_are_turned_to_none(shape):
    op = ops.LongRoPEFwdOp("1d" if len(shape) == 2 else "2d", rescale_factors=FACTORS)
    assert op(torch.empty(shape)).shape == shape


def test_copies_hold_factors_of_their_own():
    x, op = torch.randn(5, 8), ops.LongRoPEFwdOp(rescale_factors=FACTORS)
    for again in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert torch.equal(again(x), op(x))


def test_ops_with_other_factors_keep_apart_in_one_graph():
    x = torch.randn(5, 8)
    one, two = ops.LongRoPEFwdOp(rescale_factors=FACTORS), ops.LongRoPEFwdOp()
    three = ops.LongRoPEFwdOp(rescale_factors=FACTORS * 2)
    compiled = torch.compile(
        lambda x: (one(x), two(x), three(x)), fullgraph=True, backend="aot_eager"
    )
    for result, op in zip(compiled(x), (one, two, three), strict=True):
        assert torch.equal(result, op(x))
