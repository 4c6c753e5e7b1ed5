"""What rotary embeddings cost, counted while pairs of features are turned."""

from __future__ import annotations

import pytest
import torch
from costs import differing, ops_of
from operations import operations

OPS = ops_of("rope")
each = pytest.mark.parametrize("op", OPS)


def turned(x, cos, sin, layout="neox"):
    """The first features in pairs by their angles; what is behind them is copied."""
    pairs = cos.shape[-1]
    first, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if layout == "neox":
        one, other = first[..., :pairs], first[..., pairs:]
    else:
        one, other = first[..., ::2], first[..., 1::2]
    both = one * cos - other * sin, other * cos + one * sin
    joined = torch.cat(both, -1) if layout == "neox" else torch.stack(both, -1).flatten(-2)
    return torch.cat([joined, rest], -1)


def formula(x, width, layout):
    """The table of cosines and sines belongs to the op: no call makes it."""
    heads = [1] if x.ndim > 2 else []
    table = torch.empty(x.shape[0 if x.ndim != 4 else 1], *heads, width // 2)
    return turned(x, table, table, layout)


@each
def test_flops_are_the_operations_of_the_formula(op):
    def count(row):
        x = torch.empty(row.shape("x"), device="meta")
        parameters = row.record.parameters
        width = parameters.get("rotary_dim") or x.shape[-1]
        return operations(formula, x, width, parameters.get("rope_layout", "neox"))

    assert differing(op, count, "flops") == {}


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    def moved(row):
        return 2 * row.size("x") + row.size("positions", "rescale_factors")

    assert differing(op, moved, "bytes") == {}


@pytest.mark.parametrize(("layout", "width"), [("neox", 8), ("interleaved", 8), ("neox", 4)])
def test_a_pair_is_turned_as_a_complex_number(layout, width):
    x, angles = torch.randn(3, 2, 8, dtype=torch.float64), torch.randn(3, 1, width // 2).double()
    result = turned(x, angles.cos(), angles.sin(), layout)
    one, other = (
        (x[..., : width // 2], x[..., width // 2 : width])
        if layout == "neox"
        else (x[..., :width:2], x[..., 1:width:2])
    )
    z = torch.complex(one, other) * torch.polar(torch.ones_like(angles), angles)
    due = torch.cat([z.real, z.imag], -1)
    if layout != "neox":
        due = torch.view_as_real(z).flatten(-2)
    torch.testing.assert_close(result, torch.cat([due, x[..., width:]], -1))
