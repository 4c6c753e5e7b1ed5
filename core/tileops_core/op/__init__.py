"""The base class of every op."""

from __future__ import annotations

from tileops_core.collector import rare_collection

with rare_collection():  # here too, for those who import a family's module by its name
    from tileops_core.op.base import Op
    from tileops_core.record.signature_call import SignatureCall

__all__ = ["Op", "SignatureCall"]
