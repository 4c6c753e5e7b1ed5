"""What a completed call leaves behind."""

from __future__ import annotations

from tileops_core.record.signature_call import Served, SignatureCall

__all__ = ["Served", "SignatureCall"]
