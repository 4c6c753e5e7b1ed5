"""What the tests of the conformance suite share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tileops_core.backend import (
    BuilderRegistration,
    KernelTypeRegistration,
    TargetRegistration,
    registered,
)
from tileops_core.backend.registry import REGISTRY
from tileops_core.conformance.outcomes import Result
from tileops_core.conformance.suite import Request, Suite, run

TARGET = "wrong"


@pytest.fixture
def target() -> Callable[..., Any]:
    """Register a target for the length of a ``with``: its builders by op, or kernel types."""
    REGISTRY.ensure_loaded()

    @contextmanager
    def serving(**builders: Any) -> Iterator[str]:
        types = {op: built for op, built in builders.items() if isinstance(built, type)}
        if types:
            its_own = [KernelTypeRegistration(op, TARGET, one) for op, one in types.items()]
            with registered(*its_own, backend=TARGET):
                yield TARGET
            return
        registrations = [BuilderRegistration(op, TARGET, b) for op, b in builders.items()]
        with registered(TargetRegistration(TARGET, lambda device: False), *registrations):
            yield TARGET

    return serving


@pytest.fixture
def results() -> Callable[..., list[Result]]:
    """Run the suite on a target; options are those of a request, and the columns to run."""

    def of(target: str, *ops: str, columns: Any = None, **options: Any) -> list[Result]:
        checks = list(Suite(Request(target, ops=ops, **options)).checks())
        chosen = [c for c in checks if columns is None or c.column in columns]
        return run(chosen, lambda result: None, lambda result: result)

    return of
