"""What a completed call leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.lazily import lazily

if TYPE_CHECKING:
    from tileops_core.record.signature_call import Served, SignatureCall

__all__ = ["Served", "SignatureCall"]

_HOMES = {
    "Served": "record.signature_call",
    "SignatureCall": "record.signature_call",
}

if not TYPE_CHECKING:  # or a checker would take every name for one that is there
    __getattr__, __dir__ = lazily(__name__, _HOMES)
