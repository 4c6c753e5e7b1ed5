"""One rank of a layer whose experts are split over processes: ``RANK RANKS FILE``.

Every rank makes the tensors of all ranks from one seed, so it knows what one process alone would
give for its tokens. What belongs to other ranks' experts is NaN in the weights that it passes.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from tileops_core.ops import (
    FusedMoEExpertsFwdOp,
    FusedMoEFwdOp,
    FusedMoESharedExpertFwdOp,
    FusedTopKFwdOp,
)
from tileops_reference.expert_parallel import ExpertParallel

EXPERTS, WIDTH, INNER, TOP_K = 8, 20, 12, 3
RANK, RANKS = int(sys.argv[1]), int(sys.argv[2])
SHARE = EXPERTS // RANKS
MINE = slice(RANK * SHARE, (RANK + 1) * SHARE)

TOKENS = {
    # of each rank
    "as many everywhere": [5] * RANKS,
    "more and more": [1 + 4 * rank for rank in range(RANKS)],
    "none on the first rank": [0] + [6] * (RANKS - 1),
    "none but on the last rank": [0] * (RANKS - 1) + [7],
    "none at all": [0] * RANKS,
}


def made(tokens, dtype):
    """Tokens of this rank, and everybody's weights."""
    torch.manual_seed(5)
    total, start = sum(tokens), sum(tokens[:RANK])
    hidden, logits = torch.randn(total, WIDTH).to(dtype), torch.randn(total, EXPERTS)
    weights = [
        torch.randn(EXPERTS, 2 * INNER, WIDTH).to(dtype),
        torch.randn(EXPERTS, WIDTH, INNER).to(dtype),
        torch.randn(EXPERTS, 2 * INNER).to(dtype),
        torch.randn(EXPERTS, WIDTH).to(dtype),
    ]
    mine = slice(start, start + tokens[RANK])
    return hidden[mine], logits[mine], weights


def of_this_rank(weights):
    """The weights with nothing usable for others' experts."""
    hidden = [torch.full_like(w, torch.nan) for w in weights]
    for kept, w in zip(hidden, weights, strict=True):
        kept[MINE] = w[MINE]
    return hidden


def check(what, result, expected):
    # One result more is rounded for each route, of about the size of the sum.
    step = {torch.float32: 2.0**-22, torch.bfloat16: 2.0**-6}[result.dtype]
    size = expected.abs().amax().item() if expected.numel() else 0.0
    assert result.shape == expected.shape, what
    assert torch.allclose(result, expected, rtol=step, atol=4 * step * size), what


def layers(parallel):
    for name, tokens in TOKENS.items():
        for dtype in (torch.float32, torch.bfloat16):
            hidden, logits, (w_gate_up, w_down, b_gate_up, b_down) = made(tokens, dtype)
            weights = of_this_rank([w_gate_up, w_down, b_gate_up, b_down])
            params = {"top_k": TOP_K, "renormalize": True, "activation": "swigluoai"}
            params["routed_scaling_factor"] = 2.5
            op = FusedMoEFwdOp(**params, prepare_finalize=parallel)
            alone = FusedMoEFwdOp(**params)
            expected = alone(hidden, logits, w_gate_up, w_down, None, b_gate_up, b_down)
            for _ in range(2):  # the call that selects who serves, and one on a known route
                result = op(hidden, logits, *weights[:2], None, *weights[2:])
                check((name, dtype), result, expected)
            assert list(op.last_call.stages) == ["route_select", "routed_experts"]


def everybody_wants_one_expert(parallel):
    """Experts of most ranks get no token."""
    for favorite in (0, EXPERTS - 1):
        hidden, logits, weights = made([4] * RANKS, torch.float32)
        logits[:, favorite] += 100
        op = FusedMoEFwdOp(1, prepare_finalize=parallel)
        expected = FusedMoEFwdOp(1)(hidden, logits, *weights[:2])
        check(favorite, op(hidden, logits, *of_this_rank(weights)[:2]), expected)


def a_shared_expert(parallel):
    hidden, logits, weights = made([4] * RANKS, torch.float32)
    shared = torch.randn(2 * INNER, WIDTH), torch.randn(WIDTH, INNER)
    op = FusedMoESharedExpertFwdOp(TOP_K, tp_size=RANKS, tp_rank=RANK, prepare_finalize=parallel)
    alone = FusedMoESharedExpertFwdOp(TOP_K)(hidden, logits, *weights[:2], None, *shared)
    part, routed = op(hidden, logits, *of_this_rank(weights)[:2], None, *shared)
    check("routed", routed, alone[1])
    # The tokens differ by rank here, so the parts are added up from one rank's point of view.
    parts = [
        FusedMoESharedExpertFwdOp(TOP_K, tp_size=RANKS, tp_rank=rank)(
            hidden, logits, *weights[:2], None, *shared
        )[0]
        for rank in range(RANKS)
    ]
    assert torch.equal(part, parts[RANK])
    check("shared", sum(parts), alone[0])


def the_parts_with_no_other_weights(parallel):
    hidden, logits, weights = made([3 + rank for rank in range(RANKS)], torch.float32)
    chosen, ids = FusedTopKFwdOp(TOP_K)(logits)
    here = parallel.prepare(hidden, chosen, ids, EXPERTS)
    assert (here.first_expert, here.num_experts) == (MINE.start, SHARE)
    mine = [w[MINE].clone() for w in weights[:2]]
    rows = FusedMoEExpertsFwdOp()(here.hidden_states, *mine, here.topk_weights, here.topk_ids)
    expected = FusedMoEFwdOp(TOP_K)(hidden, logits, *weights[:2])
    check("parts", parallel.finalize(rows, here), expected)


def experts_of_another_target(parallel):
    hidden, logits, weights = made([4] * RANKS, torch.float32)
    experts = FusedMoEExpertsFwdOp(3.0, activation="gelu_and_mul", target="reference")
    op = FusedMoEFwdOp(TOP_K, prepare_finalize=parallel, experts=experts)
    expected = FusedMoEFwdOp(TOP_K, routed_scaling_factor=3.0, activation="gelu_and_mul")(
        hidden, logits, *weights[:2]
    )
    check("experts", op(hidden, logits, *of_this_rank(weights)[:2]), expected)
    assert experts.serving_target == "reference"


def experts_that_do_not_divide(parallel):
    hidden, ids = torch.randn(2, WIDTH), torch.zeros(2, 1, dtype=torch.int32)
    with pytest.raises(ValueError, match=f"{EXPERTS + 1} experts"):
        parallel.prepare(hidden, torch.ones(2, 1), ids, EXPERTS + 1)


def main():
    torch.set_num_threads(1)
    place = {"init_method": f"file://{sys.argv[3]}", "rank": RANK, "world_size": RANKS}
    dist.init_process_group("gloo", **place, timeout=timedelta(minutes=2))
    for parallel in (ExpertParallel(), ExpertParallel(dist.new_group(list(range(RANKS))))):
        for scenario in (
            layers,
            everybody_wants_one_expert,
            a_shared_expert,
            the_parts_with_no_other_weights,
            experts_of_another_target,
            experts_that_do_not_divide,
        ):
            scenario(parallel)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
