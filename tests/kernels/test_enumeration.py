"""The kernels inside of an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import attrs

from tileops_core.kernels import Kernel
from tileops_core.kernels.enumeration import kernels_in


@attrs.define
class Pair:
    first: Any
    second: Any


@dataclass
class Split:
    parts: list[Any]
    join: Any


def test_an_entry_may_be_a_kernel():
    kernel = Kernel()
    assert list(kernels_in(kernel)) == [kernel]


def test_an_entry_may_hold_kernels_at_declared_places():
    a, b, c, d = (Kernel() for _ in range(4))
    assert list(kernels_in([a, (b, c)])) == [a, b, c]
    assert list(kernels_in(Pair(a, 3))) == [a]
    assert list(kernels_in(Split([a, b], Pair(c, d)))) == [a, b, c, d]


def test_a_kernel_may_hold_others():
    @attrs.define(slots=False, eq=False)
    class Outer(Kernel):
        inner: Kernel

    outer = Outer(Kernel())
    assert list(kernels_in(outer)) == [outer, outer.inner]


def test_each_kernel_is_told_once():
    kernel = Kernel()
    loop: list[Any] = [kernel, kernel]
    loop.append(loop)
    assert list(kernels_in(loop)) == [kernel]


def test_other_places_are_not_looked_at():
    class Hidden:
        def __init__(self):
            self.kernel = Kernel()

    assert list(kernels_in([Hidden(), {"a": Kernel()}, Kernel, "text", None])) == []
