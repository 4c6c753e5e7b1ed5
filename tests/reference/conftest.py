"""What the tests of the reference functions share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tileops_core.conformance import compare


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def check_close() -> Callable[..., None]:
    """Compare with a float64 result under the one table of tolerances."""
    return compare.check_close


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """New memory holds NaN, or the largest integer, so that an element nobody wrote shows."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.empty(2).isnan().all()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
