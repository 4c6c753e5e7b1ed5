"""What poolings cost, counted on windows that torch itself lays out."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from costs import differing, ops_of
from operations import blank, operations

OPS = ops_of("pool")
ADAPTIVE = [op for op in OPS if op.startswith("Adaptive")]
MEANS = [op for op in OPS if op.startswith("MeanPooling")]
WINDOWED = [op for op in OPS if op not in (*ADAPTIVE, *MEANS)]


def axis_of(value, axis):
    """A parameter's value for an axis."""
    if isinstance(value, (tuple, list)):
        return value[axis]
    return value


def held(row, axis, length):
    """How many pairs there are of a window and an element that it holds.

    Each element is pooled alone, the only one in its row that is not 0: the windows where it
    shows hold it.
    """
    alone = torch.eye(length)[:, None]
    named = {
        name: axis_of(row[name], axis)
        for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        if name in row.record.parameters
    }
    pool = F.avg_pool1d if "Avg" in row.record.op else F.max_pool1d
    result = pool(alone, **named)
    assert result.shape[-1] == row.shape("output")[2 + axis]
    return int((result > 0).sum())


def in_bins(row, axis, length):
    """The same of bins that cover an axis evenly."""
    shown = F.adaptive_avg_pool1d(torch.eye(length)[:, None], row.shape("output")[axis - 2])
    return int((shown > 0).sum())


def counted(row, pairs, axes):
    given = row.shape("input")
    elements = math.prod(given[: len(given) - axes])
    for axis, length in enumerate(given[len(given) - axes :]):
        elements *= pairs(row, axis, length)
    return elements + (row.numel("output") if "Avg" in row.record.op else 0)


@pytest.mark.parametrize("op", WINDOWED)
def test_flops_of_windows_are_a_step_per_element_and_a_division_per_mean(op):
    def count(row):
        return counted(row, held, len(row.shape("input")) - 2)

    assert differing(op, count, "flops") == {}


@pytest.mark.parametrize("op", ADAPTIVE)
def test_flops_of_bins_are_a_step_per_element_and_a_division_per_mean(op):
    assert differing(op, lambda row: counted(row, in_bins, 2), "flops") == {}


@pytest.mark.parametrize("op", MEANS)
def test_flops_of_chunks_are_the_operations_of_their_means(op):
    def formula(x, starts, chunk_size):
        for start, stop in pairwise(starts):
            for part in x[:, start:stop].split(chunk_size, 1):
                part.sum(1) / part.shape[1]

    def count(row):
        length = row.shape("x")[1]
        starts = row.values("cu_seqlens") if row.record.present("cu_seqlens") else [0, length]
        return operations(formula, *blank(row.record, "x"), starts, row["chunk_size"])

    assert differing(op, count, "flops") == {}


@pytest.mark.parametrize("op", OPS)
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    given = ("x", "cu_seqlens", "chunk_indices") if op in MEANS else ("input",)
    results = ("output", "indices") if "Indices" in op else ("output",)
    assert differing(op, lambda row: row.size(*given, *results), "bytes") == {}
