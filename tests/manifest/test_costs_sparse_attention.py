"""What sparse attention costs, and what scores and selects its keys: lists, as tensors."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
import torch
from costs import differing
from operations import operations
from softmax_attention import forward


def values(row, name):
    return torch.tensor(row.values(name)).reshape(row.shape(name))


def different(codes):
    """How many different numbers there are."""
    return int((torch.bincount(codes.flatten()) > 0).sum()) if codes.numel() else 0


def others(row, *names):
    return row.size(*set(row.record.tensors) - {*names})


def element(row, *names):
    return sum(row.record.tensors[name][1].itemsize for name in names)


def positions(row):
    """The position of each packed token in its sequence, and the number of that."""
    lengths = [b - a for a, b in itertools.pairwise(row.values("cu_seqlens"))]
    owners = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return torch.tensor([t for n in lengths for t in range(n)], dtype=torch.int64), owners


# -- keys from lists: live pairs of one query head per key head, rows that are read --------------


@cache
def dense_list(row):
    keys, heads = row["S_kv"], row["H_kv"]
    listed = values(row, "indices")
    live = (listed >= 0) & (listed < keys)
    if row["is_causal"]:
        at = row["q_start_index_s"] + torch.arange(row["S_q"])[:, None, None]
        live &= (listed + 1) * row["stride_kv"] - 1 <= at
    owner = torch.arange(row["B"])[:, None, None, None] * heads + torch.arange(heads)[:, None]
    return int(live.sum()), different((owner * keys + listed)[live])


def dense_flops(row):
    live, _ = dense_list(row)
    rows = row["B"] * row["S_q"] * row["H"]
    return operations(
        forward, live * row["H"] // row["H_kv"], rows, row["D"] + row["dim_tail"], row["D"]
    )


def dense_bytes(row):
    width = row["D"] + row["dim_tail"]
    return dense_list(row)[1] * width * element(row, "kv") + others(row, "kv")


@cache
def paged_list(row):
    listed = values(row, "indices")
    live = (listed >= 0) & (listed < values(row, "cache_seqlens")[:, None, None])
    block = listed.clamp_min(0) // row["PS"]
    owner = torch.arange(row["B"])[:, None, None]
    page = values(row, "block_table")[owner, block.clamp_max(row["W"] - 1)]
    slots = different((page * row["PS"] + listed % row["PS"])[live])
    return int(live.sum()), slots, different((owner * row["W"] + block)[live])


def paged_flops(row):
    live, slots, _ = paged_list(row)
    attended = operations(
        forward, live * row["H"], row["B"] * row["S_q"] * row["H"], 576, 512, lse=True
    )
    # 512 codes of a row take their multipliers.
    return attended + operations(lambda: torch.empty(slots, 512) * torch.empty(slots, 1))


def paged_bytes(row):
    _, slots, entries = paged_list(row)
    return slots * 656 + entries * 4 + others(row, "kv_cache", "block_table")


# -- blocks ----------------------------------------------------------------------------------------


@cache
def closed(row):
    """Blocks that end at a token or before it, over all tokens; those that any token sees."""
    at, owner = positions(row)
    size = row["block_size"]
    blocks = torch.arange(int(at.max()) // size + 1)
    seen = (blocks + 1) * size - 1 <= at[:, None]
    return int(seen.sum()), different((owner[:, None] * len(blocks) + blocks)[seen])


def compressed_flops(row):
    pairs = row["H"] * closed(row)[0]
    return operations(forward, pairs, row["L"] * row["H"], row["D"], row["D_v"], lse=True)


def compressed_bytes(row):
    rows = closed(row)[1] * row["H_kv"]
    width = row["D"] + row["D_v"]
    return rows * width * element(row, "k_cmp") + others(row, "k_cmp", "v_cmp")


def selection(pairs, tokens, width, candidates):
    """Probabilities of all heads, summed by group; a comparison per candidate."""
    z = torch.empty(1, width) @ torch.empty(width, pairs)
    _ = torch.empty(tokens, width) * 0.1
    shares = torch.exp(z - z.amax(1, keepdim=True))
    (shares / shares.sum(1, keepdim=True)).sum(0)
    if candidates:
        torch.empty(1, candidates).amax(1)


def topk_flops(row):
    at, _ = positions(row)
    blocks = torch.arange(int(at.max()) // row["block_size"] + 1)
    candidates = int((blocks * row["block_size"] <= at[:, None]).sum()) * row["H_kv"]
    pairs, tokens = row["H"] * closed(row)[0], row["L"] * row["H"]
    return operations(selection, pairs, tokens, row["D"], candidates)


def topk_bytes(row):
    rows = closed(row)[1] * row["H_kv"]
    return rows * row["D"] * element(row, "k_cmp") + others(row, "k_cmp")


@cache
def selected(row):
    """Tokens of blocks that tokens look at; rows that any token of a sequence looks at."""
    size, heads = row["block_size"], row["H_kv"]
    at, owner = positions(row)
    lengths = torch.bincount(owner)
    numbers, counts = values(row, "block_indices"), values(row, "block_counts")
    limit = (at + 1 if row["is_causal"] else lengths[owner])[:, None, None]
    seen = (limit - numbers * size).clamp(0, size)
    used = torch.arange(numbers.shape[2]) < counts[:, :, None]
    seen = torch.where(used & (numbers >= 0), seen, 0)
    # A block's tokens are seen from its first one on.
    blocks = int(lengths.max()) // size + 1
    code = (owner[:, None, None] * heads + torch.arange(heads)[:, None]) * blocks + numbers
    most = torch.zeros(len(lengths) * heads * blocks, dtype=seen.dtype)
    live = seen > 0
    most.scatter_reduce_(0, code[live], seen[live], "amax")
    return int(seen.sum()), int(most.sum())


def selected_flops(row):
    pairs = selected(row)[0] * row["H"] // row["H_kv"]
    return operations(forward, pairs, row["L"] * row["H"], row["D"], row["D"])


def selected_bytes(row):
    return selected(row)[1] * row["D"] * element(row, "k", "v") + others(row, "k", "v")


# -- scores and selection of keys ------------------------------------------------------------------


@cache
def windowed(row):
    """Keys in the windows of queries, and those that lie in any."""
    starts, ends = values(row, "starts")[..., None], values(row, "ends")[..., None]
    keys = torch.arange(row["S_kv"])
    inside = (starts <= keys) & (keys < ends)
    return int(inside.sum()), int(inside.any(0).sum())


def scores(pairs, heads, groups, width):
    """Logits of all heads of pairs, weighted and summed by group, times the key's scale."""
    products = (torch.empty(1, width) @ torch.empty(width, pairs * heads)).clamp_min(0)
    (products * torch.empty(1)).view(pairs, groups, heads // groups).sum(2) * torch.empty(1)


def quantized(rows, width, queries):
    """Keys by rows; queries are cut to what float8 holds."""
    keys = torch.empty(rows, width)
    scale = keys.abs().amax(1, keepdim=True).clamp_min(1e-4) / 448
    _ = keys / scale, torch.empty(queries).clamp_min(-448).clamp_max(448)


def indexer_flops(row):
    pairs, keys = windowed(row)
    count = operations(scores, row["B"] * pairs, row["H"], row["G"], row["D"])
    if not row.record.present("index_k_scale"):
        cut = row.numel("index_q") if row.record.tensors["index_q"][1] == torch.bfloat16 else 0
        count += operations(quantized, row["B"] * row["G"] * keys, row["D"], cut)
    return count


def indexer_bytes(row):
    pairs, keys = windowed(row)
    moved = keys * (row.size("index_k", "index_k_scale") // row["S_kv"])
    rest = others(row, "index_k", "index_k_scale", "logits")
    logits = row.size("logits") if row["clean_logits"] else row["B"] * pairs * row["G"] * 4
    return moved + rest + logits


def select_flops(row):
    logits = windowed(row)[0]
    return operations(lambda: torch.empty(row["G"], logits).amax(1))


def select_bytes(row):
    return windowed(row)[0] * row["G"] * 4 + others(row, "logits")


COUNTS = {
    "DSADenseFwdOp": (dense_flops, dense_bytes),
    "DSAPagedFwdOp": (paged_flops, paged_bytes),
    "NSACompressedVarlenFwdOp": (compressed_flops, compressed_bytes),
    "NSATopKVarlenFwdOp": (topk_flops, topk_bytes),
    "NSAVarlenFwdOp": (selected_flops, selected_bytes),
    "FP8LightningIndexerFwdOp": (indexer_flops, indexer_bytes),
    "TopKSelectFwdOp": (select_flops, select_bytes),
}


@pytest.mark.parametrize("op", COUNTS)
def test_flops_are_those_of_the_keys_that_lists_name(op):
    assert differing(op, COUNTS[op][0], "flops") == {}


@pytest.mark.parametrize("op", COUNTS)
def test_bytes_are_those_of_rows_that_somebody_looks_at(op):
    assert differing(op, COUNTS[op][1], "bytes") == {}
