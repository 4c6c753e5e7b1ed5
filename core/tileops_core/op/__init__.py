"""The base class of every op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.lazily import lazily

if TYPE_CHECKING:
    from tileops_core.op.base import Op
    from tileops_core.record.signature_call import SignatureCall

__all__ = ["Op", "SignatureCall"]

_HOMES = {
    "Op": "op.base",
    "SignatureCall": "record.signature_call",
}

if not TYPE_CHECKING:  # or a checker would take every name for one that is there
    __getattr__, __dir__ = lazily(__name__, _HOMES)
