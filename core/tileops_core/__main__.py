"""``python -m tileops_core`` is the ``tileops`` command."""

from __future__ import annotations

from tileops_core.cli import main

main()
