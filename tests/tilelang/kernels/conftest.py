"""What the tests of the kernels share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _can_build_and_shows_what_is_not_written(compiler: None, poisoned_memory: None) -> None:
    """All of them."""
