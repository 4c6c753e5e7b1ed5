"""The costs of poolings, against going through the windows one element at a time."""

from __future__ import annotations

from itertools import product
from math import ceil, floor

import pytest
import torch
from cost_records import Record

from tileops_core.record.costs.pool import adaptive_average, adaptive_maximum, average, maximum

WINDOWS = [
    # length, results, kernel, stride, padding, dilation
    (7, 3, 3, 2, 0, 1),
    (7, 4, 3, 2, 1, 1),
    (8, 4, 3, 2, 0, 1),  # the last reaches behind the end
    (5, 5, 5, 1, 2, 1),
    (9, 2, 2, 5, 0, 3),
    (10, 5, 3, 2, 1, 2),
    (1, 1, 2, 1, 1, 2),  # holds nothing
    (4, 2, 1, 3, 0, 1),
]


def held(length, results, kernel, stride, padding, dilation):
    """The elements of each window that lie in the input."""
    taps = product(range(results), range(kernel))
    places = [number * stride - padding + tap * dilation for number, tap in taps]
    return [place for place in places if 0 <= place < length]


def record_of(axes, windows, dtype=torch.float16):
    names = dict(zip("ksp", (2, 3, 4), strict=True))
    indices = {
        f"{n}{a}": w[i] for a, w in zip(axes, windows, strict=True) for n, i in names.items()
    }
    if any(w[5] != 1 for w in windows):
        indices |= {f"d{a}": w[5] for a, w in zip(axes, windows, strict=True)}
    tensors = {
        "input": ((2, 3, *(w[0] for w in windows)), dtype),
        "output": ((2, 3, *(w[1] for w in windows)), dtype),
    }
    return Record(indices, {}, tensors, {})


def numel(record, name):
    return sum(1 for _ in product(*map(range, record.tensors[name][0])))


@pytest.mark.parametrize("window", WINDOWS)
def test_only_elements_of_the_input_are_counted(window):
    record = record_of("W", [window])
    elements = sum(1 for _ in product(range(2), range(3), held(*window)))
    moved = 2 * (numel(record, "input") + numel(record, "output"))
    assert maximum(record) == (elements, moved)
    assert average(record) == (elements + numel(record, "output"), moved)


@pytest.mark.parametrize("axes", ["HW", "DHW"])
def test_windows_of_several_axes_are_products(axes):
    windows = WINDOWS[1 : 1 + len(axes)]
    record = record_of(axes, windows)
    elements = 6 * sum(1 for _ in product(*(held(*window) for window in windows)))
    assert maximum(record)[0] == elements
    assert average(record)[0] == elements + numel(record, "output")


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize(("length", "count"), [(7, 1), (7, 7), (7, 3), (10, 4), (3, 5), (13, 6)])
def test_an_element_that_two_bins_share_is_counted_in_both(length, count, lead):
    bins = [range(floor(i * length / count), ceil((i + 1) * length / count)) for i in range(count)]
    tensors = {
        "input": ((*lead, 3, length, 5), torch.float32),
        "output": ((*lead, 3, count, 2), torch.float32),
        "indices": ((*lead, 3, count, 2), torch.int64),
    }
    record = Record({}, {}, tensors, {})
    planes = 3 * (lead[0] if lead else 1)
    elements = planes * sum(1 for rows in bins for _ in product(rows, range(6)))  # 0..2 and 2..4
    results = planes * count * 2
    moved = 4 * planes * length * 5 + (4 + 8) * results
    assert adaptive_maximum(record) == (elements, moved)
    assert adaptive_average(record) == (elements + results, moved)
