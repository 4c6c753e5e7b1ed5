"""Work of sparse attention, of what scores its keys and of what selects them.

Lists of keys and windows are values, and so are the rows of keys that they leave to be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileops_core.record.costs.requests import SOFTMAX, covered, lengths
from tileops_core.record.costs.tensors import size, whole

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def dsa_dense(record: SignatureCall) -> tuple[int, int]:
    """Work of DSADenseFwdOp.

    Flops: per listed key that a query sees, and per query head, 2 · (D + dim_tail) for the score,
    2 · D for the value, and the softmax; a division per result. Bytes: each row of kv that a query
    of its batch element looks at; and the other tensors.
    """
    i, given = record.indices, record.parameters
    first, stride = given["q_start_index_s"], given["stride_kv"]
    live = rows = 0
    for queries in record.metadata_values("indices"):
        read: list[set[int]] = [set() for _ in range(i["H_kv"])]
        for s, heads in enumerate(queries):
            limit = i["S_kv"]
            if given["is_causal"]:  # key t is there when (t + 1) * stride - 1 <= first + s
                limit = min(limit, (first + s + 1) // stride)
            for h, listed in enumerate(heads):
                seen = [t for t in listed if 0 <= t < limit]
                live += len(seen)
                read[h].update(seen)
        rows += sum(map(len, read))
    width = i["D"] + given["dim_tail"]
    flops = i["H"] // i["H_kv"] * live * (2 * width + 2 * i["D"] + SOFTMAX)
    flops += i["B"] * i["S_q"] * i["H"] * i["D"]
    return flops, rows * width * size(record, "kv") + whole(record, "kv")


def dsa_paged(record: SignatureCall) -> tuple[int, int]:
    """Work of DSAPagedFwdOp.

    Flops: per listed position that is cached, and per head, two products of the key's and of the
    value's width, and the softmax; a division per result, a logarithm and a sum per row of lse, a
    product per latent of a row that is read. Bytes: each such row and each entry of the block table
    that leads there; and the other tensors.
    """
    i, page = record.indices, record.indices["PS"]
    live = entries = 0
    slots: set[tuple[int, int]] = set()
    for queries, pages, cached in zip(
        record.metadata_values("indices"),
        record.metadata_values("block_table"),
        record.metadata_values("cache_seqlens"),
        strict=True,
    ):
        read: set[int] = set()
        for listed in queries:
            seen = [t for t in listed if 0 <= t < cached]
            live += len(seen)
            read.update(seen)
        entries += len({t // page for t in read})
        slots.update((pages[t // page], t % page) for t in read)
    width, latent = record.tensors["q"][0][-1], record.tensors["o"][0][-1]
    flops = i["H"] * live * (2 * width + 2 * latent + SOFTMAX) + latent * len(slots)
    flops += i["B"] * i["S_q"] * i["H"] * (latent + 2)
    row = record.tensors["kv_cache"][0][-1] * size(record, "kv_cache")
    moved = len(slots) * row + entries * size(record, "block_table")
    return flops, moved + whole(record, "kv_cache", "block_table")


def closed_blocks(length: int, block: int) -> int:
    """Blocks that the tokens of one sequence see in all, one at t seeing ``(t + 1) // block``."""
    full, rest = divmod(length, block)
    return block * full * (full - 1) // 2 + full * (rest + 1)


def candidate_blocks(length: int, block: int) -> int:
    """Blocks that the tokens of one sequence choose among, one at t among ``t // block + 1``."""
    full, rest = divmod(length, block)
    return block * full * (full + 1) // 2 + rest * (full + 1)


