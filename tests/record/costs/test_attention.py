"""Costs of attention over requests and of caches, against counting one by one."""

from __future__ import annotations

from itertools import accumulate
from math import prod

import pytest
import torch
from visible_pairs import pairs

from tileops_core.record.costs import attention

HALF, FULL, EIGHT = torch.bfloat16, torch.float32, torch.float8_e4m3fn
INT, LONG = torch.int32, torch.int64


class Record:
    """As much of a call's record as a cost function reads."""

    def __init__(self, indices, parameters, tensors, metadata):
        self.indices, self.parameters = indices, parameters
        self.tensors, self._metadata = tensors, metadata

    def present(self, name):
        return name in self.tensors

    def bytes(self, name):
        shape, dtype = self.tensors.get(name, ((0,), FULL))
        return prod(shape) * dtype.itemsize

    def metadata_values(self, name):
        return self._metadata[name]


def offsets(sizes):
    return [0, *accumulate(sizes)]


H, H_KV, D, R = 4, 2, 8, 6
Q_LENS, KV_LENS = [3, 1, 0, 5, 2], [7, 4, 3, 2, 0]
T_Q, T_KV, B = sum(Q_LENS), sum(KV_LENS), len(Q_LENS)
MASKS = [(False, -1, -1), (True, -1, -1), (True, 2, -1), (False, 1, 1), (True, 0, 3)]
EXTRAS = [{}, {"softcap": 0.0}, {"softcap": 30.0}, {"sinks": True}, {"rope": True}]


