"""Sixteen threads call one instance with two hundred shapes each, in an order of their own."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from call_support import faulty, good, in_threads, op_class, served, small

THREADS = 16
SHAPES = [(rows, columns) for rows in range(1, 21) for columns in range(1, 11)]


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Counted:
    """A builder that counts what it built, and fails as often per shape as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.built: Counter[tuple[int, ...]] = Counter()
        self.failed: Counter[tuple[int, ...]] = Counter()
        self.failures = failures
        self.lock = threading.Lock()

    def __call__(self, x: Any, **params: Any) -> Any:
        with self.lock:
            if self.failed[x.shape] < self.failures:
                self.failed[x.shape] += 1
                raise OSError("no compiler yet")
            self.built[x.shape] += 1
        # Bound to its shape: a kernel that serves another one gives a wrong result.
        shape = torch.Size(x.shape)
        return lambda tensor: good(tensor) if tensor.shape == shape else torch.zeros(shape)


def travel(op: Any, seed: int, patience: int = 0) -> None:
    """Call an op with every shape, check each result and each record at once."""
    order = random.Random(seed).sample(SHAPES, len(SHAPES))
    for i, shape in enumerate(order):
        x = small(*shape) + seed
        for left in range(patience, -1, -1):
            try:
                result = op(x)
                break
            except OSError:
                assert left, "more failures than builds that fail"
        assert torch.equal(result, x * 2)
        record = op.last_call
        assert record.tensors["x"] == (shape, torch.float32)
        assert record.indices["M"] == shape[0]
        if i % 10 == 0:
            assert op.eval_roofline() == (shape[0] * shape[1], 2 * 4 * shape[0] * shape[1])


def by_all(op: Any, **more: Any) -> None:
    """Send all threads on their way; raises the first error of any."""
    ways = [lambda seed=seed: travel(op, seed, **more) for seed in range(THREADS)]
    for outcome in in_threads(*ways):
        if outcome.error is not None:
            raise outcome.error


def test_each_shape_is_built_once_and_nobody_gets_anothers_result_or_record():
    """PIPE-08, PIPE-16"""
    build = Counted()
    with served(build=build) as op:
        by_all(op)
    assert build.built == dict.fromkeys(SHAPES, 1)


def test_a_build_that_failed_is_repeated_until_it_succeeds_and_then_never():
    build = Counted(failures=1)
    with served(build=build) as op:
        by_all(op, patience=1)
    assert build.failed == dict.fromkeys(SHAPES, 1)
    assert build.built == dict.fromkeys(SHAPES, 1)


def test_an_in_tree_entry_of_each_identity_is_built_once():
    built: Counter[tuple[int, ...]] = Counter()
    lock = threading.Lock()

    def entry_for(cls: Any, call: Any) -> Any:
        def make() -> Any:
            with lock:
                built[call.shape] += 1
            return cls()

        return call.shape, make

    interfaces, kernel_type = faulty.in_tree(entry_for=classmethod(entry_for))
    op = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )()
    by_all(op)
    assert built == dict.fromkeys(SHAPES, 1)
