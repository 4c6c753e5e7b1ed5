"""What attention costs: its products and its softmax over the pairs that see each other."""

from __future__ import annotations

import itertools

import pytest
import torch
from costs import differing
from operations import operations
from softmax_attention import forward, probabilities
from visible_pairs import pairs as listed_pairs

# -- who sees whom --------------------------------------------------------------------------------


def windows(queries, keys, causal=False, left=-1, right=-1):
    """The first key that each query sees, and the one behind the last; equal where it sees none."""
    for i in range(queries):
        at = i + keys - queries
        first = max(0, at - left) if left >= 0 else 0
        behind = min(at + 1 if causal else keys, at + right + 1 if right >= 0 else keys)
        yield min(first, keys), max(min(first, keys), behind)


def requests_of(row):
    """How many queries and keys each request has."""

    def lengths(name):
        return [b - a for a, b in itertools.pairwise(row.values(name))]

    present = row.record.present
    if present("cu_seqlens_q"):
        queries = lengths("cu_seqlens_q")
    elif present("cu_seqlens"):
        queries = lengths("cu_seqlens")
    else:
        queries = [row.shape("q")[1] if len(row.shape("q")) == 4 else 1] * row["B"]
    if present("cache_seqlens"):
        keys = row.values("cache_seqlens")
    elif present("cu_seqlens_kv"):
        keys = lengths("cu_seqlens_kv")
    else:
        keys = queries if present("cu_seqlens") else [row.shape("k")[1]] * row["B"]
    return list(zip(queries, keys, strict=True))


def mask_of(row):
    given = row.record.parameters
    return (
        given.get("is_causal", False),
        given.get("window_size_left", -1),
        given.get("window_size_right", -1),
    )


def seen(row):
    """Per request the windows of its queries."""
    return [list(windows(*request, *mask_of(row))) for request in requests_of(row)]


def pairs_of(row):
    return sum(behind - first for request in seen(row) for first, behind in request)


def keys_seen(row):
    """Per request the positions that any query sees."""
    found = []
    for request in seen(row):
        reached, positions = 0, []
        for first, behind in request:
            positions += range(max(first, reached), behind)
            reached = max(reached, behind)
        found.append(positions)
    return found


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [-1, 0, 2, 9])
@pytest.mark.parametrize("right", [-1, 0, 2, 9])
def test_windows_are_those_of_the_mask(causal, left, right):
    for queries, keys in itertools.product(range(6), range(6)):
        ours = windows(queries, keys, causal, left, right)
        found = [(i, j) for i, (first, behind) in enumerate(ours) for j in range(first, behind)]
        assert found == listed_pairs(queries, keys, causal, left, right)


# -- formulas, over all pairs at once -------------------------------------------------------------


def backward(pairs, rows, keys, width, values, cap=None):
    """``rows`` and ``keys`` are those of all heads."""
    z, bent = probabilities(pairs, width, cap)
    shares = torch.exp(z - torch.empty(1))
    _ = shares @ torch.empty(pairs, values)
    deltas = (torch.empty(rows, values) * torch.empty(rows, values)).sum(1)
    dz = shares * (torch.empty(1, values) @ torch.empty(values, pairs) - deltas[:1])
    if bent is not None:
        dz = dz * (1 - bent * bent)
    _ = dz @ torch.empty(pairs, width), dz @ torch.empty(pairs, width)
    _ = 0.1 * torch.empty(rows, width), 0.1 * torch.empty(keys, width)


