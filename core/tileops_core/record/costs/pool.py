"""Work of the poolings: elements that windows really hold, padding left out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall

_AXES = {3: "W", 4: "HW", 5: "DHW"}


def _windows(lengths: Iterable[int], results: Iterable[int], record: SignatureCall) -> int:
    """Elements in all windows of one plane; windows are products, so their axes' sums multiply."""
    lengths, found = tuple(lengths), record.indices
    total = 1
    for axis, length, count in zip(_AXES[len(lengths) + 2], lengths, results, strict=True):
        kernel, stride, padding = (found[f"{name}{axis}"] for name in "ksp")
        dilation = found.get(f"d{axis}", 1)
        total *= sum(
            _inside(number * stride - padding, kernel, dilation, length) for number in range(count)
        )
    return total


def _inside(start: int, kernel: int, dilation: int, length: int) -> int:
    """How many of ``start + i * dilation``, i below ``kernel``, lie in ``[0, length)``."""
    first = max(0, -(start // dilation))
    last = min(kernel - 1, (length - 1 - start) // dilation)
    return max(0, last - first + 1)


def _bins(length: int, count: int) -> int:
    """Elements in all bins of an axis, those that two bins share twice."""
    return sum(-(-(i + 1) * length // count) - i * length // count for i in range(count))


def _bytes(record: SignatureCall) -> int:
    return sum(record.bytes(name) for name in record.tensors)


def _pooled(record: SignatureCall, per_result: int) -> tuple[int, int]:
    given, result = record.tensors["input"][0], record.tensors["output"][0]
    elements = math.prod(given[:2]) * _windows(given[2:], result[2:], record)
    return elements + per_result * math.prod(result), _bytes(record)


def _adaptive(record: SignatureCall, per_result: int) -> tuple[int, int]:
    given, result = record.tensors["input"][0], record.tensors["output"][0]
    elements = math.prod(given[:-2])
    for length, count in zip(given[-2:], result[-2:], strict=True):
        elements *= _bins(length, count)
    return elements + per_result * math.prod(result), _bytes(record)


def average(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of an average pooling.

    One addition per element of a window that lies in the input, one division per result.
    """
    return _pooled(record, 1)


def maximum(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of a max pooling: one comparison per element of a window."""
    return _pooled(record, 0)


def adaptive_average(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of an adaptive average pooling.

    One addition per element of a bin, one division per result.
    """
    return _adaptive(record, 1)


def adaptive_maximum(record: SignatureCall) -> tuple[int, int]:
    """``(flops, bytes)`` of an adaptive max pooling: one comparison per element of a bin."""
    return _adaptive(record, 0)
