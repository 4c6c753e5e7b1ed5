"""Work of sampling, where how many tokens are kept decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def top_k_top_p_mask(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a mask by rank and then by probability.

    Per logit one comparison to find the k-th largest by selection and one with it; per kept logit
    the seven of a mask by probability: compare for the maximum, subtract, exp, add, a comparison
    and a sum to find the threshold, a comparison with it.
    """
    rows, length = record.tensors["logits"][0]
    kept = sum(min(k, length) for k in record.metadata_values("top_k"))
    moved = sum(record.bytes(name) for name in record.tensors)
    return 2 * rows * length + 7 * kept, moved
