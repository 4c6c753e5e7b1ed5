"""What tests of compiled code share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

BACKENDS = ["eager", "aot_eager", "inductor"]
"""Dynamo alone; with functionalization and gradients; all of it."""

each_backend = pytest.mark.parametrize("backend", BACKENDS)


@contextmanager
def fresh() -> Iterator[None]:
    """Nothing is compiled before, and nothing stays."""
    _forget()
    try:
        yield
    finally:
        _forget()


def _forget() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def graphs() -> int:
    """How many graphs dynamo has made since it was fresh."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def breaks() -> dict[str, int]:
    """Where it broke a graph, and how often."""
    return dict(torch._dynamo.utils.counters["graph_break"])


def whole(f: Callable[..., Any], backend: Any = "eager", **options: Any) -> Callable[..., Any]:
    """The function as one graph."""
    return torch.compile(f, fullgraph=True, backend=backend, **options)


@pytest.fixture
def shared_graphs() -> None:
    """For tests of graphs that equal ops share: older versions of dynamo tie a graph to the very
    object that is called, whatever it is.
    """

    class Anything:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with fresh():
        compiled = whole(lambda f, x: f(x))
        for _ in range(2):
            compiled(Anything(), torch.ones(2))
        if graphs() > 1:
            pytest.skip("this torch's dynamo guards the identity of what is called")


class Seen:
    """A backend that runs a graph as it is and keeps it.

    Attributes:
        nodes: what the graphs call, in order.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.nodes += [n.target for n in graph.graph.nodes if n.op == "call_function"]
        return graph
