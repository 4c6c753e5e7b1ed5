"""What the tests of the registry share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from graphs import fresh


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Each compiles cold."""
    with fresh():
        yield
