"""Every TileOPs op in plain PyTorch: the general implementation, and the oracle."""

from __future__ import annotations
