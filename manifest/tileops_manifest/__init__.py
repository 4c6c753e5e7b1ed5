"""The manifest of TileOPs: YAML files under ``spec/``, one entry per op, read by tileops-core."""

from __future__ import annotations
