"""The cost of norms and turns of the heads of q and k, against counting one feature at a time."""

from __future__ import annotations

import pytest
import torch
from cost_records import Record

from tileops_core.record.costs.norm import fused_qk_norm_rope


@pytest.mark.parametrize("positions", [[0, 1, 2, 0, 1], [7, 7, 7], [], [3]])
@pytest.mark.parametrize(("q", "kv", "width", "turned"), [(4, 2, 6, 6), (3, 1, 8, 2)])
def test_v_does_not_move_and_a_row_of_the_table_is_read_once(positions, q, kv, width, turned):
    flops, moved, rows = 0, set(), set()
    for token, position in enumerate(positions):
        for head in range(q + kv):
            flops += 3  # the mean's division, eps, the root
            for feature in range(width):
                flops += 4  # square and sum, scale and weight
                flops += 3 if feature < turned else 0  # two products and a sum
                moved.add((token, head, feature))
        rows.add(position)
    tensors = {
        "qkv": ((len(positions), (q + 2 * kv) * width), torch.bfloat16),
        "q_weight": ((width,), torch.bfloat16),
        "k_weight": ((width,), torch.bfloat16),
        "cos_sin_cache": ((9, turned), torch.float32),
        "positions": ((len(positions),), torch.int64),
    }
    record = Record(
        {"L": len(positions), "D": width, "P": 9, "R": turned},
        {"num_heads": q, "num_kv_heads": kv},
        tensors,
        {"positions": positions},
    )
    read = 4 * turned * len(rows) + 2 * 2 * width + 8 * len(positions)
    assert fused_qk_norm_rope(record) == (flops, 2 * 2 * len(moved) + read)