def turned(rows, width):
    """Both features of each pair."""
    a, b, cos, sin = torch.empty(4, rows, width // 2)
    return a * cos - b * sin, b * cos + a * sin


def saturated(x, scale):
    return (x / scale).clamp_min(-448).clamp_max(448)


def merged(rows, width):
    a, b = torch.empty(rows, 1), torch.empty(rows, 1)
    most = torch.maximum(a, b)
    wa, wb = torch.exp(a - most), torch.exp(b - most)
    total = wa + wb
    _ = most + torch.log(total)
    return wa / total * torch.empty(rows, width) + wb / total * torch.empty(rows, width)


# -- flops ----------------------------------------------------------------------------------------


def grouped(row):
    """Attention of H heads over H_kv, as dense, packed and paged ops have it."""
    heads, queries = row["H"], sum(m for m, _ in requests_of(row))
    sinks, lse = row.record.present("sinks"), row.record.present("lse")
    cap = row.record.parameters["softcap"]
    d, rows = row["D"], heads * queries
    count = operations(forward, heads * pairs_of(row), rows, d, d, cap, sinks, lse)
    if row.record.present("rope_cos"):
        # A query before its request's first key is not turned.
        after = sum(min(request) for request in requests_of(row))
        keys = sum(map(len, keys_seen(row)))
        count += operations(turned, heads * after + row["H_kv"] * keys, row["R"])
    return count


def plain(row, width, values, lse=False):
    queries = sum(m for m, _ in requests_of(row))
    return operations(forward, row["H"] * pairs_of(row), row["H"] * queries, width, values, lse=lse)


def gradients(row, values, heads):
    queries, keys = (sum(n) for n in zip(*requests_of(row), strict=True))
    rows, pairs = row["H"] * queries, row["H"] * pairs_of(row)
    cap = row.record.parameters.get("softcap")
    return operations(backward, pairs, rows, heads * keys, row["D"], values, cap)


def written(row):
    return [n for n, slot in enumerate(row.values("slot_mapping")) if slot >= 0]


def cache_write(row):
    def rows():
        x = torch.empty(2 * len(written(row)) * row["H_kv"] * row["D"])
        _ = saturated(x, 0.5) if row.record.present("k_scale") else x

    return operations(rows)


def latent_write(row):
    tokens = len(written(row))

    def rows():
        if row["fuse_rope"]:
            turned(tokens, row["D_rope"])
        x = torch.empty(tokens, row["D_c"] + row["D_rope"])
        _ = saturated(x, 0.5) if row.record.present("kv_scale") else x

    return operations(rows)


FLOPS = {
    "GQADenseFwdOp": grouped,
    "GQADenseWithLSEFwdOp": grouped,
    "GQAVarlenFwdOp": grouped,
    "GQAPagedFwdOp": grouped,
    "GQADenseBwdOp": lambda row: gradients(row, row["D"], row["H_kv"]),
    "MHAPagedFwdOp": lambda row: plain(row, row["D"], row["D"]),
    "MLADenseDecodeFwdOp": lambda row: plain(row, row["D_c"] + row["D_rope"], row["D_c"]),
    "MLAPagedFwdOp": lambda row: plain(row, row["D"], row["kv_lora_rank"], lse=True),
    "MLAVarlenFwdOp": lambda row: plain(row, row["D_nope"] + row["D_rope"], row["D_v"], lse=True),
    "MLADenseBwdOp": lambda row: gradients(row, row["D_v"], row["H"]),
    "MLAVarlenBwdOp": lambda row: gradients(row, row["D_v"], row["H"]),
    "MergeAttentionStatesFwdOp": lambda row: operations(merged, row["T_q"] * row["H"], row["D"]),
    "PagedKVCacheWriteFwdOp": cache_write,
    "MLAKVCacheWriteFwdOp": latent_write,
    "PagedKVCacheGatherFwdOp": lambda row: operations(
        lambda: torch.empty(row.numel("out")) * 0.5 if row.record.present("kv_scale") else None
    ),
}


@pytest.mark.parametrize("op", FLOPS)
def test_flops_are_those_of_pairs_that_see_each_other(op):
    assert differing(op, FLOPS[op], "flops") == {}


# -- bytes ----------------------------------------------------------------------------------------


def others(row, *names):
    return row.size(*set(row.record.tensors) - {*names})


def element(row, name):
    return row.record.tensors[name][1].itemsize


def slots(row, positions, page_size):
    """Which rows of a cache hold these positions of the requests, and which entries lead there."""
    table = row.values("block_table")
    rows, entries = set(), set()
    for b, (pages, wanted) in enumerate(zip(table, positions, strict=True)):
        rows.update((pages[t // page_size], t % page_size) for t in wanted)
        entries.update((b, t // page_size) for t in wanted)
    return len(rows), len(entries)


def tables(row):
    """Rows of the rotary tables: positions that are seen, each once for all requests."""
    if not row.record.present("rope_cos"):
        return 0
    rows = len(set().union(*keys_seen(row)))
    return rows * (row.size("rope_cos", "rope_sin") // row.shape("rope_cos")[0])


def packed(row):
    keys = sum(map(len, keys_seen(row)))
    partly = others(row, "k", "v", "rope_cos", "rope_sin")
    return keys * 2 * row["H_kv"] * row["D"] * element(row, "k") + tables(row) + partly


def paged(row, positions, page_size, *caches):
    rows, entries = slots(row, positions, page_size)
    moved = rows * (row.size(*caches) // (row["NP"] * page_size))
    moved += entries * element(row, "block_table") + tables(row)
    partly = {"block_table", "rope_cos", "rope_sin", "output", *caches}
    return moved + others(row, *partly)


def gathered(row):
    """The positions that each request has copied."""
    counts = [b - a for a, b in itertools.pairwise(row.values("cu_seqlens"))]
    starts = row.values("seq_starts") if row.record.present("seq_starts") else [0] * len(counts)
    return [range(start, start + n) for start, n in zip(starts, counts, strict=True)]


def cache_rows(row, sources, caches):
    """Tokens that have a slot are read and written, the rest of both stays."""
    tokens = len(written(row))
    read = row.size(*sources) // row["L"] * tokens
    wrote = row.size(*caches) // (row["NP"] * row["PS"]) * tokens
    return read + wrote + others(row, "cos_sin_cache", *sources, *caches)


def latent_rows(row):
    moved = cache_rows(row, ("kv_c", "k_pe"), ("kv_cache",))
    if row["fuse_rope"]:
        positions = row.values("positions")
        turning = {positions[n] for n in written(row)}
        moved += len(turning) * (row.size("cos_sin_cache") // row["P"])
    return moved


BYTES = {
    "GQAVarlenFwdOp": packed,
    "GQAPagedFwdOp": lambda row: paged(row, keys_seen(row), row["PS"], "k_cache", "v_cache"),
    "MHAPagedFwdOp": lambda row: paged(row, keys_seen(row), row["page_size"], "k_cache", "v_cache"),
    "MLAPagedFwdOp": lambda row: paged(row, keys_seen(row), row["PS"], "kv_cache"),
    "PagedKVCacheGatherFwdOp": lambda row: paged(row, gathered(row), row["PS"], "kv_cache"),
    "PagedKVCacheWriteFwdOp": lambda row: cache_rows(row, ("k", "v"), ("k_cache", "v_cache")),
    "MLAKVCacheWriteFwdOp": latent_rows,
}


@pytest.mark.parametrize("op", FLOPS)
def test_bytes_are_those_of_what_is_seen(op):
    assert differing(op, BYTES.get(op, others), "bytes") == {}
