"""The conformance suite: whether a backend computes what the manifest says."""

from __future__ import annotations
