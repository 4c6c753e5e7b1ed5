"""What the tests of the TileLang backend share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tileops_core.conformance import compare
from tileops_tilelang.cpu import toolchain


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def compiler() -> None:
    """Skips where programs cannot be built."""
    missing = toolchain.missing()
    if missing is not None:
        pytest.skip(missing)


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


@pytest.fixture
def two_threads() -> Iterator[None]:
    """torch, and so a kernel, may use two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of this test alone, so that everything is built anew."""
    directory = tmp_path / "cache"
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(directory))
    return directory


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own; what ends in another way than well fails the test."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python(code, NAME="value")`` in a process of its own, which has to end well."""
    return run_python
