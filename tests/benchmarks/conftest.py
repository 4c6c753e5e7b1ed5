from __future__ import annotations

import sys
from pathlib import Path

# The benchmarks are a package of the repository's root, which nothing installs.
ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
