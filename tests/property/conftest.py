"""What the property tests share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Torch warns of the odd tensors that these tests make, and an op of an implied axis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
