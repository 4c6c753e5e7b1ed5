"""The costs of masks by rank, against going through the rows one logit at a time."""

from __future__ import annotations

import pytest
import torch
from cost_records import Record

from tileops_core.record.costs.sampling import top_k_mask, top_k_top_p_mask

RANKS = [[1, 3, 8], [8, 9, 2**31 - 1], [7], []]


def record_of(ranks, length=8):
    logits = (len(ranks), length), torch.float16
    tensors = {"logits": logits, "top_k": ((len(ranks),), torch.int32), "masked_logits": logits}
    return Record({}, {}, tensors, {"top_k": ranks})


@pytest.mark.parametrize("ranks", RANKS)
def test_a_row_that_keeps_all_it_has_takes_no_comparison(ranks):
    comparisons = 0
    for k in ranks:
        row = list(range(8))
        if k < len(row):
            for _ in row:
                comparisons += 1  # to find the k-th largest
            for _ in row:
                comparisons += 1  # with it
    assert top_k_mask(record_of(ranks)) == (comparisons, len(ranks) * (2 * 8 * 2 + 4))


@pytest.mark.parametrize("ranks", RANKS)
def test_the_mask_by_probability_goes_over_kept_logits_only(ranks):
    passes = ("maximum", "difference", "exp", "total", "choice", "sum above", "comparison")
    expected, moved = top_k_mask(record_of(ranks))
    for k in ranks:
        kept = list(range(8))[-min(k, 8) :]
        expected += 1 + sum(1 for _ in passes for _ in kept)
    assert top_k_top_p_mask(record_of(ranks)) == (expected, moved)
