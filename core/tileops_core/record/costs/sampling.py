"""Work of sampling, where how many tokens are kept decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.record.costs.tensors import whole

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def top_k_mask(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a mask by rank.

    Per logit one comparison to find the k-th largest by selection and one with it; nothing in a
    row that keeps all it has.
    """
    length = record.tensors["logits"][0][1]
    cut = sum(k < length for k in record.metadata_values("top_k"))
    return 2 * cut * length, whole(record)


def top_k_top_p_mask(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a mask by rank and then by probability.

    The first as :func:`top_k_mask` has it; then per kept logit the seven of a mask by probability
    (compare for the maximum, subtract, exp, add, a comparison and a sum to find the threshold, a
    comparison with it), and per row top_p of the total.
    """
    flops, moved = top_k_mask(record)
    rows, length = record.tensors["logits"][0]
    kept = sum(min(k, length) for k in record.metadata_values("top_k"))
    return flops + 7 * kept + rows, moved
