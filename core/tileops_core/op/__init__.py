"""The base class of every op."""

from __future__ import annotations

from tileops_core.op.base import Op
from tileops_core.record.signature_call import SignatureCall

__all__ = ["Op", "SignatureCall"]
