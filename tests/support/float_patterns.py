"""Stored values to convert, all or many, and how two results are compared."""

from __future__ import annotations

import torch
from torch import Tensor

MANY = 1 << 22


def every_stored(dtype: torch.dtype) -> Tensor:
    """All 65536 values of a 16-bit dtype."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


def many_float32(near: torch.dtype) -> Tensor:
    """Millions of random patterns, and for every two neighbors of a 16-bit dtype what lies at,
    just below and just above them and their midpoint.
    """
    generator = torch.Generator().manual_seed(0)
    random = torch.randint(-(2**31), 2**31, (MANY,), dtype=torch.int32, generator=generator)
    stored = every_stored(near).float()
    stored = stored[stored.isfinite()].sort().values
    middles = ((stored[1:].double() + stored[:-1].double()) / 2).float()
    most = torch.finfo(near).max
    edges = torch.tensor([most, most * (1 + 2.0**-12), 2.0 * most, 1e-45, 2.0**-126, torch.inf])
    exact = torch.cat((stored, middles, edges, -edges))
    around = torch.cat(
        [exact, *(exact.nextafter(torch.tensor(s)) for s in (-torch.inf, torch.inf))]
    )
    return torch.cat((around, random.view(torch.float32)))


def same(actual: Tensor, expected: Tensor) -> bool:
    """The same bits, but for a NaN's, of which torch's own functions keep different ones."""
    nan = expected.isnan()
    kind = torch.int16 if actual.dtype.itemsize == 2 else torch.int32
    return torch.equal(actual.isnan(), nan) and torch.equal(
        actual[~nan].view(kind), expected[~nan].view(kind)
    )
