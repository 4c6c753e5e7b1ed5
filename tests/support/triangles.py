"""Products that give or take a lower triangle, by rows, so that only its entries count."""

from __future__ import annotations

import torch


def rows_of_triangle(rows, width):
    """Rows of growing length as one matrix."""
    return torch.cat(
        [torch.cat([r, torch.zeros(1, width - r.shape[1], dtype=r.dtype)], 1) for r in rows]
    )


def lower(a, b, start=None, strict=False, sign=1):
    """``start`` and the lower triangle of a bᵀ; to subtract instead costs the same."""
    start = torch.zeros(len(a), len(b), dtype=a.dtype) if start is None else start
    rows = []
    for i in range(len(a)):
        n = i if strict else i + 1
        rows.append(torch.addmm(start[i : i + 1, :n], a[i : i + 1], b[:n].mT, alpha=sign))
    return rows_of_triangle(rows, len(b))


def lower_times(triangle, x, start, strict=False):
    """``start`` and a lower triangle times x."""
    rows = []
    for i in range(len(x)):
        n = i if strict else i + 1
        rows.append(torch.addmm(start[i : i + 1], triangle[i : i + 1, :n], x[:n]))
    return torch.cat(rows)


def upper_times(triangle, x, start, strict=False):
    """``start`` and a transposed lower triangle times x."""
    rows = []
    for j in range(len(x)):
        n = j + 1 if strict else j
        rows.append(torch.addmm(start[j : j + 1], triangle[n:, j : j + 1].mT, x[n:]))
    return torch.cat(rows)
