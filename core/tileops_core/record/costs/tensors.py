"""Sizes of a call's tensors, as cost functions count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def size(record: SignatureCall, name: str) -> int:
    """Bytes of one element of a tensor that was part of the call."""
    return record.tensors[name][1].itemsize


def whole(record: SignatureCall, *partly: str) -> int:
    """Bytes of every tensor that is moved once and whole: all but those that are named."""
    return sum(record.bytes(name) for name in record.tensors if name not in partly)
