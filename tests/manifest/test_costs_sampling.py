"""What sampling costs, counted while the formula of each op is computed.

That a threshold is right shows in one pass over the logits, so a pass is what finding one takes at
least.
"""

from __future__ import annotations

import pytest
import torch
from costs import differing, ops_of
from operations import blank, operations

from tileops_core.spec.catalogue import load_spec

OPS = ops_of("sampling")
each = pytest.mark.parametrize("op", OPS)


def above(logits, least):
    return torch.where(logits < least, -torch.inf, logits)


def top_k(logits, ranks):
    rows = [
        above(row, row.kthvalue(len(row) - k + 1).values) if k < len(row) else row
        for row, k in zip(logits, ranks, strict=True)
    ]
    return torch.stack(rows)


def min_p(logits, p):
    return above(logits, logits.amax(1, keepdim=True) + torch.log(p[:, None]))


def weights_of(logits):
    return torch.exp(logits - logits.amax(-1, keepdim=True))


def top_p(logits, p, least=None):
    """``least`` is the smallest weight that is kept; what is above has less than p of the total."""
    weights = weights_of(logits)
    due = p * weights.sum(-1)
    least = torch.empty(due.shape) if least is None else least
    greater = torch.where(weights > least[..., None], weights, 0).sum(-1)
    assert least.is_meta or (greater < due).all()
    return torch.where(weights < least[..., None], -torch.inf, logits)


def top_k_top_p(logits, ranks, p):
    top_k(logits, ranks)
    for row, k, share in zip(logits, ranks, p, strict=True):
        top_p(row[: min(k, len(row))], share)


def draw(weights, number):
    running = weights.cumsum(-1)
    return running > (number * running[:, -1])[:, None]


def chain(draft, ids, target):
    """The greatest work: every drafted token is looked at, one row has a rest to draw from."""
    rows, length = ids.shape
    numbers = torch.empty(rows, length)
    accepted = (
        numbers * draft.gather(2, ids[..., None])[..., 0]
        < (target[:, :length].gather(2, ids[..., None])[..., 0])
    )
    rest = (target[:, 0] - draft[:, 0]).clamp_min(0)
    return accepted, draw(rest, torch.empty(rows))


FORMULAS = {
    "TopKMaskFwdOp": lambda row, logits, _: top_k(logits, row.values("top_k")),
    "MinPMaskFwdOp": lambda row, logits, p: min_p(logits, p),
    "TopPMaskFwdOp": lambda row, logits, p: top_p(logits, p),
    "TopKTopPMaskFwdOp": lambda row, logits, _, p: top_k_top_p(logits, row.values("top_k"), p),
    "SamplingFromProbsFwdOp": lambda row, probs, *_: draw(probs, torch.empty(len(probs))),
    "ChainSpeculativeSamplingFwdOp": lambda row, draft, ids, target, *_: chain(
        draft, ids.long(), target
    ),
}


@each
def test_flops_are_the_operations_of_the_formula(op):
    inputs = [item.name for item in load_spec(op).inputs]

    def count(row):
        return operations(FORMULAS[op], row, *blank(row.record, *inputs))

    assert differing(op, count, "flops") == {}


def moved(row):
    """Bytes that the definition reads and writes."""
    if row.record.op != "ChainSpeculativeSamplingFwdOp":
        return row.size(*row.record.tensors)
    # Two probabilities of each drafted token, and a row of either to draw from the rest of.
    rows, tokens, length = row.shape("draft_probs")
    others = row.record.tensors.keys() - {"draft_probs", "target_probs"}
    return 4 * rows * 2 * (tokens + length) + row.size(*others)


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    assert differing(op, moved, "bytes") == {}


def drawn(*shape):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def test_a_rank_keeps_so_many():
    logits, ranks = drawn(4, 50), [1, 7, 50, 2**31 - 1]
    kept = top_k(logits, ranks).isfinite()
    for row, chosen, k in zip(logits, kept, ranks, strict=True):
        assert set(row[chosen].tolist()) == set(sorted(row.tolist())[-k:])


def test_a_least_probability_is_a_part_of_the_greatest():
    logits, p = drawn(3, 50), torch.tensor([0.0, 0.1, 1.0], dtype=torch.float64)
    probabilities = logits.softmax(1)
    expected = probabilities >= p[:, None] * probabilities.amax(1, keepdim=True)
    assert torch.equal(min_p(logits, p).isfinite(), expected)


def test_the_most_probable_together_have_the_share():
    logits, p = drawn(3, 50), torch.tensor([0.1, 0.5, 0.95], dtype=torch.float64)
    ordered = logits.softmax(1).sort(descending=True).values
    count = (ordered.cumsum(1) - ordered < p[:, None]).sum(1, keepdim=True)
    weights = weights_of(logits).sort(descending=True).values
    kept = top_p(logits, p, weights.gather(1, count - 1)[:, 0]).isfinite()
    assert torch.equal(kept.sum(1, keepdim=True), count)


def test_a_draw_falls_on_a_weight_in_proportion():
    weights = torch.tensor([[1.0, 0, 3, 4]], dtype=torch.float64)
    chosen = [draw(weights, torch.tensor([i / 80 + 1e-3])).int().argmax().item() for i in range(80)]
    assert [chosen.count(token) for token in range(4)] == [10, 0, 30, 40]
