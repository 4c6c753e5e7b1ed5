"""What quantization costs, counted while the formula of each op is computed."""

from __future__ import annotations

import pytest
import torch
from costs import differing, ops_of, rows_of
from operations import blank, operations

from tileops_core.spec.catalogue import load_spec

OPS = ops_of("quantization")
each = pytest.mark.parametrize("op", OPS)


def fp8(x, scale):
    return (x / scale).clamp_min(-448).clamp_max(448).to(torch.float8_e4m3fn)


def int8(x, scale):
    return torch.round(x / scale).clamp_min(-127).clamp_max(127).to(torch.int8)


def most(x, axes):
    return x.abs().amax(axes, keepdim=True)


def scale_of(amax, limit):
    return torch.where(amax == 0, 1.0, amax / limit)


def grouped(x):
    scale = (most(x, -1).clamp_min(1e-4)) / 448
    return fp8(x, scale), scale[..., 0]


def tiled(w):
    """Whole tiles together, and those at each edge."""
    rows = [[tiles_of(part) for part in cut(rows, 1)] for rows in cut(w, 0)]
    return tuple(
        torch.cat([torch.cat([row[i] for row in part], 1) for part in rows]) for i in (0, 1)
    )


def cut(w, axis):
    """Up to the last multiple of 128, and the rest."""
    whole = w.shape[axis] // 128 * 128
    return [part for part in w.tensor_split([whole], axis) if part.shape[axis]]


def tiles_of(w):
    height, width = (min(128, length) for length in w.shape)
    tiles = w.unflatten(1, (-1, width)).unflatten(0, (-1, height))
    scale = scale_of(most(tiles, (1, 3)), 448)
    return fp8(tiles, scale).reshape(w.shape), scale[:, 0, :, 0]


def by_row(x, axes=1):
    scale = scale_of(most(x, axes), 127)
    return int8(x, scale), scale.flatten()


def by_block(x):
    parts = [by_row(part) for part in x.split(128, 1)]
    return torch.cat([q for q, _ in parts], 1), torch.stack([scale for _, scale in parts], 1)


def int4(w, group_size):
    groups = w.float().reshape(-1, group_size)
    low, high = groups.amin(1, keepdim=True), groups.amax(1, keepdim=True)
    width = high - low
    mult = torch.where(width == 0, 1.0, torch.scalar_tensor(16.0) / width)
    middle = (high + low) * 0.5
    codes = torch.round((groups - middle) * mult).clamp_min(-8).clamp_max(7)
    return codes.reshape(w.shape), torch.cat([torch.reciprocal(mult), middle], 1)


def by_blocks(q, scale, out_dtype):
    parts = q.split(128, 1)
    wide = [part.float() * scale[:, i : i + 1] for i, part in enumerate(parts)]
    return torch.cat(wide, 1).to(out_dtype)


# Tensors in the entry's order, parameters by name.
FORMULAS = {
    "FP8QuantPerTokenGroupFwdOp": grouped,
    "FP8QuantPerBlockFwdOp": tiled,
    "INT8QuantPerTensorFwdOp": lambda x: by_row(x, (0, 1)),
    "INT8QuantPerChannelFwdOp": by_row,
    "INT8QuantPerTokenGroupFwdOp": by_block,
    "INT4QuantPerGroupFwdOp": int4,
    "SmoothQuantFwdOp": lambda x, smooth: by_row(x / smooth),
    "INT8DequantPerTensorFwdOp": lambda q, scale, out_dtype: (q.float() * scale).to(out_dtype),
    "INT8DequantPerChannelFwdOp": lambda q, scale, out_dtype: (q.float() * scale[:, None]).to(
        out_dtype
    ),
    "INT8DequantPerBlockFwdOp": by_blocks,
}


def inputs_of(op):
    return [item.name for item in load_spec(op).inputs]


@each
def test_flops_are_the_operations_of_the_formula(op):
    def count(row):
        tensors = blank(row.record, *inputs_of(op))
        return operations(FORMULAS[op], *tensors, **row.record.parameters)

    assert differing(op, count, "flops") == {}


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    assert differing(op, lambda row: row.size(*row.record.tensors), "bytes") == {}


def spread(op, scale, like):
    """The scale of each number."""
    if op in ("INT8QuantPerTokenGroupFwdOp", "INT8DequantPerBlockFwdOp"):
        return scale.repeat_interleave(128, 1)[:, : like.shape[1]]
    if op == "FP8QuantPerBlockFwdOp":
        rows, columns = like.shape
        return scale.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
    return scale.reshape(*scale.shape, *[1] * (like.ndim - scale.ndim))


@pytest.mark.parametrize("op", [op for op in OPS if "Quant" in op and "INT4" not in op])
def test_codes_times_their_scale_are_near_the_numbers(op):
    for row in rows_of(op):
        if row.numel(*row.record.tensors) > 100_000:
            continue
        x, *rest = (torch.randn(row.shape(name)) for name in inputs_of(op))
        rest = [smooth.abs() + 0.5 for smooth in rest]
        q, scale = FORMULAS[op](x, *rest)
        assert (q.shape, scale.shape) == (row.shape("q"), row.shape("scale"))
        x = x / rest[0] if rest else x
        scale = spread(op, scale, x)
        # Half a step; of eight bits with a fraction of three, that of the greatest number.
        half = scale / 2 if q.dtype == torch.int8 else x.abs() / 16 + scale / 2**10
        assert ((q.float() * scale - x).abs() <= half * (1 + 1e-5)).all()


def test_four_bits_are_near_the_numbers():
    for row in rows_of("INT4QuantPerGroupFwdOp"):
        if row.numel(*row.record.tensors) > 100_000:
            continue
        w = torch.randn(row.shape("w"))
        codes, params = int4(w, row["group_size"])
        assert params.shape == row.shape("params")
        step, middle = params.repeat_interleave(row["group_size"], 0).reshape(*w.shape, 2).unbind(2)
        # The greatest would be 8, and is 7.
        error = (codes * step + middle - w).abs()
        assert (error <= step * torch.where(codes == 7, 1, 0.5) * (1 + 1e-4)).all()


@pytest.mark.parametrize("op", [op for op in OPS if "Dequant" in op])
def test_each_code_is_multiplied_with_its_scale(op):
    for row in rows_of(op):
        if row.numel(*row.record.tensors) > 100_000:
            continue
        q = torch.randint(-127, 128, row.shape("q"), dtype=torch.int8)
        scale = torch.rand(row.shape("scale"))
        expected = q.float() * spread(op, scale, q)
        assert torch.equal(FORMULAS[op](q, scale, row["out_dtype"]), expected.to(row["out_dtype"]))