def nsa_compressed(record: SignatureCall) -> tuple[int, int]:
    """Work of NSACompressedVarlenFwdOp.

    Flops: per closed block and query head 2 · D for the score, 2 · D_v for the value, and the
    softmax; a division per result, a logarithm and a sum per row of lse. Bytes: compressed keys and
    values of blocks that get closed; and the other tensors.
    """
    i, block = record.indices, record.parameters["block_size"]
    sequences = lengths(record.metadata_values("cu_seqlens"))
    pairs = sum(closed_blocks(length, block) for length in sequences)
    flops = i["H"] * pairs * (2 * i["D"] + 2 * i["D_v"] + SOFTMAX)
    flops += i["L"] * i["H"] * (i["D_v"] + 2)
    rows = sum(length // block for length in sequences) * i["H_kv"]
    moved = rows * (i["D"] + i["D_v"]) * size(record, "k_cmp")
    return flops, moved + whole(record, "k_cmp", "v_cmp")


def nsa_topk(record: SignatureCall) -> tuple[int, int]:
    """Work of NSATopKVarlenFwdOp.

    Flops: per closed block and query head 2 · D for the score and six more: compare, subtract, exp,
    add to the denominator, divide by it, add to the group; a product per element of q; per
    candidate and key head a comparison. Bytes: compressed keys of blocks that get closed; and the
    other tensors.
    """
    i, block = record.indices, record.parameters["block_size"]
    sequences = lengths(record.metadata_values("cu_seqlens"))
    pairs = sum(closed_blocks(length, block) for length in sequences)
    flops = i["H"] * pairs * (2 * i["D"] + 6) + i["L"] * i["H"] * i["D"]
    flops += i["H_kv"] * sum(candidate_blocks(length, block) for length in sequences)
    rows = sum(length // block for length in sequences) * i["H_kv"]
    return flops, rows * i["D"] * size(record, "k_cmp") + whole(record, "k_cmp")


def nsa_selected(record: SignatureCall) -> tuple[int, int]:
    """Work of NSAVarlenFwdOp.

    Flops: per token of a selected block that a token sees, and per query head, 4 · D for score and
    value, and the softmax; a division per result. Bytes: each row of k and v that a token looks at;
    and the other tensors.
    """
    i, block = record.indices, record.parameters["block_size"]
    causal = record.parameters["is_causal"]
    selected = record.metadata_values("block_indices")
    counts = record.metadata_values("block_counts")
    live = rows = token = 0
    for length in lengths(record.metadata_values("cu_seqlens")):
        # of each head's blocks how many tokens are looked at; they are its first ones
        read: dict[tuple[int, int], int] = {}
        for position in range(length):
            limit = position + 1 if causal else length
            for h, count in enumerate(counts[token]):
                for number in selected[token][h][:count]:
                    seen = min(limit - number * block, block)
                    if number >= 0 and seen > 0:
                        live += seen
                        read[h, number] = max(read.get((h, number), 0), seen)
            token += 1
        rows += sum(read.values())
    flops = i["H"] // i["H_kv"] * live * (4 * i["D"] + SOFTMAX) + i["L"] * i["H"] * i["D"]
    return flops, 2 * rows * i["D"] * size(record, "k") + whole(record, "k", "v")


def indexer(record: SignatureCall) -> tuple[int, int]:
    """Work of FP8LightningIndexerFwdOp.

    Flops: per key in a window and head 2 · D for the product, one for relu, two for the weighted
    sum; one per logit for the key's scale. Keys that come without scales take three per element
    (magnitude, comparison, division) and two per row (bound, division), and an element of q, which
    is cast as it is, two for its bounds unless it is float8 already. Bytes: keys, and their
    scales, that lie in a window; all logits with ``clean_logits``, else those in a window; and the
    other tensors.
    """
    i, scaled = record.indices, record.present("index_k_scale")
    spans = _windows(record.metadata_values("starts"), record.metadata_values("ends"))
    pairs = i["B"] * sum(end - start for start, end in spans)
    rows = i["B"] * i["G"] * covered(spans)
    flops = pairs * (i["H"] * (2 * i["D"] + 3) + i["G"])
    if not scaled:
        flops += rows * (3 * i["D"] + 2)
        element = size(record, "index_q")
        flops += 2 * (record.bytes("index_q") // element) if element > 1 else 0
    moved = rows * i["D"] * size(record, "index_k")
    moved += rows * size(record, "index_k_scale") if scaled else 0
    if not record.parameters["clean_logits"]:
        moved += pairs * i["G"] * size(record, "logits")
        return flops, moved + whole(record, "index_k", "index_k_scale", "logits")
    return flops, moved + whole(record, "index_k", "index_k_scale")


def topk_select(record: SignatureCall) -> tuple[int, int]:
    """Work of TopKSelectFwdOp.

    Flops: a comparison per logit in a window. Bytes: these logits; and the other tensors.
    """
    starts, ends = record.metadata_values("starts"), record.metadata_values("ends")
    windows = (_windows(*rows) for rows in zip(starts, ends, strict=True))
    logits = record.indices["G"] * sum(end - start for spans in windows for start, end in spans)
    return logits, logits * size(record, "logits") + whole(record, "logits")


def _windows(starts: Iterable[int], ends: Iterable[int]) -> list[tuple[int, int]]:
    """The windows that are not empty."""
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]
