"""What the tests of the ops share."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

_tolerances = runpy.run_path(str(Path(__file__).parents[1] / "tolerances.py"))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def check_close() -> Callable[..., None]:
    """Compare with a float64 result under the one table of tolerances."""
    return _tolerances["check_close"]
