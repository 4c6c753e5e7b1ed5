"""What a record cannot tell."""

from __future__ import annotations

from tileops_core.errors import TileOpsError


class NoValuesError(TileOpsError):
    """A tensor that describes others was passed, and nobody can read what it holds.

    It has no data (meta or fake), the record was made without it, or a CUDA graph is captured. A
    cost that depends on the values is then unknown, which is no fault of the entry.
    """
