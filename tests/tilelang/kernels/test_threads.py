"""Calls from many threads at once, of kernels that use threads themselves."""

from __future__ import annotations

import pytest
import torch
from call_support import in_threads
from tilelang_cases import CASES

THREADS = 16


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("rows", [3, 1100])
def test_threads_that_call_one_op_at_once_get_their_own_results(case, rows, two_threads):
    op = case.op(64, target="tilelang")
    inputs = [case.inputs(rows + i, 64, torch.float16) for i in range(THREADS)]

    def call(mine):
        result = op(*mine)
        return result if isinstance(result, tuple) else (result,)

    expected = [call(mine) for mine in inputs]

    def work(mine):
        return [call(mine) for _ in range(3)]

    outcomes = in_threads(*(lambda mine=mine: work(mine) for mine in inputs))
    for outcome, right in zip(outcomes, expected, strict=True):
        assert outcome.error is None, outcome.error
        for results in outcome.result:
            assert all(torch.equal(a, b) for a, b in zip(results, right, strict=True))
