"""What elementwise functions cost, counted while the formula of each is computed."""

from __future__ import annotations

import math
from pkgutil import resolve_name

import pytest
import torch
from costs import differing, ops_of, rows_of
from operations import blank, operations

from tileops_core.spec.catalogue import load_spec

OPS = ops_of("elementwise")


def is_float(x):
    return x.dtype.is_floating_point


def gelu(x, approximate):
    half = 0.5 * x
    if approximate == "none":
        return half + half * torch.erf(x / math.sqrt(2))
    inner = x * (math.sqrt(2 / math.pi) + math.sqrt(2 / math.pi) * 0.044715 * (x * x))
    return half + half * torch.tanh(inner)


def silu(x):
    return x / (1 + torch.exp(-x))


def inside(x, low, high):
    return x.clamp_min(low).clamp_max(high)


def selu(x):
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return torch.where(x > 0, scale * x, scale * alpha * torch.expm1(x))


def elu(x, alpha):
    below = torch.expm1(x)
    return torch.where(x > 0, x, below if alpha == 1 else alpha * below)


def softplus(x, beta, threshold):
    if beta == 1:
        return torch.where(x > threshold, x, torch.log1p(torch.exp(x)))
    scaled = beta * x
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(scaled)) / beta)


def prelu(x, weight):
    if weight.ndim and x.ndim > 1:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    return torch.where(x > 0, x, weight * x)


def clamp(x, low, high):
    if low is not None:
        x = torch.maximum(x, low) if isinstance(low, torch.Tensor) else x.clamp_min(low)
    if high is not None:
        x = torch.minimum(x, high) if isinstance(high, torch.Tensor) else x.clamp_max(high)
    return x


def nan_to_num(x, nan, posinf, neginf):
    limits = torch.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    x = torch.where(x != x, nan, x)
    return torch.where(x == math.inf, high, torch.where(x == -math.inf, low, x))


def dropout(x, p, training, draws=None):
    if not training or p == 0:
        return x.clone()
    if p == 1:
        return x * 0
    draws = torch.empty(x.shape) if draws is None else draws
    return x * torch.where(draws >= p, 1 / (1 - p), 0.0)


def weighted(other, alpha):
    return other if alpha == 1 else alpha * other


def divide(x, y, rounding_mode):
    quotient = x / y
    return {None: lambda q: q, "trunc": torch.trunc, "floor": torch.floor}[rounding_mode](quotient)


def logical(join, x, y):
    """Bools are joined; of numbers one is chosen by the other and compared with zero."""
    if x.dtype == torch.bool:
        return join(x, y)
    zero = x == 0
    return (torch.where(zero, x, y) if join is torch.bitwise_and else torch.where(zero, y, x)) != 0


def known(x, answer):
    return torch.full(x.shape, answer, dtype=torch.bool)


def absolute(x):
    return x.clone() if x.dtype == torch.uint8 else torch.abs(x)


def sign(x):
    if x.dtype == torch.uint8:
        return x.clamp_max(1)
    return torch.where(x > 0, 1, torch.where(x < 0, -1, 0))


def whole(function):
    return lambda x: function(x) if is_float(x) else x.clone()


def rounded(x, decimals):
    if decimals == 0 or not is_float(x):
        return torch.round(x) if is_float(x) else x.clone()
    scale = 10.0 ** abs(decimals)
    return torch.round(x * scale) / scale if decimals > 0 else torch.round(x / scale) * scale


def lerp(x, end, weight):
    return x + weight * (end - x)


def alibi(seq_len, num_heads):
    slopes = -torch.exp2(-8 / num_heads * torch.arange(1, num_heads + 1, dtype=torch.float64))
    at = torch.arange(seq_len)
    return slopes[:, None, None] * (at[:, None] - at).abs()


