"""Rotary embedding through the public API: layouts, positions, what the entries exclude."""

from __future__ import annotations

import math

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
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2, "rotary_dim": 3}, (X, AT), "R % 2"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2, "rotary_dim": 0}, (X, AT), "R > 0"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2, "rotary_dim": 8}, (X, AT), "R <= D"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 2}, (X[..., :5], AT), "R % 2"),
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
