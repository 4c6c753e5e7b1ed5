"""What norms cost, counted while the formula of each is computed."""

from __future__ import annotations

from math import prod

import pytest
import torch
import torch.nn.functional as F
from costs import differing, ops_of, rows_of
from operations import blank, operations

from tileops_core.spec.catalogue import load_spec

OPS = ops_of("norm")
each = pytest.mark.parametrize("op", OPS)


def mean(x, axes):
    return x.sum(axes, keepdim=True) / prod(x.shape[axis] for axis in axes)


def centered(x, axes):
    """Differences from the mean, the mean, and the mean of the squared differences."""
    middle = mean(x, axes)
    difference = x - middle
    return difference, middle, mean(difference * difference, axes)


def scaled(x, *factors):
    for factor in factors:
        x = x if factor is None else x * factor
    return x


def shifted(x, bias):
    return x if bias is None else x + bias


def trailing(shape):
    return tuple(range(-len(shape), 0))


def along(parameter, x):
    """A value per channel, beside the channels of ``x``."""
    return None if parameter is None else parameter.reshape(-1, *[1] * (x.ndim - 2))


def layer_norm(x, weight, bias, normalized_shape, eps):
    difference, _, variance = centered(x, trailing(normalized_shape))
    return shifted(scaled(difference, torch.rsqrt(variance + eps), weight), bias)


def rms_norm(x, weight, normalized_shape, eps):
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    return scaled(x, torch.rsqrt(mean(x * x, trailing(normalized_shape)) + eps), weight)


def fused_layer_norm(x, residual, weight, bias, eps):
    total = x + residual
    return layer_norm(total, weight, bias, weight.shape, eps), total


def fused_rms_norm(x, residual, weight, eps):
    total = x + residual
    return rms_norm(total, weight, weight.shape, eps), total


def quantized(x, residual, weight, quant_dtype, eps, scale_ub):
    y, total = fused_rms_norm(x, residual, weight, eps)
    most = y.abs().amax(-1, keepdim=True)
    most = most if scale_ub is None else most.clamp_max(scale_ub)
    whole = quant_dtype == torch.int8
    limit, least = (127, 1.2e-7) if whole else (448, 1 / (448 * 512))
    scale = (most / limit).clamp_min(least)
    q = (y / scale).clamp_min(-limit).clamp_max(limit)
    return (torch.round(q) if whole else q).to(quant_dtype), scale, total


def adaptive(x, scale, shift, eps):
    return layer_norm(x, scale, shift, x.shape[-1:], eps)


def by_statistics(x, middle, variance, weight, bias, eps):
    """Normalized with statistics that are known: one line of slope and height per channel."""
    slope = scaled(torch.rsqrt(along(variance, x) + eps), along(weight, x))
    if bias is None:
        return (x - along(middle, x)) * slope
    return x * slope + (along(bias, x) - along(middle, x) * slope)


def move(statistics, new, momentum, share):
    statistics.copy_(statistics * (1 - momentum) + new * share)


def batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps):
    if not training:
        return by_statistics(x, running_mean, running_var, weight, bias, eps), None, None
    axes = (0, *range(2, x.ndim))
    n = prod(x.shape[axis] for axis in axes)
    difference, middle, variance = centered(x, axes)
    inverse = torch.rsqrt(variance + eps)
    if running_mean is not None:
        move(running_mean, middle.flatten(), momentum, momentum)
        move(running_var, variance.flatten(), momentum, momentum * n / (n - 1))
    result = shifted(difference * scaled(inverse, along(weight, x)), along(bias, x))
    return result, middle.flatten(), inverse.flatten()


def batch_norm_backward(doutput, x, save_mean, save_invstd, weight):
    axes = (0, *range(2, x.ndim))
    n = prod(x.shape[axis] for axis in axes)
    difference = x - along(save_mean, x)
    dbias = doutput.sum(axes)
    dweight = (doutput * difference).sum(axes) * save_invstd
    slope = along(dweight * save_invstd / n, x)
    level = along(dbias / n, x)
    gradient = doutput - level - difference * slope
    return gradient * along(scaled(save_invstd, weight), x), dweight, dbias


