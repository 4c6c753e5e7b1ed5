"""What convolutions cost, counted by PyTorch while it convolves."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest
from costs import differing, ops_of
from operations import blank, operations

from tileops_core.spec.catalogue import load_spec

OPS = ops_of("convolution")
each = pytest.mark.parametrize("op", OPS)


@each
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_flops_are_those_of_the_convolution_and_its_bias(op):
    convolve = resolve_name(str(load_spec(op).ref_api))

    def formula(x, weight, bias, **named):
        result = convolve(x, weight, **named)
        return result if bias is None else result + bias.reshape(-1, *[1] * (x.ndim - 2))

    def count(row):
        tensors = blank(row.record, "input", "weight", "bias")
        return operations(formula, *tensors, **row.record.parameters)

    assert differing(op, count, "flops") == {}


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    def moved(row):
        return row.size("input", "weight", "bias", "output")

    assert differing(op, moved, "bytes") == {}
