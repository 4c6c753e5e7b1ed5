"""Costs of attention over packed requests and paged caches, and of writing and reading the caches.

Bytes count what the requests need: of keys, values, cached rows and rotary tables those that at
least one query sees, each once, also where requests share a page; of a table of pages the entries
of these positions; every other tensor once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from tileops_core.record.costs.requests import (
    SOFTMAX,
    covered,
    lengths,
    seen_keys,
    slots_read,
    visible_pairs,
)

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall

Spans: TypeAlias = "Sequence[tuple[int, int]]"
"""Per request the first position that it reads, and the one behind the last."""


def gqa_varlen(record: SignatureCall) -> tuple[int, int]:
    """Work of GQAVarlenFwdOp; see :func:`_attended` for the flops.

    Bytes: per key that a query sees, 2 · H_kv · D elements; and what every call moves.
    """
    queries = lengths(record.metadata_values("cu_seqlens_q"))
    keys = lengths(record.metadata_values("cu_seqlens_kv"))
    spans = _seen(record, queries, keys)
    i = record.indices
    read = 2 * _total(spans) * i["H_kv"] * i["D"] * _size(record, "k")
    rest = _whole(record, "k", "v", "rope_cos", "rope_sin")
    return _attended(record, queries, keys, spans), read + _turning(record, spans) + rest


def gqa_paged(record: SignatureCall) -> tuple[int, int]:
    """Work of GQAPagedFwdOp; see :func:`_attended` for the flops.

    Bytes: per cached position that a query sees, 2 · H_kv · D elements; and what every call moves.
    """
    queries = lengths(record.metadata_values("cu_seqlens_q"))
    keys = record.metadata_values("cache_seqlens")
    spans = _seen(record, queries, keys)
    i = record.indices
    read = _paged(record, spans, i["PS"], 2 * i["H_kv"] * i["D"] * _size(record, "k_cache"))
    rest = _whole(record, "k_cache", "v_cache", "block_table", "rope_cos", "rope_sin")
    return _attended(record, queries, keys, spans), read + _turning(record, spans) + rest


def mha_paged(record: SignatureCall) -> tuple[int, int]:
    """Work of MHAPagedFwdOp.

    Flops: H · (4 · D + 5) per visible pair of all requests, and a division per result. Bytes: per
    cached position that a query sees, 2 · H · D elements; and what every call moves.
    """
    i = record.indices
    keys = record.metadata_values("cache_seqlens")
    pairs = sum(visible_pairs(i["S_q"], n, record.parameters["is_causal"]) for n in keys)
    flops = i["H"] * (pairs * (4 * i["D"] + SOFTMAX) + i["B"] * i["S_q"] * i["D"])
    spans = [(n - seen_keys(i["S_q"], n), n) for n in keys]
    size = 2 * i["H"] * i["D"] * _size(record, "k_cache")
    read = _paged(record, spans, record.parameters["page_size"], size)
    return flops, read + _whole(record, "k_cache", "v_cache", "block_table")


def paged_kv_cache_write(record: SignatureCall) -> tuple[int, int]:
    """Work of PagedKVCacheWriteFwdOp, over the tokens that have a slot.

    Flops: for a float8 cache a division and two clamps per element, else none. Bytes: per token
    2 · H_kv · D elements read and written; and the slots and scales.
    """
    i = record.indices
    written = sum(slot >= 0 for slot in record.metadata_values("slot_mapping"))
    elements = 2 * written * i["H_kv"] * i["D"]
    moved = elements * (_size(record, "k") + _size(record, "k_cache"))
    flops = 3 * elements if record.present("k_scale") else 0
    return flops, moved + _whole(record, "k", "v", "k_cache", "v_cache")


def mla_kv_cache_write(record: SignatureCall) -> tuple[int, int]:
    """Work of MLAKVCacheWriteFwdOp, over the tokens that have a slot.

    Flops: for a float8 cache a division and two clamps per element; where k_pe is turned, four
    products and two sums per pair of its features. Bytes: per token D_c + D_rope elements read and
    written; the rows of the tables at the tokens' positions; and the slots, positions and scale.
    """
    i = record.indices
    slots = record.metadata_values("slot_mapping")
    written = sum(slot >= 0 for slot in slots)
    elements = written * (i["D_c"] + i["D_rope"])
    flops = 3 * elements if record.present("kv_scale") else 0
    moved = elements * (_size(record, "kv_c") + _size(record, "kv_cache"))
    if record.present("positions"):
        flops += 3 * written * i["D_rope"]
        positions = zip(record.metadata_values("positions"), slots, strict=True)
        rows = len({position for position, slot in positions if slot >= 0})
        moved += rows * i["D_rope"] * _size(record, "cos_sin_cache")
    return flops, moved + _whole(record, "kv_c", "k_pe", "kv_cache", "cos_sin_cache")


def paged_kv_cache_gather(record: SignatureCall) -> tuple[int, int]:
    """Work of PagedKVCacheGatherFwdOp.

    Flops: for a float8 cache a product per element, else none. Bytes: per position prod(E)
    elements read and written; and what every call moves.
    """
    i = record.indices
    counts = lengths(record.metadata_values("cu_seqlens"))
    first = record.metadata_values("seq_starts") if record.present("seq_starts") else ()
    starts = first or [0] * len(counts)
    spans = [(start, start + count) for start, count in zip(starts, counts, strict=True)]
    width = prod(i["E"])
    read = _paged(record, spans, i["PS"], width * _size(record, "kv_cache"))
    flops = i["L"] * width if record.present("kv_scale") else 0
    return flops, read + _whole(record, "kv_cache", "block_table", "output")


def _seen(record: SignatureCall, queries: Sequence[int], keys: Sequence[int]) -> Spans:
    """The keys that each request's queries see."""
    left = record.parameters["window_size_left"]
    return [(n - seen_keys(m, n, left), n) for m, n in zip(queries, keys, strict=True)]