def group_norm(x, weight, bias, num_groups, eps):
    b, c, *rest = x.shape
    grouped = x.reshape(b, num_groups, c // num_groups, *rest)
    difference, _, variance = centered(grouped, tuple(range(2, grouped.ndim)))
    if weight is not None:
        weight = weight.reshape(num_groups, -1, *[1] * len(rest))
    slope = scaled(torch.rsqrt(variance + eps), weight)
    return shifted((difference * slope).reshape(x.shape), along(bias, x))


def instance_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
    if not use_input_stats:
        return by_statistics(x, running_mean, running_var, weight, bias, eps)
    axes = tuple(range(2, x.ndim))
    n = prod(x.shape[2:])
    difference, middle, variance = centered(x, axes)
    if running_mean is not None:
        share = momentum / len(x)
        move(running_mean, middle.flatten(1).sum(0), momentum, share)
        move(running_var, variance.flatten(1).sum(0), momentum, share * n / (n - 1))
    slope = scaled(torch.rsqrt(variance + eps), along(weight, x))
    return shifted(difference * slope, along(bias, x))


def turned(x, cos, sin, layout):
    pairs = x.shape[-1] // 2
    if layout == "neox":
        one, other = x[..., :pairs], x[..., pairs:]
        return torch.cat([one * cos - other * sin, other * cos + one * sin], -1)
    one, other = x[..., ::2], x[..., 1::2]
    return torch.stack([one * cos - other * sin, other * cos + one * sin], -1).flatten(-2)


def qk_norm_rope(
    qkv, q_weight, k_weight, cache, positions, num_heads, num_kv_heads, eps, rope_layout
):
    width, turning = len(q_weight), cache.shape[1]
    heads = qkv.unflatten(1, (-1, width))
    cos, sin = cache[positions][:, None].split(turning // 2, -1)
    places = {"q": slice(num_heads), "k": slice(num_heads, num_heads + num_kv_heads)}
    for place, weight in zip(places.values(), (q_weight, k_weight), strict=True):
        normed = rms_norm(heads[:, place], weight, [width], eps)
        first = turned(normed[..., :turning], cos, sin, rope_layout)
        heads[:, place].copy_(torch.cat([first, normed[..., turning:]], -1))


# Tensors in the entry's order, parameters by name.
FORMULAS = {
    "LayerNormFwdOp": layer_norm,
    "RMSNormFwdOp": rms_norm,
    "FusedAddLayerNormFwdOp": fused_layer_norm,
    "FusedAddRMSNormFwdOp": fused_rms_norm,
    "FusedAddRMSNormPerTokenQuantFwdOp": quantized,
    "AdaLayerNormFwdOp": adaptive,
    "AdaLayerNormZeroFwdOp": lambda x, scale, shift, gate, eps: (
        gate * adaptive(x, scale, shift, eps)
    ),
    "BatchNormFwdOp": batch_norm,
    "BatchNormBwdOp": batch_norm_backward,
    "GroupNormFwdOp": group_norm,
    "InstanceNormFwdOp": instance_norm,
    "FusedQKNormRoPEFwdOp": qk_norm_rope,
}


def inputs_of(op):
    return [item.name for item in load_spec(op).inputs]


@each
def test_flops_are_the_operations_of_the_formula(op):
    def count(row):
        tensors = blank(row.record, *inputs_of(op))
        return operations(FORMULAS[op], *tensors, **row.record.parameters)

    assert differing(op, count, "flops") == {}


def traffic(row):
    """Bytes that the definition reads and writes."""
    op, size = row.record.op, row.size
    if op == "FusedQKNormRoPEFwdOp":
        # Of each token the heads of q and k, both ways; of the table what a position reaches.
        q, kv = row["num_heads"], row["num_kv_heads"]
        width = row.shape("q_weight")[0] * row.record.tensors["qkv"][1].itemsize
        row_of_table = size("cos_sin_cache") // row.shape("cos_sin_cache")[0]
        read = (1 + max(row.values("positions"))) * row_of_table
        return (
            2 * row.shape("qkv")[0] * (q + kv) * width
            + read
            + size("q_weight", "k_weight", "positions")
        )
    updated = {"BatchNormFwdOp": "training", "InstanceNormFwdOp": "use_input_stats"}
    twice = ["running_mean", "running_var"] if op in updated and row[updated[op]] else []
    return size(*row.record.tensors, *twice)


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    assert differing(op, traffic, "bytes") == {}


def batch_norm_of_torch(x, running_mean, running_var, weight, bias, training, momentum, eps):
    return torch.ops.aten.native_batch_norm(
        x, weight, bias, running_mean, running_var, training, momentum, eps
    )


def batch_norm_backward_of_torch(doutput, x, save_mean, save_invstd, weight):
    given = (doutput, x, weight, None, None, save_mean, save_invstd, True, 1e-5, [True] * 3)
    return torch.ops.aten.native_batch_norm_backward(*given)


def qk_norm_rope_by_numbers(
    qkv, q_weight, k_weight, cache, positions, num_heads, num_kv_heads, eps, rope_layout
):
    width, pairs = len(q_weight), cache.shape[1] // 2
    heads = qkv.unflatten(1, (-1, width))
    for token, position in enumerate(positions.tolist()):
        turn = torch.complex(cache[position, :pairs], cache[position, pairs:])
        for head in range(num_heads + num_kv_heads):
            weight = q_weight if head < num_heads else k_weight
            x = F.rms_norm(heads[token, head].clone(), [width], weight, eps)
            first, second = (
                (slice(pairs), slice(pairs, 2 * pairs))
                if rope_layout == "neox"
                else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
            )
            z = torch.complex(x[first], x[second]) * turn
            x[first], x[second] = z.real, z.imag
            heads[token, head] = x


# What the library behind an entry's name computes, where torch has it.
FUNCTIONS = {
    "LayerNormFwdOp": lambda x, weight, bias, normalized_shape, eps: F.layer_norm(
        x, normalized_shape, weight, bias, eps
    ),
    "RMSNormFwdOp": lambda x, weight, normalized_shape, eps: F.rms_norm(
        x, normalized_shape, weight, 2.0**-23 if eps is None else eps
    ),
    "BatchNormFwdOp": batch_norm_of_torch,
    "BatchNormBwdOp": batch_norm_backward_of_torch,
    "GroupNormFwdOp": lambda x, weight, bias, num_groups, eps: F.group_norm(
        x, num_groups, weight, bias, eps
    ),
    "InstanceNormFwdOp": lambda x, running_mean, running_var, weight, bias, **named: (
        F.instance_norm(x, running_mean, running_var, weight, bias, **named)
    ),
    "FusedQKNormRoPEFwdOp": qk_norm_rope_by_numbers,
}


def drawn(row, name, seed):
    if name == "positions":
        return torch.tensor(row.values(name))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(row.shape(name), dtype=torch.float64, generator=generator)
    return x * x + 0.1 if name in ("running_var", "save_invstd") else x


@pytest.mark.parametrize("op", FUNCTIONS)
def test_the_formula_is_the_function(op):
    names = inputs_of(op)
    for row in rows_of(op):
        if row.numel(*row.record.tensors) > 100_000:
            continue
        tensors = [
            drawn(row, name, seed) if row.record.present(name) else None
            for seed, name in enumerate(names)
        ]
        copies = [x if x is None else x.clone() for x in tensors]
        results = FORMULAS[op](*tensors, **row.record.parameters)
        expected = FUNCTIONS[op](*copies, **row.record.parameters)
        for one, other in zip(as_tuple(results), as_tuple(expected), strict=True):
            if one is not None:
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        for one, other in zip(tensors, copies, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)
