"""One function per op: the op's mathematics in plain PyTorch.

Each takes the op's inputs by position (``None`` for an absent one) and the manifest's parameters
by keyword. It runs on any device and any floating dtype its mathematics allows, float64 included,
accumulates in at least float32, never writes an input unless a parameter says so, and returns
new tensors. The kernels of this distribution call these functions, and conformance
suites use them as oracles on float64 copies.
"""

from __future__ import annotations
