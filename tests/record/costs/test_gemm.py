"""The cost of a grouped product, against counting one by one."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest

from tileops_core.record.costs.gemm import grouped


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("sizes", [[2, 0, 3], [0, 0, 4], [1, 1, 1]])
def test_a_group_without_rows_reads_no_weight(sizes, trans_a):
    m, g, n, k = sum(sizes), len(sizes), 2, 3
    shapes = {
        "a": (m, n) if trans_a else (m, k),
        "b": (m, k) if trans_a else (g, n, k),
        "batch_sizes": (g,),
        "batch_offsets": (g,),
        "d": (g, n, k) if trans_a else (m, n),
    }
    widths = dict.fromkeys(shapes, 2) | {"batch_sizes": 4, "batch_offsets": 4}
    elements = {name: {*product(*map(range, shape))} for name, shape in shapes.items()}
    record = SimpleNamespace(
        indices={"M": m, "G": g, "N": n, "K": k},
        parameters={"trans_a": trans_a, "trans_b": not trans_a},
        tensors=shapes,
        bytes=lambda name: len(elements[name]) * widths[name],
        metadata_values={"batch_sizes": sizes}.__getitem__,
    )
    owners = [group for group, size in enumerate(sizes) for _ in range(size)]
    cells = [*product(enumerate(owners), range(n), range(k))]
    used = dict(elements)
    if not trans_a:
        used["b"] = {(group, *cell) for (_, group), *cell in cells}
    assert grouped(record) == (2 * len(cells), sum(len(used[x]) * widths[x] for x in used))
