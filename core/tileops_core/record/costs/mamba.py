"""Work of state-space models where sequences decide about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.record.costs.requests import lengths
from tileops_core.record.costs.tensors import whole

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def causal_conv(record: SignatureCall) -> tuple[int, int]:
    """Work of CausalConv1dFwdOp.

    Flops: per token and channel W products and their sums, a bias, a silu of four. Bytes: the row
    of conv_state of each sequence that has tokens, read too where sequences may go on; and the
    other tensors.
    """
    i = record.indices
    per_element = 2 * i["W"] - 1 + int(record.present("bias"))
    per_element += 4 if record.parameters["activation"] is not None else 0
    rows = sum(length > 0 for length in lengths(record.metadata_values("cu_seqlens")))
    rows *= 2 if record.present("has_initial_state") else 1
    moved = rows * (record.bytes("conv_state") // i["N"]) + whole(record, "conv_state")
    return i["L"] * i["C"] * per_element, moved


def chunk_state(record: SignatureCall) -> tuple[int, int]:
    """Work of SSDChunkStateFwdOp.

    Flops: per position that counts and head the product x Bᵀ, a difference, exp and dt, and these
    times the narrower factor; a comparison per index of a sequence. Bytes: of x, B, dt and
    dA_cumsum the positions that count; and the other tensors.
    """
    i = record.indices
    width, numbers, length = i["D_head"], i["D_state"], i["Q"]
    positions = i["Bsz"] * i["NC"] * length
    live, compared = positions, 0
    if record.present("seq_idx"):
        live, compared = 0, positions
        for indices in record.metadata_values("seq_idx"):
            for start in range(0, len(indices), length):
                chunk = indices[start : start + length]
                live += chunk.count(chunk[-1]) if chunk[-1] >= 0 else 0
    flops = live * i["H"] * (2 * width * numbers + min(width, numbers) + 3) + compared
    by_position = ("x", "B", "dt", "dA_cumsum")
    moved = sum(record.bytes(name) // positions * live for name in by_position)
    return flops, moved + whole(record, *by_position)
