"""What transforms of rows cost, counted while they go through them step by step."""

from __future__ import annotations

import cmath
import math

import pytest
import torch
from costs import differing, ops_of
from operations import operations

OPS = ops_of("fft", "transform")


def roots(n):
    """The factors of the second half, real and imaginary."""
    powers = [cmath.exp(-2j * cmath.pi * i / n) for i in range(n // 2)]
    factors = torch.tensor(powers, dtype=torch.complex128)
    return factors.real, factors.imag


def fourier(real, imag, factors):
    """Radix two: rows of half the length, every other element each, until rows have one."""
    n = real.shape[-1]
    if n == 1:
        return real, imag
    # Both halves at once, as two rows more.
    pair = (part.unflatten(-1, (n // 2, 2)).transpose(-1, -2) for part in (real, imag))
    a, b = fourier(*pair, factors)
    cos, sin = factors(n)
    c, d = a[..., 1, :], b[..., 1, :]
    e, f = c * cos - d * sin, c * sin + d * cos
    a, b = a[..., 0, :], b[..., 0, :]
    return torch.cat([a + e, a - e], -1), torch.cat([b + f, b - f], -1)


def hadamard(x, signs):
    """Halves of halves, then the base; its first column has no sign."""
    base, n = len(signs), x.shape[-1]
    parts = sylvester(x.unflatten(-1, (base, n // base)))
    columns = parts[..., 0, :].expand(base, *x.shape[:-1], n // base)
    for other in range(1, base):
        added = [column for column in range(base) if signs[other][column] > 0]
        taken = [column for column in range(base) if signs[other][column] < 0]
        part = parts[..., other, :]
        both = torch.cat([columns[added] + part, columns[taken] - part])
        columns = both[sorted(range(base), key=[*added, *taken].__getitem__)]
    return columns.movedim(0, -2).flatten(-2) * (1 / math.sqrt(n))


def sylvester(x):
    if x.shape[-1] == 1:
        return x
    one, other = x.unflatten(-1, (2, -1)).unbind(-2)
    return sylvester(torch.stack([one + other, one - other], -2)).flatten(-2)


def count_of_fft(row):
    *rows, n = row.shape("input")
    parts = torch.empty(math.prod(rows), n, device="meta")
    return operations(fourier, parts, parts, lambda n: [torch.empty(n // 2)] * 2)


def twice(x, signs):
    """The transform whose base is that of ``signs`` twice: halves first, then each of them."""
    one, other = x.unflatten(-1, (2, -1)).unbind(-2)
    halves = torch.stack([one + other, one - other], -2)
    return hadamard(halves, signs).flatten(-2) / math.sqrt(2)


def count_of_hadamard(row):
    *rows, n = row.shape("x")
    x = torch.empty(math.prod(rows), n, device="meta")
    base = row["base_order"]
    if base != 40:
        return operations(hadamard, x, [[1] * base] * base)
    # the root of 2 belongs to the factor that each element is multiplied with anyhow
    return operations(twice, x, [[1] * 20] * 20) - x.numel()


COUNTS = {"FFTC2CFwdOp": count_of_fft, "HadamardTransformFwdOp": count_of_hadamard}
each = pytest.mark.parametrize("op", OPS)


@each
def test_flops_are_the_operations_of_the_formula(op):
    assert differing(op, COUNTS[op], "flops") == {}


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    def moved(row):
        (shape, dtype), _ = row.record.tensors.values()
        return 2 * math.prod(shape) * dtype.itemsize

    assert differing(op, moved, "bytes") == {}


@pytest.mark.parametrize("n", [1, 2, 32])
def test_halving_rows_gives_the_fourier_transform(n):
    x = torch.randn(3, n, dtype=torch.complex128)
    result = fourier(x.real, x.imag, roots)
    torch.testing.assert_close(torch.complex(*result), torch.fft.fft(x))


@pytest.mark.parametrize("base", [1, 12])
def test_halving_rows_gives_the_hadamard_transform(base):
    signs = torch.randint(0, 2, (base, base), dtype=torch.float64) * 2 - 1
    signs[0] = 1
    matrix = signs
    for _ in range(3):
        matrix = torch.kron(matrix, torch.tensor([[1.0, 1], [1, -1]]).double())
    x = torch.randn(5, len(matrix), dtype=torch.float64)
    due = x @ matrix / math.sqrt(len(matrix))
    torch.testing.assert_close(hadamard(x, signs.tolist()), due)
    matrix = torch.kron(torch.tensor([[1.0, 1], [1, -1]]).double(), matrix)
    x = torch.randn(5, len(matrix), dtype=torch.float64)
    due = x @ matrix / math.sqrt(len(matrix))
    torch.testing.assert_close(twice(x, signs.tolist()), due)
