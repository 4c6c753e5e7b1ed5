from __future__ import annotations

import sys
from pathlib import Path

# A script finds the module beside it because Python puts its folder on the path.
EXAMPLES = str(Path(__file__).resolve().parents[2] / "examples")
if EXAMPLES not in sys.path:
    sys.path.append(EXAMPLES)
