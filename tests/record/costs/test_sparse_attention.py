"""Costs of sparse attention, of its scores and of its selections, against counting one by one."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from cost_records import Record, offsets

from tileops_core.record.costs import sparse_attention as costs

HALF, FULL, EIGHT = torch.bfloat16, torch.float32, torch.float8_e4m3fn
INT, BYTE = torch.int32, torch.uint8


@pytest.mark.parametrize(
    ("causal", "first", "stride"), [(True, 0, 1), (True, 3, 2), (True, 5, 1), (False, 3, 2)]
)
def test_attention_to_listed_rows(causal, first, stride):
    batch, queries, keys, h, h_kv, d, tail = 2, 3, 5, 4, 2, 6, 2
    draw = torch.Generator().manual_seed(0)
    listed = torch.randint(0, keys + 1, (batch, queries, h_kv, 4), generator=draw).tolist()
    width = d + tail
    record = Record(
        {"B": batch, "S_q": queries, "S_kv": keys, "H": h, "H_kv": h_kv, "D": d},
        {"q_start_index_s": first, "stride_kv": stride, "is_causal": causal, "dim_tail": tail},
        {
            "q": ((batch, queries, h, width), HALF),
            "kv": ((batch, keys, h_kv, width), HALF),
            "indices": ((batch, queries, h_kv, 4), INT),
            "o": ((batch, queries, h, d), HALF),
        },
        {"indices": listed},
    )
    seen = [
        (b, head, t)
        for b, s, head in product(range(batch), range(queries), range(h_kv))
        for t in listed[b][s][head]
        if t < keys and not (causal and (t + 1) * stride - 1 > first + s)
    ]
    flops = h // h_kv * len(seen) * (2 * width + 2 * d + 5) + batch * queries * h * d
    moved = 2 * batch * queries * h * (width + d) + 4 * batch * queries * h_kv * 4
    assert costs.dsa_dense(record) == (flops, moved + 2 * width * len(set(seen)))


def test_attention_to_listed_positions_of_pages():
    queries, h, page, cached = 2, 3, 4, [7, 2]
    listed = [[[0, 6, -1], [6, 3, 3]], [[1, -1, 5], [-1, -1, -1]]]
    table = [[3, 1], [3, 0]]  # both requests read slot 1 of page 3; position 5 is not cached
    record = Record(
        {"B": 2, "S_q": queries, "H": h, "PS": page},
        {"sm_scale": None},
        {
            "q": ((2, queries, h, 576), HALF),
            "kv_cache": ((4, page, 656), BYTE),
            "block_table": ((2, 2), INT),
            "cache_seqlens": ((2,), INT),
            "indices": ((2, queries, 3), INT),
            "o": ((2, queries, h, 512), HALF),
            "lse": ((2, h, queries), FULL),
        },
        {"indices": listed, "block_table": table, "cache_seqlens": cached},
    )
    seen = [
        (b, t)
        for b, s in product(range(2), range(queries))
        for t in listed[b][s]
        if 0 <= t < cached[b]
    ]
    slots = {(table[b][t // page], t % page) for b, t in seen}
    flops = h * len(seen) * (2 * 576 + 2 * 512 + 5) + 512 * len(slots)
    flops += 2 * queries * h * (512 + 2)
    moved = 2 * 2 * queries * h * (576 + 512) + 4 * 2 * h * queries + 4 * 2 + 4 * 2 * queries * 3
    moved += 656 * len(slots) + 4 * len({(b, t // page) for b, t in seen})
    assert costs.dsa_paged(record) == (flops, moved)


@pytest.mark.parametrize("block", [1, 2, 4, 7])
@pytest.mark.parametrize("length", [0, 1, 3, 4, 8, 13])
def test_blocks_of_a_sequence(length, block):
    closed = sum((t + 1) // block for t in range(length))
    assert costs.closed_blocks(length, block) == closed
    candidates = sum(len({u // block for u in range(t + 1)}) for t in range(length))
    assert costs.candidate_blocks(length, block) == candidates


LENS, BLOCK, HEADS, HEADS_KV = [9, 3, 0, 8], 4, 32, 2
TOTAL = sum(LENS)
ENDED = [
    (n, t, c) for n, size in enumerate(LENS) for t in range(size) for c in range((t + 1) // BLOCK)
]
"""Sequence, token and block, for every block that a token sees whole."""


def packed(parameters, tensors, metadata=None, **indices):
    """A record over sequences of the lengths LENS."""
    heads = {"L": TOTAL, "H": HEADS, "H_kv": HEADS_KV}
    told = {
        "cu_seqlens": ((len(LENS) + 1,), INT),
        "chunk_offsets": ((len(LENS) + 1,), INT),
        "token_indices": ((TOTAL, 2), INT),
    }
    values = {"cu_seqlens": offsets(LENS), **(metadata or {})}
    return Record({**heads, **indices}, {"block_size": BLOCK, **parameters}, told | tensors, values)


TOLD = 4 * (2 * (len(LENS) + 1) + 2 * TOTAL)
"""Bytes of the tensors that every packed record has."""


def test_attention_to_compressed_blocks():
    d, d_v, chunks = 6, 5, sum(-(-n // BLOCK) for n in LENS)
    record = packed(
        {},
        {
            "q": ((TOTAL, HEADS, d), HALF),
            "k_cmp": ((chunks, HEADS_KV, d), HALF),
            "v_cmp": ((chunks, HEADS_KV, d_v), HALF),
            "o": ((TOTAL, HEADS, d_v), HALF),
            "lse": ((HEADS, TOTAL), FULL),
        },
        D=d,
        D_v=d_v,
    )
    rows = len({(n, c) for n, _, c in ENDED}) * HEADS_KV
    flops = HEADS * len(ENDED) * (2 * d + 2 * d_v + 5) + TOTAL * HEADS * (d_v + 2)
    moved = TOLD + 2 * TOTAL * HEADS * (d + d_v) + 4 * HEADS * TOTAL + 2 * rows * (d + d_v)
    assert costs.nsa_compressed(record) == (flops, moved)


def test_selection_of_blocks():
    d, chunks = 6, sum(-(-n // BLOCK) for n in LENS)
    record = packed(
        {},
        {
            "q": ((TOTAL, HEADS, d), HALF),
            "k_cmp": ((chunks, HEADS_KV, d), HALF),
            "block_indices": ((TOTAL, HEADS_KV, 3), INT),
        },
        D=d,
    )
    rows = len({(n, c) for n, _, c in ENDED}) * HEADS_KV
    candidates = sum(t // BLOCK + 1 for n in LENS for t in range(n))
    flops = HEADS * len(ENDED) * (2 * d + 6) + TOTAL * HEADS * d + HEADS_KV * candidates
    moved = TOLD + 2 * TOTAL * HEADS * d + 4 * TOTAL * HEADS_KV * 3 + 2 * rows * d
    assert costs.nsa_topk(record) == (flops, moved)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_to_selected_blocks(causal):
    d, selected = 6, 4
    draw = torch.Generator().manual_seed(1)
    shape = (TOTAL, HEADS_KV)
    # too low, repeated, behind the token, behind the sequence
    numbers = torch.randint(-1, 4, (*shape, selected), generator=draw).tolist()
    counts = torch.randint(0, selected + 1, shape, generator=draw).tolist()
    tensors = dict.fromkeys(("k", "v"), ((TOTAL, HEADS_KV, d), HALF))
    tensors |= dict.fromkeys(("q", "o"), ((TOTAL, HEADS, d), HALF))
    tensors |= {"block_indices": ((*shape, selected), INT), "block_counts": (shape, INT)}
    record = packed(
        {"is_causal": causal},
        tensors,
        {"block_indices": numbers, "block_counts": counts},
        D=d,
    )
    starts = offsets(LENS)
    seen = [
        (n, head, u)
        for n, size in enumerate(LENS)
        for t, head in product(range(size), range(HEADS_KV))
        for number in numbers[starts[n] + t][head][: counts[starts[n] + t][head]]
        for u in range(number * BLOCK, (number + 1) * BLOCK)
        if 0 <= u < (t + 1 if causal else size)
    ]
    flops = HEADS // HEADS_KV * len(seen) * (4 * d + 5) + TOTAL * HEADS * d
    moved = TOLD + 2 * 2 * TOTAL * HEADS * d + 4 * TOTAL * HEADS_KV * (selected + 1)
    assert costs.nsa_selected(record) == (flops, moved + 2 * 2 * d * len(set(seen)))


@pytest.mark.parametrize("dtype", [EIGHT, HALF])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_index_scores(clean, scaled, dtype):
    batch, h, g, d, keys = 2, 6, 2, 8, 9
    starts, ends = [0, 1, 6, 5, 7], [0, 3, 8, 4, 9]  # two windows are empty
    tensors = {
        "index_q": ((batch, 5, h, d), dtype),
        "index_k": ((batch, keys, g, d), dtype),
        "weights": ((5, h), FULL),
        "starts": ((5,), INT),
        "ends": ((5,), INT),
        "logits": ((batch, 5, keys, g), FULL),
    }
    if scaled:
        tensors["index_k_scale"] = (batch, keys, g), FULL
    record = Record(
        {"B": batch, "G": g, "H": h, "D": d},
        {"clean_logits": clean},
        tensors,
        {"starts": starts, "ends": ends},
    )
    seen = [t for start, end in zip(starts, ends, strict=True) for t in range(start, end)]
    rows, pairs = batch * g * len(set(seen)), batch * len(seen)
    flops = pairs * (h * (2 * d + 1 + 2) + g) + (0 if scaled else rows * (3 * d + 2))
    flops += 2 * batch * 5 * h * d if dtype is HALF and not scaled else 0
    moved = batch * 5 * h * d * dtype.itemsize + 4 * 5 * h + 2 * 4 * 5
    moved += rows * (d * dtype.itemsize + 4 * scaled)
    moved += 4 * (batch * 5 * keys * g if clean else pairs * g)
    assert costs.indexer(record) == (flops, moved)


def test_selection_of_positions():
    starts, ends = [[0, 2, 5], [4, 0, 1]], [[7, 2, 3], [6, 7, 2]]
    record = Record(
        {"G": 3},
        {"top_k": 2},
        {
            "logits": ((2, 3, 7, 3), FULL),
            "starts": ((2, 3), INT),
            "ends": ((2, 3), INT),
            "indices": ((2, 3, 3, 2), INT),
        },
        {"starts": starts, "ends": ends},
    )
    seen = 3 * (7 + 0 + 0 + 2 + 7 + 1)
    assert costs.topk_select(record) == (seen, 4 * seen + 2 * 4 * 6 + 4 * 2 * 3 * 3 * 2)
