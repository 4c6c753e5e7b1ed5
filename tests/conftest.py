"""What all tests share."""

from __future__ import annotations

import importlib.util
import os

if "PYTEST_XDIST_WORKER" in os.environ and importlib.util.find_spec("torch"):
    import torch

    # Each worker has a core to itself; a thread pool in every one makes the suite three times
    # slower. Parts that need no torch are also tested where there is none.
    torch.set_num_threads(1)