def called(mask, softcap=None, sinks=False, rope=False):
    """Parameters of a call, and the tensors that masks and extras bring."""
    causal, left, right = mask
    given = {"is_causal": causal, "window_size_left": left, "window_size_right": right}
    tensors = {"q": ((T_Q, H, D), HALF), "cu_seqlens_q": ((B + 1,), INT), "o": ((T_Q, H, D), HALF)}
    if sinks:
        tensors["sinks"] = (H,), FULL
    if rope:
        tensors["rope_cos"] = tensors["rope_sin"] = (100, R // 2), HALF
    return {**given, "softcap": softcap}, tensors


def work(mask, softcap=None, sinks=False, rope=False):
    """Flops, and the keys that each request's queries see."""
    seen = [pairs(m, n, *mask) for m, n in zip(Q_LENS, KV_LENS, strict=True)]
    keys = [{j for _, j in request} for request in seen]
    flops = sum(map(len, seen)) * H * (4 * D + 5 + (2 if softcap else 0))
    flops += T_Q * H * D + 4 * T_Q * H * sinks
    turned = [i for m, n in zip(Q_LENS, KV_LENS, strict=True) for i in range(m) if i + n - m >= 0]
    return flops + rope * 3 * R * (len(turned) * H + sum(map(len, keys)) * H_KV), keys


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("extra", EXTRAS)
def test_packed_attention(mask, extra):
    given, tensors = called(mask, **extra)
    tensors["k"] = tensors["v"] = (T_KV, H_KV, D), HALF
    tensors["cu_seqlens_kv"] = (B + 1,), INT
    record = Record(
        {"H": H, "H_kv": H_KV, "D": D, "R": R, "T_q": T_Q},
        given,
        tensors,
        {"cu_seqlens_q": offsets(Q_LENS), "cu_seqlens_kv": offsets(KV_LENS)},
    )
    flops, keys = work(mask, **extra)
    moved = 2 * 2 * T_Q * H * D + 2 * 4 * (B + 1) + 2 * 2 * H_KV * D * sum(map(len, keys))
    moved += 4 * H * ("sinks" in extra)
    moved += 2 * 2 * (R // 2) * len(set().union(*keys)) * ("rope" in extra)
    assert attention.gqa_varlen(record) == (flops, moved)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("extra", EXTRAS)
def test_paged_attention(mask, extra):
    given, tensors = called(mask, **extra)
    tensors["k_cache"] = tensors["v_cache"] = (10, 3, H_KV, D), EIGHT
    tensors["block_table"] = (B, 3), INT
    tensors["cache_seqlens"] = (B,), INT
    tensors["k_scale"] = tensors["v_scale"] = (1,), FULL
    table = [[0, 1, 2], [0, 3, 9], [9, 9, 9], [5, 9, 9], [9, 9, 9]]
    record = Record(
        {"H": H, "H_kv": H_KV, "D": D, "R": R, "T_q": T_Q, "PS": 3},
        given,
        tensors,
        {"cu_seqlens_q": offsets(Q_LENS), "cache_seqlens": KV_LENS, "block_table": table},
    )
    flops, keys = work(mask, **extra)
    slots = {(table[b][t // 3], t % 3) for b in range(B) for t in keys[b]}
    entries = {(b, t // 3) for b in range(B) for t in keys[b]}
    moved = 2 * 2 * T_Q * H * D + 4 * (B + 1) + 4 * B + 2 * 4
    moved += 2 * H_KV * D * len(slots) + 4 * len(entries)
    moved += 4 * H * ("sinks" in extra)
    moved += 2 * 2 * (R // 2) * len(set().union(*keys)) * ("rope" in extra)
    assert attention.gqa_paged(record) == (flops, moved)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [0, 1, 3])
def test_paged_attention_with_a_key_head_per_head(causal, queries):
    table = [[0, 1], [2, 9], [3, 0]]
    keys = [8, 2, 5]
    record = Record(
        {"B": 3, "S_q": queries, "H": H, "D": D},
        {"page_size": 4, "is_causal": causal},
        {
            "q": ((3, queries, H, D), HALF),
            "k_cache": ((16, H, D), HALF),
            "v_cache": ((16, H, D), HALF),
            "block_table": ((3, 2), INT),
            "cache_seqlens": ((3,), INT),
            "o": ((3, queries, H, D), HALF),
        },
        {"cache_seqlens": keys, "block_table": table},
    )
    seen = [pairs(queries, n, causal) for n in keys]
    slots = {(table[b][j // 4], j % 4) for b in range(3) for _, j in seen[b]}
    entries = {(b, j // 4) for b in range(3) for _, j in seen[b]}
    flops = sum(map(len, seen)) * H * (4 * D + 5) + 3 * queries * H * D
    moved = 2 * 2 * 3 * queries * H * D + 4 * 3 + 4 * len(entries) + 2 * 2 * H * D * len(slots)
    assert attention.mha_paged(record) == (flops, moved)


@pytest.mark.parametrize("cache", [HALF, EIGHT])
def test_writing_into_a_cache(cache):
    tensors = {
        "k": ((4, H_KV, D), HALF),
        "v": ((4, H_KV, D), HALF),
        "k_cache": ((9, 3, H_KV, D), cache),
        "v_cache": ((9, 3, H_KV, D), cache),
        "slot_mapping": ((4,), LONG),
    }
    if cache is EIGHT:
        tensors["k_scale"] = tensors["v_scale"] = (1,), FULL
    indices = {"H_kv": H_KV, "D": D}
    record = Record(indices, {}, tensors, {"slot_mapping": [5, -1, 2, 20]})
    elements = 2 * 3 * H_KV * D
    eight = cache is EIGHT
    moved = elements * (2 + cache.itemsize) + 8 * 4 + 8 * eight
    assert attention.paged_kv_cache_write(record) == (3 * elements * eight, moved)


@pytest.mark.parametrize("cache", [HALF, EIGHT])
@pytest.mark.parametrize("rope", [False, True])
def test_writing_into_a_latent_cache(cache, rope):
    tensors = {
        "kv_c": ((4, 16), HALF),
        "k_pe": ((4, 6), HALF),
        "kv_cache": ((9, 3, 22), cache),
        "slot_mapping": ((4,), LONG),
    }
    if cache is EIGHT:
        tensors["kv_scale"] = (1,), FULL
    if rope:
        tensors["positions"] = (4,), LONG
        tensors["cos_sin_cache"] = (100, 6), FULL
    record = Record(
        {"D_c": 16, "D_rope": 6},
        {},
        tensors,
        {"slot_mapping": [5, -1, 2, 20], "positions": [7, 8, 9, 7]},
    )
    elements, eight = 3 * 22, cache is EIGHT
    flops = 3 * elements * eight + 3 * 3 * 6 * rope
    moved = elements * (2 + cache.itemsize) + 8 * 4 + 4 * eight
    moved += rope * (8 * 4 + 2 * 6 * 4)  # positions 7 and 9; 8 has no slot
    assert attention.mla_kv_cache_write(record) == (flops, moved)


@pytest.mark.parametrize("cache", [HALF, EIGHT])
@pytest.mark.parametrize("starts", [None, [1, 0, 2]])
def test_reading_out_a_cache(cache, starts):
    table, counts = [[0, 1, 2], [0, 1, 3], [4, 5, 6]], [5, 4, 0]
    tensors = {
        "kv_cache": ((9, 3, H_KV, D), cache),
        "block_table": ((3, 3), INT),
        "cu_seqlens": ((4,), INT),
        "out": ((9, H_KV, D), HALF),
        "output": ((9, H_KV, D), HALF),
    }
    metadata = {"cu_seqlens": offsets(counts), "block_table": table}
    if starts:
        tensors["seq_starts"] = (3,), INT
        metadata["seq_starts"] = starts
    if cache is EIGHT:
        tensors["kv_scale"] = (1,), FULL
    record = Record({"PS": 3, "L": 9, "E": (H_KV, D)}, {}, tensors, metadata)
    read = [
        (b, t)
        for b, (start, count) in enumerate(zip(starts or [0] * 3, counts, strict=True))
        for t in range(start, start + count)
    ]
    slots = {(table[b][t // 3], t % 3) for b, t in read}
    entries = {(b, t // 3) for b, t in read}
    eight = cache is EIGHT
    moved = (2 * 9 + cache.itemsize * len(slots)) * H_KV * D + 4 * len(entries) + 4 * 4
    moved += 4 * 3 * bool(starts) + 4 * eight
    assert attention.paged_kv_cache_gather(record) == (9 * H_KV * D * eight, moved)
