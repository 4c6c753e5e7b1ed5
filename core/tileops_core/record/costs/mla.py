"""Work of multi-head latent attention over requests whose lengths are values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.record.costs.requests import SOFTMAX, lengths, slots_read, visible_pairs
from tileops_core.record.costs.tensors import size, whole

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall

_GRADIENT = 5
"""Operations of a backward per visible pair: scale, subtract lse, exp, subtract, multiply."""


def paged_forward(record: SignatureCall) -> tuple[int, int]:
    """Work of MLAPagedFwdOp.

    Flops: per visible pair and head 2 · D for the score, 2 · kv_lora_rank for the value, and the
    softmax; a division per result, a logarithm and a sum per row of lse. Bytes: each cached row
    that a request holds and each entry of the block table that leads there; and the other tensors.
    """
    i, latent = record.indices, record.parameters["kv_lora_rank"]
    cached = record.metadata_values("cache_seqlens")
    causal = record.parameters["is_causal"]
    pairs = sum(visible_pairs(i["S_q"], length, causal) for length in cached)
    flops = i["H"] * pairs * (2 * i["D"] + 2 * latent + SOFTMAX)
    flops += i["B"] * i["S_q"] * i["H"] * (latent + 2)
    table = record.metadata_values("block_table")
    slots = slots_read(table, ((0, length) for length in cached), i["PS"])
    entries = sum(-(-length // i["PS"]) for length in cached)
    moved = slots * i["D"] * size(record, "kv_cache") + entries * size(record, "block_table")
    return flops, moved + whole(record, "kv_cache", "block_table")


def varlen_forward(record: SignatureCall) -> tuple[int, int]:
    """Work of MLAVarlenFwdOp.

    Flops: per visible pair and head 2 · (D_nope + D_rope) for the score, 2 · D_v for the value, and
    the softmax; a division per result, a logarithm and a sum per row of lse. Bytes: every tensor.
    """
    i, causal = record.indices, record.parameters["is_causal"]
    requests = lengths(record.metadata_values("cu_seqlens"))
    pairs = sum(visible_pairs(length, length, causal) for length in requests)
    flops = i["H"] * pairs * (2 * (i["D_nope"] + i["D_rope"]) + 2 * i["D_v"] + SOFTMAX)
    return flops + i["H"] * i["L"] * (i["D_v"] + 2), whole(record)


def varlen_backward(record: SignatureCall) -> tuple[int, int]:
    """Work of MLAVarlenBwdOp.

    Flops: per visible pair and head 6 · D for the scores and the gradients of q and k, 4 · D_v for
    those of the weights and of v, and five more; per query and head 2 · D_v for the sum of do · o;
    a product per element of dq and dk. Bytes: every tensor.
    """
    i, causal = record.indices, record.parameters["is_causal"]
    queries = lengths(record.metadata_values("cu_seqlens_q"))
    keys = lengths(record.metadata_values("cu_seqlens_kv"))
    pairs = sum(visible_pairs(m, n, causal) for m, n in zip(queries, keys, strict=True))
    flops = pairs * (6 * i["D"] + 4 * i["D_v"] + _GRADIENT)
    flops += 2 * i["T_q"] * i["D_v"] + (i["T_q"] + i["T_kv"]) * i["D"]
    return i["H"] * flops, whole(record)
