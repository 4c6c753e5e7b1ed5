"""Attention against a loop over tokens that shares no code with it."""

from __future__ import annotations

import math

import pytest
import torch

from tileops_reference.functions import attention
from tileops_reference.functions.attention import gqa_dense

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def turn(row, cos, sin, position, features, interleaved):
    """A head's features as plane vectors, each turned by its angle; the rest as they are."""
    half = features // 2
    turned = list(row)
    for pair in range(half):
        one, two = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + half)
        point = complex(row[one], row[two]) * complex(cos[position][pair], sin[position][pair])
        turned[one], turned[two] = point.real, point.imag
    return turned


def by_token(
    q,
    k,
    v,
    *,
    causal=False,
    left=-1,
    right=-1,
    scale=None,
    cap=None,
    sinks=None,
    rope=None,
    features=None,
    interleaved=False,
    scales=None,
):
    """One query of one head at a time, in Python numbers."""
    batch, seq_q, heads, dim = q.shape
    seq_kv, heads_kv = k.shape[1:3]
    cos, sin = [table.tolist() for table in rope] if rope else (None, None)
    q, k, v = (tensor.double().tolist() for tensor in (q, k, v))
    result = torch.zeros(batch, seq_q, heads, dim, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            r = h * heads_kv // heads
            q_by, k_by, v_by = [s[b, r].item() for s in scales] if scales else (1, 1, 1)
            keys = [[k_by * x for x in k[b][j][r]] for j in range(seq_kv)]
            if rope:
                width = features or dim
                keys = [turn(x, cos, sin, j, width, interleaved) for j, x in enumerate(keys)]
            for i in range(seq_q):
                p = i + seq_kv - seq_q
                query = [q_by * x for x in q[b][i][h]]
                if rope:
                    query = turn(query, cos, sin, p, width, interleaved)
                logits = {}
                for j in range(seq_kv):
                    if causal and j > p:
                        continue
                    if left >= 0 and j < p - left:
                        continue
                    if right >= 0 and j > p + right:
                        continue
                    s = math.fsum(x * y for x, y in zip(query, keys[j], strict=True))
                    s *= dim**-0.5 if scale is None else scale
                    logits[j] = cap * math.tanh(s / cap) if cap else s
                if not logits:
                    continue
                extra = [] if sinks is None else [sinks[h].item()]
                top = max([*logits.values(), *extra])
                total = math.fsum(math.exp(x - top) for x in [*logits.values(), *extra])
                for d in range(dim):
                    terms = (math.exp(x - top) * v_by * v[b][j][r][d] for j, x in logits.items())
                    result[b, i, h, d] = math.fsum(terms) / total
    return result


def tensors(dtype, batch=2, seq_q=5, seq_kv=9, heads=4, heads_kv=2, dim=8):
    return [
        torch.randn(shape, dtype=torch.float64).to(dtype)
        for shape in (
            (batch, seq_q, heads, dim),
            (batch, seq_kv, heads_kv, dim),
            (batch, seq_kv, heads_kv, dim),
        )
    ]


def angles(positions, pairs, dtype):
    angle = torch.arange(positions)[:, None] * 10.0 ** (-torch.arange(pairs) / pairs)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def check(check_close, result, expected, inputs, dtype=None):
    q, k, v = (tensor.double().abs().amax() for tensor in inputs)
    logit = (q * k * inputs[0].shape[-1] ** 0.5).clamp(max=1e3)
    # An error of the logits is an error of the weights, relative; 16-bit weights may be rounded.
    check_close(
        result,
        expected,
        terms=inputs[1].shape[1],
        magnitude=(1 + logit) * v,
        inner=dtype or inputs[0].dtype,
    )


@pytest.fixture(params=[128, 2], ids=["one_block", "blocks"])
def blocks(request, monkeypatch):
    """Once in one block, once two queries at a time."""
    monkeypatch.setattr(attention, "_ROWS_ON_CPU", request.param)


MASKS = [
    {},
    {"causal": True},
    {"left": 0},
    {"left": 2},
    {"right": 0},
    {"right": 2},
    {"left": 1, "right": 1},
    {"left": 3, "right": 0},
    {"causal": True, "left": 2},
    {"causal": True, "left": 2, "right": 4},
    {"left": 100, "right": 100},
]


def parameters(mask):
    names = {"causal": "is_causal", "left": "window_size_left", "right": "window_size_right"}
    return {names[name]: value for name, value in mask.items()}


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("lengths", [(5, 9), (7, 7), (1, 6), (6, 4)], ids=str)
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_masks_equal_the_loop(mask, lengths, softcap, blocks, check_close):
    inputs = tensors(torch.float32, seq_q=lengths[0], seq_kv=lengths[1])
    result = gqa_dense(*inputs, **parameters(mask), softcap=softcap)
    check(check_close, result, by_token(*inputs, **mask, cap=softcap), inputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads", [(1, 1), (4, 4), (6, 2), (6, 3), (8, 1)], ids=str)
@pytest.mark.parametrize("sinks", [False, True], ids=["plain", "sinks"])
def test_dtypes_and_groups_equal_the_loop(dtype, heads, sinks, check_close):
    inputs = tensors(dtype, heads=heads[0], heads_kv=heads[1])
    sink = torch.randn(heads[0]) if sinks else None
    result = gqa_dense(*inputs, sinks=sink, is_causal=True)
    assert result.dtype is dtype
    check(check_close, result, by_token(*inputs, causal=True, sinks=sink), inputs)


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("interleaved", [False, True], ids=["neox", "interleaved"])
@pytest.mark.parametrize("features", [None, 2, 6])
@pytest.mark.parametrize("seq_q", [1, 5])
def test_rotary_embedding_equals_complex_products(
    dtype, interleaved, features, seq_q, blocks, check_close
):
    inputs = tensors(dtype, seq_q=seq_q)
    tables = angles(13, (features or 8) // 2, dtype)
    result = gqa_dense(
        *inputs,
        rope_cos=tables[0],
        rope_sin=tables[1],
        is_causal=True,
        pos_encoding_mode="rope",
        rotary_dim=features,
        rope_layout="interleaved" if interleaved else "neox",
    )
    expected = by_token(
        *inputs, causal=True, rope=tables, features=features, interleaved=interleaved
    )
    check(check_close, result, expected, inputs, dtype)


@pytest.mark.parametrize("lengths", [(5, 9), (7, 7), (1, 6), (6, 4)], ids=str)
@pytest.mark.parametrize("heads", [(4, 4), (6, 2)], ids=str)
def test_torch_s_causal_kernels_equal_the_loop(lengths, heads, monkeypatch, check_close):
    monkeypatch.setattr(attention, "_CAUSAL_KERNELS", {"cpu"})
    inputs = tensors(torch.float32, 2, *lengths, *heads)
    result = gqa_dense(*inputs, is_causal=True, sm_scale=0.3)
    assert result.is_contiguous()
    check(check_close, result, by_token(*inputs, causal=True, scale=0.3), inputs)


def test_turning_keeps_lengths():
    x = torch.randn(1, 1001, 2, 96, dtype=torch.float64)
    cos, sin = angles(1001, 48, torch.float64)
    for interleaved in (False, True):
        turned = attention.rotated(x, cos, sin, 0, 96, interleaved)
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("extras", [{}, {"sinks": True}, {"rope": True}], ids=str)
def test_fp8_is_multiplied_by_its_scales(out_dtype, extras, check_close):
    inputs = [tensor.to(torch.float8_e4m3fn) for tensor in tensors(torch.float32)]
    scales = [torch.rand(2, 2) + 0.5 for _ in range(3)]
    sinks = torch.randn(4) if "sinks" in extras else None
    tables = angles(9, 4, out_dtype) if "rope" in extras else (None, None)
    result = gqa_dense(
        *inputs,
        *scales,
        *tables,
        sinks,
        is_causal=True,
        pos_encoding_mode="rope" if "rope" in extras else "none",
        out_dtype=out_dtype,
    )
    assert result.dtype is out_dtype
    rope = tables if "rope" in extras else None
    expected = by_token(*inputs, causal=True, scales=scales, sinks=sinks, rope=rope)
    scaled = [t.double() * s.max() for t, s in zip(inputs, scales, strict=True)]
    check(check_close, result, expected, scaled, out_dtype)


@pytest.mark.parametrize("softcap", [None, 1e6])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_causal_queries_end_with_the_last_key(dtype, softcap):
    """ATT-01: aligned at the bottom right, unlike torch's own ``is_causal``."""
    ones = torch.ones(1, 2, 1, 4, dtype=dtype)
    keys = torch.ones(1, 3, 1, 4, dtype=dtype)
    values = torch.arange(3, dtype=dtype).view(1, 3, 1, 1).expand(1, 3, 1, 4)
    result = gqa_dense(ones, keys, values, is_causal=True, softcap=softcap)
    assert result[0, :, 0, 0].tolist() == [0.5, 1.0]


@pytest.mark.parametrize("softcap", [None, 1e6])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_queries_that_see_no_key_give_zero(dtype, softcap, poisoned_memory):
    """ATT-01, ATT-07."""
    q, k = torch.ones(1, 4, 1, 4, dtype=dtype), torch.ones(1, 2, 1, 4, dtype=dtype)
    v = torch.tensor([1.0, 2.0]).to(dtype).view(1, 2, 1, 1).expand(1, 2, 1, 4)
    result = gqa_dense(q, k, v, is_causal=True, softcap=softcap)
    assert result[0, :, 0, 0].tolist() == [0, 0, 1, 1.5]
    assert not gqa_dense(q, k[:, :0], v[:, :0], softcap=softcap).any()


def test_a_sink_does_not_make_a_hidden_row_visible():
    """ATT-07."""
    q, k, v = tensors(torch.float32, seq_q=4, seq_kv=2)
    result = gqa_dense(q, k, v, sinks=torch.zeros(4), is_causal=True)
    assert not result[:, :2].any()


@pytest.mark.parametrize("length", [1, 13, 127, 129, 255, 257])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("softcap", [None, 1.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_key_counts_once_and_no_other_does(length, causal, softcap, dtype):
    """ATT-03: a query of zeros weighs all visible keys alike."""
    q = torch.zeros(1, 1, 2, 8, dtype=dtype)
    k = torch.randn(1, length, 1, 8).to(dtype)
    v = torch.arange(length, dtype=dtype).view(1, length, 1, 1).expand(1, length, 1, 8)
    result = gqa_dense(q, k, v, is_causal=causal, softcap=softcap)
    exact = v[0, :, 0, 0].double().mean().to(dtype)
    torch.testing.assert_close(result, exact.expand(1, 1, 2, 8))


@pytest.mark.parametrize("heads", [(6, 2), (28, 4), (8, 1)], ids=str)
@pytest.mark.parametrize("softcap", [None, 1.0])
def test_a_query_head_reads_the_head_of_its_group(heads, softcap):
    """ATT-04: group size and number of groups differ."""
    h, h_kv = heads
    q = torch.zeros(1, 3, h, 8)
    k = torch.randn(1, 5, h_kv, 8)
    v = torch.arange(h_kv, dtype=torch.float32).view(1, 1, h_kv, 1).expand(1, 5, h_kv, 8)
    result = gqa_dense(q, k, v, softcap=softcap)
    expected = [float(i // (h // h_kv)) for i in range(h)]
    torch.testing.assert_close(result[0, 0, :, 0], torch.tensor(expected))


def test_the_cap_comes_before_the_mask(check_close):
    """ATT-08."""
    q, k, v = tensors(torch.float32)
    inputs = [12 * q, 12 * k, v]
    capped = gqa_dense(*inputs, is_causal=True, softcap=30.0)
    check(check_close, capped, by_token(*inputs, causal=True, cap=30.0), inputs)
    plain = gqa_dense(*inputs, is_causal=True)
    alike = torch.cosine_similarity(capped.flatten(0, 2), plain.flatten(0, 2), dim=-1)
    assert alike.min() < 0.9


def test_a_cap_of_zero_is_none():
    inputs = tensors(torch.float32)
    assert torch.equal(gqa_dense(*inputs, softcap=0.0), gqa_dense(*inputs))


def test_the_scale_is_the_caller_s(check_close):
    inputs = tensors(torch.float32)
    result = gqa_dense(*inputs, sm_scale=0.7)
    check(check_close, result, by_token(*inputs, scale=0.7), inputs)


@pytest.mark.parametrize("softcap", [None, 1e9])
def test_a_window_without_causality_counts_from_the_query_s_position(softcap, check_close):
    """ATT-10: more keys than queries."""
    q, k, v = tensors(torch.float32, 1, 300, 1500, 8, 2, 16)
    result = gqa_dense(q, k, v, window_size_left=333, softcap=softcap)
    position = torch.arange(300)[:, None] + 1200
    visible = torch.arange(1500) >= position - 333
    wide = [tensor.double().transpose(1, 2) for tensor in (q, k, v)]
    wide[1:] = [tensor.repeat_interleave(4, 1) for tensor in wide[1:]]
    logits = (wide[0] @ wide[1].mT / 4).masked_fill(~visible, -math.inf)
    expected = (torch.softmax(logits, -1) @ wide[2]).transpose(1, 2)
    check(check_close, result, expected, [q, k, v])


def test_hidden_keys_outside_the_window_are_never_read():
    q, k, v = tensors(torch.float32, 1, 1, 64, 2, 1, 8)
    expected = gqa_dense(q, k, v, is_causal=True, window_size_left=15)
    for tensor in (k, v):
        tensor[:, :48] = math.nan
    assert torch.equal(gqa_dense(q, k, v, is_causal=True, window_size_left=15), expected)


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_blocks_give_what_one_block_gives(softcap, monkeypatch):
    q, k, v = tensors(torch.float32, 2, 37, 53, 4, 2, 8)
    whole = gqa_dense(q, k, v, is_causal=True, window_size_left=20, softcap=softcap)
    monkeypatch.setattr(attention, "_ROWS_ON_CPU", 8)
    monkeypatch.setattr(attention, "_SCORES", 3 * 2 * 4 * 53)
    parts = gqa_dense(q, k, v, is_causal=True, window_size_left=20, softcap=softcap)
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize(
    "sizes", [(0, 5, 9, 4, 2, 8), (2, 0, 9, 4, 2, 8), (2, 5, 9, 0, 2, 8), (2, 5, 9, 4, 2, 0)]
)
def test_attention_of_nothing_is_nothing(sizes):
    q, k, v = tensors(torch.float16, *sizes)
    assert gqa_dense(q, k, v, is_causal=True).shape == q.shape


def test_large_logits_do_not_overflow():
    q, k, v = (100 * tensor for tensor in tensors(torch.float16))
    for softcap in (None, 50.0):
        assert gqa_dense(q, k, v, softcap=softcap).isfinite().all()
