"""Loads ``calls.py`` for the tests here."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

NAME = "property_calls"

if NAME not in sys.modules:
    _spec = importlib.util.spec_from_file_location(NAME, Path(__file__).with_name("calls.py"))
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[NAME] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Torch warns of the odd tensors that these tests make, and an op of an implied axis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
