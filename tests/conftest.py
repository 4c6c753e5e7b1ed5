"""What all tests share."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest

if "PYTEST_XDIST_WORKER" in os.environ and importlib.util.find_spec("torch"):
    import torch

    # Each worker has a core to itself; a thread pool in every one makes the suite three times
    # slower. Parts that need no torch are also tested where there is none.
    torch.set_num_threads(1)

_CACHE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the run one directory for compiled kernels; workers and child processes inherit it.

    Compiling is most of what kernels' tests cost, so all processes of a run share what is built.
    One that is named beforehand stays, and serves the next run too.
    """
    if "TILEOPS_CACHE_DIR" not in os.environ:
        config.stash[_CACHE] = tempfile.mkdtemp(prefix="tileops-tests-")
        os.environ["TILEOPS_CACHE_DIR"] = config.stash[_CACHE]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the directory, where this process has made it."""
    made = config.stash.get(_CACHE, None)
    if made is not None:
        os.environ.pop("TILEOPS_CACHE_DIR", None)
        shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(autouse=True)
def _no_hosts_of_other_tests() -> Iterator[None]:
    """Forget who ran the calls of graphs: equal ops have equal keys, in other tests too."""
    yield
    hosts = sys.modules.get("tileops_core.op.hosts")
    if hosts is not None:
        hosts.HOSTS.clear()
        hosts._WITHOUT_INSTANCE.clear()
