"""Work of matrix products whose operands depend on values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def grouped(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a grouped product.

    ``2 M N K``, because the groups' sizes add up to M. A group without rows reads no ``b[g]``; the
    gradient of its weight is written nevertheless.
    """
    m, n, k, groups = (record.indices[name] for name in "MNKG")
    moved = sum(record.bytes(name) for name in record.tensors)
    if not record.parameters["trans_a"]:
        empty = sum(size == 0 for size in record.metadata_values("batch_sizes"))
        moved -= record.bytes("b") // groups * empty
    return 2 * m * n * k, moved
