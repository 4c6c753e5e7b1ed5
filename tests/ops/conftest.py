"""What the tests of the ops share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from tileops_core import ops
from tileops_core.backend import BuilderRegistration, TargetRegistration, registered
from tileops_core.backend.registry import REGISTRY
from tileops_core.backend.targets import default_target


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def _builder(op: str) -> Callable[..., Callable[..., object]]:
    """A target's builder that hands every call on to the reference's function."""

    def build_kernel(*inputs: object, **parameters: object) -> Callable[..., object]:
        return partial(REGISTRY.oracle(op), **parameters)

    return build_kernel


@pytest.fixture(scope="module", params=["in_tree", "loopback"])
def _registered_server(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Twice: as installed, and with a whole-op target for every op."""
    REGISTRY.ensure_loaded()
    if request.param == "in_tree":
        yield None
        return
    builders = [
        BuilderRegistration(op, "loopback", _builder(op)) for op in ops.__all__ if op[0].isupper()
    ]
    with registered(TargetRegistration("loopback", lambda device: False), *builders):
        yield "loopback"


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def on_each_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Once per kind of device there is; tensors that the test makes lie there."""
    if request.param == "cpu":
        yield request.param
        return
    with torch.device(request.param):
        yield request.param


@pytest.fixture
def server(_registered_server: str | None) -> Iterator[str | None]:
    """Who serves ops that name no target; None for the kernels installed in-tree."""
    with default_target(_registered_server):
        yield _registered_server
