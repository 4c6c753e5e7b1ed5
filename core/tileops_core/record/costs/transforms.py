"""Work of transforms that go through their rows in log2 n steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


def _rows(record: SignatureCall) -> tuple[int, int]:
    """How many rows there are, and how long each is."""
    shape = next(iter(record.tensors.values()))[0]
    return math.prod(shape[:-1]), shape[-1]


def fft(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a complex Fourier transform of n = 2 ** t elements a row.

    Each of the t steps of radix two has n / 2 butterflies of one complex product (6) and two
    complex sums (4): 5 n t (Cooley and Tukey, 1965).
    """
    rows, n = _rows(record)
    return 5 * rows * n * (n.bit_length() - 1), record.bytes("input") + record.bytes("output")


def hadamard(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a Hadamard transform of n = base_order · 2 ** t elements a row.

    n sums in each of the t steps; a product with the matrix of order base_order, whose signs leave
    base_order - 1 sums an element, or one and those of order 20 for 40, which is twice that; one
    product an element to scale.
    """
    rows, n = _rows(record)
    base = record.parameters["base_order"]
    steps = (n // base).bit_length() - 1
    sums = 1 + 19 if base == 40 else base - 1
    return rows * n * (steps + sums + 1), record.bytes("x") + record.bytes("output")