def _attended(
    record: SignatureCall, queries: Sequence[int], keys: Sequence[int], seen: Spans
) -> int:
    """Flops of grouped-query attention with its extras.

    Per visible pair and head the products with key and value, 4 · D, and the softmax; a cap adds
    its division's share and tanh. One division per result, the softmax without its scale per sink
    and query, four products and two sums per turned pair of features of a key that is seen or of a
    query, of which those before a request's first key are not turned.
    """
    i, given = record.indices, record.parameters
    mask = given["is_causal"], given["window_size_left"], given["window_size_right"]
    pairs = sum(visible_pairs(m, n, *mask) for m, n in zip(queries, keys, strict=True))
    rows = i["T_q"] * i["H"]
    flops = i["H"] * pairs * (4 * i["D"] + SOFTMAX + (2 if given["softcap"] else 0))
    flops += rows * i["D"]
    if record.present("sinks"):
        flops += (SOFTMAX - 1) * rows
    if record.present("rope_cos"):
        turned = sum(min(m, n) for m, n in zip(queries, keys, strict=True))
        flops += 3 * i["R"] * (turned * i["H"] + _total(seen) * i["H_kv"])
    return int(flops)


def _turning(record: SignatureCall, seen: Spans) -> int:
    """Bytes of the rotary tables' rows at positions that are seen; the queries' are among them."""
    if not record.present("rope_cos"):
        return 0
    return 2 * covered(seen) * int(record.indices["R"] // 2) * _size(record, "rope_cos")


def _paged(record: SignatureCall, spans: Spans, page_size: int, slot: int) -> int:
    """Bytes of the slots that requests read, ``slot`` each, and of the table's entries for them."""
    table = record.metadata_values("block_table")
    entries = sum(-(-end // page_size) - start // page_size for start, end in spans if start < end)
    read = slots_read(table, spans, page_size)
    return read * slot + entries * _size(record, "block_table")


def _total(spans: Spans) -> int:
    return sum(end - start for start, end in spans)


def _size(record: SignatureCall, name: str) -> int:
    """Bytes of one element of a tensor."""
    return record.tensors[name][1].itemsize


def _whole(record: SignatureCall, *partly: str) -> int:
    """Bytes of every tensor that is moved once and whole: all but those that are named."""
    return sum(record.bytes(name) for name in record.tensors if name not in partly)
