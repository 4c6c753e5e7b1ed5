"""Costs of multi-head latent attention, against counting one by one."""

from __future__ import annotations

import pytest
import torch
from cost_records import Record, offsets
from visible_pairs import pairs

from tileops_core.record.costs import mla

HALF, FULL, EIGHT, INT = torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.int32
H, D, D_V = 3, 10, 6


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("cache", [HALF, EIGHT])
def test_paged_forward(causal, cache):
    queries, page, cached = 2, 4, [7, 2, 8, 3]
    # the first two share a page; entries that no position leads to may be anything
    table = [[0, 1, 99], [0, -1, 99], [5, 4, -1], [2, 99, -1]]
    tensors = {
        "q": ((4, queries, H, D), HALF),
        "kv_cache": ((9, page, D), cache),
        "block_table": ((4, 3), INT),
        "cache_seqlens": ((4,), INT),
        "o": ((4, queries, H, D_V), HALF),
        "lse": ((4, H, queries), FULL),
    }
    if cache == EIGHT:
        tensors["kv_scale"] = (1,), FULL
    record = Record(
        {"B": 4, "S_q": queries, "H": H, "D": D, "PS": page},
        {"kv_lora_rank": D_V, "is_causal": causal},
        tensors,
        {"cache_seqlens": cached, "block_table": table},
    )
    seen = [(b, t) for b, n in enumerate(cached) for t in range(n)]
    flops = sum(len(pairs(queries, n, causal)) for n in cached) * H * (2 * D + 2 * D_V + 5)
    flops += 4 * queries * H * (D_V + 2)
    moved = 2 * 4 * queries * H * (D + D_V) + 4 * 4 * H * queries + 4 * 4
    moved += D * cache.itemsize * len({(table[b][t // page], t % page) for b, t in seen})
    moved += 4 * len({(b, t // page) for b, t in seen}) + 4 * (cache == EIGHT)
    assert mla.paged_forward(record) == (flops, moved)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lens", [[4, 0, 1, 6], [11], []])
def test_packed_forward(causal, lens):
    total, d_rope = sum(lens), 4
    tensors = {
        "q": ((total, H, D + d_rope), HALF),
        "k_nope": ((total, H, D), HALF),
        "k_pe": ((total, d_rope), HALF),
        "v": ((total, H, D_V), HALF),
        "cu_seqlens": ((len(lens) + 1,), INT),
        "o": ((total, H, D_V), HALF),
        "lse": ((H, total), FULL),
    }
    record = Record(
        {"L": total, "H": H, "D_nope": D, "D_rope": d_rope, "D_v": D_V},
        {"is_causal": causal},
        tensors,
        {"cu_seqlens": offsets(lens)},
    )
    flops = sum(len(pairs(n, n, causal)) for n in lens) * H * (2 * (D + d_rope) + 2 * D_V + 5)
    moved = 2 * total * (H * (2 * D + 2 * D_V) + d_rope * (H + 1))
    moved += 4 * (len(lens) + 1) + 4 * H * total
    assert mla.varlen_forward(record) == (flops + total * H * (D_V + 2), moved)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_backward(causal):
    q_lens, kv_lens = [3, 0, 5, 2], [7, 4, 2, 2]
    t_q, t_kv = sum(q_lens), sum(kv_lens)
    keys, values = ((t_kv, H, D), HALF), ((t_kv, H, D_V), HALF)
    queries, results = ((t_q, H, D), HALF), ((t_q, H, D_V), HALF)
    tensors = {"do": results, "q": queries, "k": keys, "v": values, "o": results}
    tensors |= {"lse": ((H, t_q), FULL), "dq": queries, "dk": keys, "dv": values}
    record = Record(
        {"T_q": t_q, "T_kv": t_kv, "H": H, "D": D, "D_v": D_V},
        {"is_causal": causal},
        tensors,
        {"cu_seqlens_q": offsets(q_lens), "cu_seqlens_kv": offsets(kv_lens)},
    )
    seen = sum(len(pairs(m, n, causal)) for m, n in zip(q_lens, kv_lens, strict=True))
    # logits, dq and dk; do · v and dv; delta; two scalings
    flops = seen * (3 * 2 * D + 2 * 2 * D_V + 5) + 2 * t_q * D_V + t_q * D + t_kv * D
    moved = 2 * H * (2 * t_q * (D + D_V) + 2 * t_kv * (D + D_V)) + 4 * H * t_q
    assert mla.varlen_backward(record) == (H * flops, moved)
