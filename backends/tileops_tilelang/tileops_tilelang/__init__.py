"""The TileLang backend of TileOPs; see :mod:`tileops_tilelang.plugin` for what it registers."""

from __future__ import annotations
