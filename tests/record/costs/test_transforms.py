"""The costs of transforms, against numbers that count what is done with them."""

from __future__ import annotations

import cmath
from math import sqrt

import pytest
import torch
from cost_records import Record

from tileops_core.record.costs.transforms import fft, hadamard


class Number:
    """A real number that counts the operations on it and its like."""

    done = 0

    def __init__(self, value):
        self.value = value

    def _new(self, value):
        Number.done += 1
        return Number(value)

    def __add__(self, other):
        return self._new(self.value + other.value)

    def __sub__(self, other):
        return self._new(self.value - other.value)

    def __mul__(self, factor):
        return self._new(self.value * factor)


def transformed(x):
    """The Fourier transform of complex numbers, pairs of counted ones, by halves."""
    if len(x) == 1:
        return x
    even, odd = transformed(x[::2]), transformed(x[1::2])
    low, high = [], []
    for i, ((a, b), (c, d)) in enumerate(zip(even, odd, strict=True)):
        w = cmath.exp(-2j * cmath.pi * i / len(x))
        e, f = c * w.real - d * w.imag, c * w.imag + d * w.real
        low.append((a + e, b + f))
        high.append((a - e, b - f))
    return low + high


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_a_fourier_transform_by_halves(n):
    x = torch.randn(n, dtype=torch.complex128)
    Number.done = 0
    result = transformed([(Number(z.real), Number(z.imag)) for z in x.tolist()])
    values = torch.tensor([complex(a.value, b.value) for a, b in result])
    torch.testing.assert_close(values.to(x.dtype), torch.fft.fft(x))
    tensors = dict.fromkeys(("input", "output"), ((3, 5, n), torch.complex64))
    assert fft(Record({}, {}, tensors, {})) == (15 * Number.done, 2 * 15 * n * 8)


def steps(x):
    """Sylvester's transform by halves: sums before differences."""
    if len(x) == 1:
        return x
    half = len(x) // 2
    sums = [a + b for a, b in zip(x[:half], x[half:], strict=True)]
    differences = [a - b for a, b in zip(x[:half], x[half:], strict=True)]
    return steps(sums) + steps(differences)


@pytest.mark.parametrize(("base", "m"), [(1, 1), (1, 16), (12, 1), (12, 4), (20, 2), (28, 2)])
def test_a_hadamard_transform_by_halves_after_its_base(base, m):
    signs = torch.randint(0, 2, (base, base), dtype=torch.float64) * 2 - 1
    signs[0] = 1
    n = base * m
    x = torch.randn(n, dtype=torch.float64)
    Number.done = 0
    parts = [steps([Number(v) for v in part.tolist()]) for part in x.reshape(base, m)]
    result = []
    for column in signs.T.tolist():
        for values in zip(*parts, strict=True):
            total = values[0]
            for sign, value in zip(column[1:], values[1:], strict=True):
                total = total + value if sign > 0 else total - value
            result.append(total * (1 / sqrt(n)))
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < m:
        matrix = torch.kron(matrix, torch.tensor([[1.0, 1], [1, -1]], dtype=torch.float64))
    expected = x @ torch.kron(signs, matrix) / sqrt(n)
    values = torch.tensor([number.value for number in result], dtype=torch.float64)
    torch.testing.assert_close(values, expected)
    tensors = dict.fromkeys(("x", "output"), ((2, n), torch.float16))
    record = Record({}, {"base_order": base}, tensors, {})
    assert hadamard(record) == (2 * Number.done, 2 * 2 * n * 2)
