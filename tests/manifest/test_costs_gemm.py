"""What matrix products cost, counted by PyTorch while it multiplies, and what scales add."""

from __future__ import annotations

import pytest
import torch
from costs import differing, ops_of
from operations import blank, operations

from tileops_core.spec.catalogue import load_spec

OPS = ops_of("gemm")
each = pytest.mark.parametrize("op", OPS)


def product(a, b, trans_a=False, trans_b=True):
    return (a.mT if trans_a else a) @ (b.mT if trans_b else b)


def per_group(of_groups, size):
    return of_groups[:, :, None].expand(-1, -1, size).flatten(1)


def biased(d, bias):
    return d if bias is None else d + bias


def grouped(sizes, a, b, trans_a, trans_b):
    """A product for each group, of its rows and its weight or of two groups of rows."""
    if not trans_a:
        return [product(x, w, False, trans_b) for x, w in zip(a.split(sizes), b, strict=True)]
    others = (b.mT if trans_b else b).split(sizes)
    return [product(x, y, True, False) for x, y in zip(a.split(sizes), others, strict=True)]


def by_block(a, b, a_scale, b_scale, bias):
    """Codes are multiplied; blocks of the contraction are scaled before they are added up."""
    a, b = a.float(), b.float()
    if a_scale.numel() == b_scale.numel() == 1:
        return biased(product(a, b) * (a_scale * b_scale), bias)
    blocks = zip(
        a.split(128, 1), b.split(128, 1), a_scale.unbind(1), b_scale.unbind(1), strict=True
    )
    height = 1 if len(b_scale) == len(b) else 128
    parts = [
        product(x, w) * per_group(of_x[:, None] * of_w, height)[:, : len(w)]
        for x, w, of_x, of_w in blocks
    ]
    return biased(torch.stack(parts).sum(0), bias)


def by_row(a, b, a_scale, b_scale, bias):
    return biased(product(a.float(), b.float()) * (a_scale * b_scale), bias)


def codes(packed, columns):
    """Where a code lies in its byte is not counted."""
    return torch.empty(len(packed), columns)


def wide_weight(activation, packed, scale, zero, group_size):
    q = codes(packed, activation.shape[1])
    return product(
        activation.float(), (q - per_group(zero, group_size)) * per_group(scale, group_size).float()
    )


def narrow_weight(activation, packed, group_scale, channel_scale, scale, group_size):
    weight = codes(packed, activation.shape[1]) * per_group(group_scale.float(), group_size)
    return product(activation.float(), weight) * scale[:, None] * channel_scale


# Tensors in the entry's order, parameters by name.
FORMULAS = {
    "GEMMFwdOp": product,
    "BMMFwdOp": torch.bmm,
    "GroupedGEMMFwdOp": lambda a, b, sizes, _, **named: grouped(sizes, a, b, **named),
    "GEMMFP8FwdOp": lambda *tensors, out_dtype: by_block(*tensors),
    "BMMFP8FwdOp": lambda a, b, a_scale, b_scale, out_dtype, trans_b: (
        product(a.float(), b.float(), trans_b=trans_b) * (a_scale * b_scale)
    ),
    "GEMMINT8W8A8FwdOp": lambda *tensors, out_dtype: by_row(*tensors),
    "GEMMW4A16FwdOp": wide_weight,
    "GEMMW4A8FwdOp": narrow_weight,
}


def inputs_of(op):
    return [item.name for item in load_spec(op).inputs]


@each
def test_flops_are_the_operations_of_the_formula(op):
    def count(row):
        tensors = blank(row.record, *inputs_of(op))
        if row.record.present("batch_sizes"):
            tensors[2] = row.values("batch_sizes")
        return operations(FORMULAS[op], *tensors, **row.record.parameters)

    assert differing(op, count, "flops") == {}


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    def moved(row):
        total = row.size(*row.record.tensors)
        if op != "GroupedGEMMFwdOp" or row["trans_a"]:
            return total
        # Weights of groups that have no row stay where they are.
        used = [weight for weight, size in enumerate(row.values("batch_sizes")) if size]
        return total - row.size("b") + row.size("b") * len(used) // row.shape("b")[0]

    assert differing(op, moved, "bytes") == {}


@pytest.mark.parametrize("tall", [1, 128])
def test_scaled_sums_of_blocks_are_the_product_of_scaled_operands(tall):
    a, b, bias = (torch.randn(*shape) for shape in ((3, 300), (130, 300), (130,)))
    of_a, of_b = torch.rand(3, 3), torch.rand(-(-130 // tall), 3)
    columns = [k // 128 for k in range(300)]
    wide = b * of_b[[n // tall for n in range(130)]][:, columns]
    due = (a * of_a[:, columns]) @ wide.T + bias
    torch.testing.assert_close(by_block(a, b, of_a, of_b, bias), due, rtol=1e-4, atol=1e-4)
