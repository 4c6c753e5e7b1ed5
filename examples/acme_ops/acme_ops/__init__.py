"""Ops of Acme."""

from __future__ import annotations

from acme_ops.ops import SoftcapFwdOp

__all__ = ["SoftcapFwdOp"]