def sinusoidal(seq_len, d_model):
    pairs = torch.arange((d_model + 1) // 2, dtype=torch.float64)
    frequencies = torch.exp(-2 * math.log(10000) / d_model * pairs)
    angles = torch.arange(seq_len)[:, None] * frequencies
    odd = torch.cos(angles[:, : d_model // 2])
    both = torch.cat([torch.sin(angles), odd], 1)
    order = [i // 2 if i % 2 == 0 else (d_model + 1) // 2 + i // 2 for i in range(d_model)]
    return both[:, order]


# Tensors in the entry's order, parameters by name.
FORMULAS = {
    "GELUFwdOp": gelu,
    "ReLUFwdOp": lambda x: x.clamp_min(0),
    "SiLUFwdOp": silu,
    "HardswishFwdOp": lambda x: x * inside(x + 3, 0, 6) / 6,
    "HardsigmoidFwdOp": lambda x: inside(x + 3, 0, 6) / 6,
    "MishFwdOp": lambda x: x * torch.tanh(torch.log1p(torch.exp(x))),
    "SELUFwdOp": selu,
    "LeakyReLUFwdOp": lambda x, negative_slope: torch.where(x > 0, x, negative_slope * x),
    "ELUFwdOp": elu,
    "HardtanhFwdOp": lambda x, min_val, max_val: inside(x, min_val, max_val),
    "SoftplusFwdOp": softplus,
    "PReLUFwdOp": prelu,
    "ClampScalarFwdOp": lambda x, min, max: clamp(x, min, max),
    "ClampTensorFwdOp": clamp,
    "NanToNumFwdOp": nan_to_num,
    "DropoutFwdOp": lambda x, p, training, seed: dropout(x, p, training),
    "AddFwdOp": lambda x, y, alpha: x + weighted(y, alpha),
    "SubFwdOp": lambda x, y, alpha: x - weighted(y, alpha),
    "MulFwdOp": lambda x, y: x * y,
    "DivFwdOp": divide,
    "RemainderFwdOp": lambda x, y: x - y * torch.floor(x / y),
    "PowFwdOp": torch.pow,
    "FloorDivideFwdOp": lambda x, y: torch.floor(x / y),
    "MaximumFwdOp": torch.maximum,
    "MinimumFwdOp": torch.minimum,
    "EqFwdOp": torch.eq,
    "NeFwdOp": torch.ne,
    "GtFwdOp": torch.gt,
    "LtFwdOp": torch.lt,
    "GeFwdOp": torch.ge,
    "LeFwdOp": torch.le,
    "LogicalAndFwdOp": lambda x, y: logical(torch.bitwise_and, x, y),
    "LogicalOrFwdOp": lambda x, y: logical(torch.bitwise_or, x, y),
    "LogicalNotFwdOp": lambda x: x == 0,
    "BitwiseAndFwdOp": torch.bitwise_and,
    "BitwiseOrFwdOp": torch.bitwise_or,
    "BitwiseXorFwdOp": torch.bitwise_xor,
    "BitwiseNotFwdOp": torch.bitwise_not,
    "IsnanFwdOp": lambda x: x != x if is_float(x) else known(x, False),
    "IsinfFwdOp": lambda x: x.abs() == math.inf if is_float(x) else known(x, False),
    "IsfiniteFwdOp": lambda x: x.abs() < math.inf if is_float(x) else known(x, True),
    "GELUAndMulFwdOp": lambda x, approximate: (
        gelu(x[:, : x.shape[1] // 2], approximate) * x[:, x.shape[1] // 2 :]
    ),
    "SiLUAndMulFwdOp": lambda x: silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
    "AlibiFwdOp": lambda seq_len, num_heads, out_dtype, device: alibi(seq_len, num_heads),
    "SinusoidalFwdOp": lambda seq_len, d_model, out_dtype, device: sinusoidal(seq_len, d_model),
    "ExpFwdOp": torch.exp,
    "Expm1FwdOp": torch.expm1,
    "LogFwdOp": torch.log,
    "Log1pFwdOp": torch.log1p,
    "SqrtFwdOp": torch.sqrt,
    "RsqrtFwdOp": torch.rsqrt,
    "ReciprocalFwdOp": torch.reciprocal,
    "AbsFwdOp": absolute,
    "NegFwdOp": torch.neg,
    "SignFwdOp": sign,
    "SinFwdOp": torch.sin,
    "CosFwdOp": torch.cos,
    "FloorFwdOp": whole(torch.floor),
    "CeilFwdOp": whole(torch.ceil),
    "RoundFwdOp": rounded,
    "TruncFwdOp": whole(torch.trunc),
    "ErfFwdOp": torch.erf,
    "SigmoidFwdOp": lambda x: torch.reciprocal(1 + torch.exp(-x)),
    "TanhFwdOp": torch.tanh,
    "WhereFwdOp": torch.where,
    "MaskedFillScalarFwdOp": lambda x, mask, value: torch.where(mask, value, x),
    "MaskedFillTensorFwdOp": lambda x, mask, value: torch.where(mask, value, x),
    "LerpScalarFwdOp": lambda x, end, weight: lerp(x, end, weight),
    "LerpTensorFwdOp": lerp,
}


each = pytest.mark.parametrize("op", OPS)


def inputs_of(row):
    return [item.name for item in load_spec(row.record.op).inputs]


def parameters_of(row):
    return {n: value for n, value in row.record.parameters.items() if n != "inplace"}


@each
def test_flops_are_the_operations_of_the_formula(op):
    def count(row):
        return operations(FORMULAS[op], *blank(row.record, *inputs_of(row)), **parameters_of(row))

    assert differing(op, count, "flops") == {}


def moved(row):
    """Bytes that the definition reads and writes: arguments, and the result, once each."""
    op, floating = (
        row.record.op,
        [dtype.is_floating_point for _, dtype in row.record.tensors.values()],
    )
    if op in {"IsnanFwdOp", "IsinfFwdOp", "IsfiniteFwdOp"} and not any(floating):
        return row.size("output")
    if op == "DropoutFwdOp" and row["inplace"] and (row["p"] == 0 or not row["training"]):
        return 0
    return row.size(*inputs_of(row), "output")


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    assert differing(op, moved, "bytes") == {}


def values(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.float64, generator=generator) * 3
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    return torch.randint(0 if dtype == torch.uint8 else -9, 9, shape, generator=generator).to(dtype)


def halves(activation):
    return lambda x, **named: activation(x.chunk(2, 1)[0], **named) * x.chunk(2, 1)[1]


def alibi_table(seq_len, num_heads, **_):
    slopes = [-(2 ** (-8 * (h + 1) / num_heads)) for h in range(num_heads)]
    at = range(seq_len)
    table = [[[slope * abs(i - j) for j in at] for i in at] for slope in slopes]
    return torch.tensor(table, dtype=torch.float64)


def sinusoidal_table(seq_len, d_model, **_):
    def entry(p, i):
        return (math.cos if i % 2 else math.sin)(p / 10000 ** (i // 2 * 2 / d_model))

    table = [[entry(p, i) for i in range(d_model)] for p in range(seq_len)]
    return torch.tensor(table, dtype=torch.float64)


FUNCTIONS = {
    "SiLUAndMulFwdOp": halves(torch.nn.functional.silu),
    "GELUAndMulFwdOp": halves(torch.nn.functional.gelu),
    "AlibiFwdOp": alibi_table,
    "SinusoidalFwdOp": sinusoidal_table,
    # Of integers only without the keyword.
    "RoundFwdOp": lambda x, decimals: torch.round(x, decimals=decimals) if decimals else x.round(),
    "PReLUFwdOp": lambda x, weight: torch.nn.functional.prelu(x, weight.reshape(-1)),
}


@pytest.mark.parametrize("op", [op for op in OPS if op != "DropoutFwdOp"])
def test_the_formula_is_the_function(op):
    function = FUNCTIONS.get(op) or resolve_name(str(load_spec(op).ref_api))
    for row in rows_of(op):
        tensors, named = row.record.tensors, parameters_of(row)
        if sum(row.numel(name) for name in tensors) > 100_000:
            continue
        given = [
            values(*tensors[name], seed) if name in tensors else None
            for seed, name in enumerate(inputs_of(row))
        ]
        expected = function(*given, **named)
        result = FORMULAS[op](*given, **named).to(expected.dtype)
        torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-12, equal_nan=True)
