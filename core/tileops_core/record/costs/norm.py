"""Work of norms that leave a part of their input alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def fused_qk_norm_rope(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of RMS norms and turns of the heads of q and k.

    Per feature: square, add, scale, weight; per head: division, sum and root; per turned feature
    three (four products and two sums a pair). Of ``qkv`` the part of v does not move; of the table
    of cosines and sines, the rows that some position names are read, each once.
    """
    found = record.indices
    queries, keys = record.parameters["num_heads"], record.parameters["num_kv_heads"]
    heads = found["L"] * (queries + keys)
    flops = heads * (4 * found["D"] + 3 + 3 * found["R"])
    turned = record.bytes("qkv") * (queries + keys) // (queries + 2 * keys)
    rows = len(set(record.metadata_values("positions")))
    table = record.bytes("cos_sin_cache") * rows // found["P"] if rows else 0
    given = sum(record.bytes(name) for name in ("q_weight", "k_weight", "positions"))
    return flops, 2 * turned + table + given
