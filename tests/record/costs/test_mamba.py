"""Work of convolutions and of chunks' states, counted position by position."""

from __future__ import annotations

import pytest
import torch
from cost_records import Record, offsets

from tileops_core.record.costs import mamba


def bytes_of(tensors, *names):
    return sum(torch.Size(tensors[n][0]).numel() * tensors[n][1].itemsize for n in names)


@pytest.mark.parametrize("activation", ["silu", None])
@pytest.mark.parametrize("given", [(), ("bias",), ("has_initial_state",)])
@pytest.mark.parametrize("sizes", [[3, 1], [0, 4, 0], [5]])
def test_a_convolution_keeps_rows_of_sequences_that_have_tokens(sizes, given, activation):
    length, channels, taps = sum(sizes), 3, 4
    tensors = {
        "x": ((length, channels), torch.float16),
        "weight": ((channels, taps), torch.float16),
        "conv_state": ((len(sizes), channels, taps - 1), torch.float16),
        "cu_seqlens": ((len(sizes) + 1,), torch.int32),
        "bias": ((channels,), torch.float16),
        "has_initial_state": ((len(sizes),), torch.bool),
        "output": ((length, channels), torch.float16),
    }
    for name in {"bias", "has_initial_state"} - {*given}:
        del tensors[name]
    indices = {"N": len(sizes), "L": length, "C": channels, "W": taps}
    parameters = {"activation": activation}
    record = Record(indices, parameters, tensors, {"cu_seqlens": offsets(sizes)})
    flops, moved = 0, bytes_of(tensors, *tensors.keys() - {"conv_state"})
    for size in sizes:
        for _token in range(size * channels):
            flops += taps + (taps - 1) + ("bias" in given) + (4 if activation else 0)
        for _kept in range(channels * (taps - 1) if size else 0):
            moved += 2 * (1 + ("has_initial_state" in given))
    assert mamba.causal_conv(record) == (flops, moved)


INDICES = {
    "one sequence": [[0, 0, 0, 0], [1, 1, 1, 1]],
    "an end within a chunk": [[0, 0, 0, 1], [0, 1, 1, 1]],
    "padding at the end": [[0, 0, 0, -1], [0, 0, -1, -1]],
    "back again": [[0, 1, 1, 0], [2, 1, 2, 2]],
}


@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize("values", [None, *INDICES.values()], ids=["none", *INDICES])
def test_positions_of_other_sequences_add_nothing_to_a_state(values, width):
    batch, chunks, length, heads, groups, numbers = 2, 2, 2, 2, 1, 3
    positions = batch, chunks * length
    by_chunk = batch, heads, chunks, length
    tensors = {
        "x": ((*positions, heads, width), torch.bfloat16),
        "B": ((*positions, groups, numbers), torch.bfloat16),
        "dt": (by_chunk, torch.float32),
        "dA_cumsum": (by_chunk, torch.float32),
        "states": ((batch, chunks, heads, width, numbers), torch.float32),
    }
    flops, moved = 0, bytes_of(tensors, "states")
    if values is not None:
        tensors["seq_idx"] = positions, torch.int32
        moved += bytes_of(tensors, "seq_idx")
    for b in range(batch):
        for at in range(chunks * length):
            if values is not None:
                flops += 1
                last = values[b][at // length * length + length - 1]
                if last < 0 or values[b][at] != last:
                    continue
            moved += 2 * (heads * width + groups * numbers) + 4 * 2 * heads
            for _head in range(heads):
                flops += 3 + min(width, numbers) + 2 * width * numbers
    indices = {"Bsz": batch, "NC": chunks, "Q": length, "H": heads, "D_head": width}
    record = Record(indices | {"D_state": numbers}, {}, tensors, {"seq_idx": values})
    assert mamba.chunk_state(record) == (flops, moved)
