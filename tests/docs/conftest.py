"""The pages of the docs that are written by hand, or at least kept in the repository."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "extension"))
