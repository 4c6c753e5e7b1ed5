"""What state-space models cost: a position's step, or a chunk's products row by row."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
import torch
from costs import differing, ops_of
from operations import operations
from triangles import lower

OPS = ops_of("mamba")


def silu(x):
    return x / (1 + torch.exp(-x))


def softplus(x):
    return torch.where(x > 20, x, torch.log1p(torch.exp(x)))


# -- convolutions and scans by token --------------------------------------------------------------


def conv(taps, weight, bias, activation):
    """One position of all channels; ``taps`` are the tokens that it meets, oldest first."""
    total = weight[0] * taps[0]
    for w, x in zip(weight[1:], taps[1:], strict=True):
        total = total + w * x
    total = total if bias is None else total + bias
    return silu(total) if activation else total


def conv_token(row):
    width, channels = row["W"], row["C"]
    bias = torch.empty(channels) if row.record.present("bias") else None
    token = torch.empty(width, channels)
    return operations(conv, token, torch.empty(width, channels), bias, row["activation"])


def step(x, dt, a, b, c, state):
    """One token: features [..., P], states [..., P, N], b and c of one token for them all."""
    state = torch.exp(dt[..., None] * a) * state + (dt * x)[..., None] * b
    return torch.bmm(state, c).squeeze(-1), state


def scan_token(u, delta, a, b, c, state, skip, gate, bias, delta_softplus):
    """One position of all features of one batch element."""
    delta = delta if bias is None else delta + bias
    delta = softplus(delta) if delta_softplus else delta
    y, state = step(u, delta, a, b, c, state)
    y = y if skip is None else y + skip * u
    return (y if gate is None else y * silu(gate)), state


def selective_scan(row):
    d, n = row["D_inner"], row["D_state"]

    def token():
        given = [
            torch.empty(1, d) if row.record.present(name) else None
            for name in ("D", "z", "delta_bias")
        ]
        x, dt, a, state = (torch.empty(1, d, *more) for more in ((), (), (n,), (n,)))
        b, c = torch.empty(1, 1, n), torch.empty(1, n, 1)
        scan_token(x, dt, a, b, c, state, *given, row["delta_softplus"])
        if row.record.present("seq_idx"):
            _ = torch.empty(1, dtype=torch.int32) == torch.empty(1, dtype=torch.int32)

    return row["Bsz"] * row["S"] * operations(token)


def one_step(row):
    def token():
        lead = row["Bsz"] * row["H"], row["D_head"]
        x, dt, a, state = (
            torch.empty(*lead, *more) for more in ((), (), (row["D_state"],), (row["D_state"],))
        )
        b, c = torch.empty(lead[0], 1, row["D_state"]), torch.empty(lead[0], row["D_state"], 1)
        step(x, dt, a, b, c, state)

    return operations(token)


# -- stages by chunk: dt and dA are [Q], x is [Q, P], b and c are [Q, N] --------------------------


def chunk_cumsum(dt, a, bias, dt_softplus, dt_min, dt_max):
    dt = dt if bias is None else dt + bias
    dt = softplus(dt) if dt_softplus else dt
    if not (dt_softplus and dt_min <= 0):
        dt = dt.clamp_min(dt_min)
    if dt_max < float("inf"):
        dt = dt.clamp_max(dt_max)
    return dt, (dt * a).cumsum(0)


def chunk_state(x, b, dt, da):
    """What the positions add to the state; the narrower operand is multiplied by their factors."""
    factors = (torch.exp(da[-1] - da) * dt)[:, None]
    return (factors * x).mT @ b if x.shape[1] <= b.shape[1] else x.mT @ (factors * b)


def pass_state(state, states, da):
    return torch.exp(da) * state + states


def chunk_scan(x, cb, da, c, state, dt):
    decay, dx = torch.exp(da)[:, None], dt[:, None] * x
    if x.shape[1] <= c.shape[1]:
        start = decay * (c @ state.mT)
    else:
        start = (decay * c) @ state.mT
    rows = []
    for i in range(len(x)):
        seen = slice(0, i + 1)
        weights = cb[i, seen] * torch.exp(da[i] - da[seen])
        rows.append(torch.addmm(start[i : i + 1], weights[None], dx[seen]))
    return torch.cat(rows)


@cache
def scan_of_one_chunk(q, p, n):
    def chunk():
        dt, state = torch.empty(q), torch.empty(p, n)
        chunk_scan(torch.empty(q, p), torch.empty(q, q), dt, torch.empty(q, n), state, dt)

    return operations(chunk, on="cpu")


@cache
def coupling_of_one_chunk(q, n):
    return operations(lambda: lower(torch.empty(q, n), torch.empty(q, n)), on="cpu")


def state_of_positions(count, p, n):
    def chunk():
        chunk_state(torch.empty(count, p), torch.empty(count, n), *torch.empty(2, count))

    return operations(chunk) if count else 0


def live(row):
    """How many positions of each chunk belong to its last one's sequence."""
    chunks, q = row["NC"], row["Q"]
    if not row.record.present("seq_idx"):
        return [q] * row["Bsz"] * chunks
    every = [idx for batch in row.values("seq_idx") for idx in batch]
    parts = [every[i : i + q] for i in range(0, len(every), q)]
    return [sum(idx == part[-1] for idx in part) if part[-1] >= 0 else 0 for part in parts]


def states(row):
    found = sum(row["H"] * state_of_positions(n, row["D_head"], row["D_state"]) for n in live(row))
    return found + (row.numel("seq_idx") if row.record.present("seq_idx") else 0)


def cumsum(row, dt_min=0.0, dt_max=float("inf")):
    def every():
        bias = torch.empty(1) if row.record.present("dt_bias") else None
        positions = torch.empty(row["Bsz"] * row["S"] * row["H"])
        chunk_cumsum(positions, torch.empty(1), bias, row["dt_softplus"], dt_min, dt_max)

    return operations(every)


def passing(row, chunks, width):
    lead = row["Bsz"], row["H"]
    one = operations(
        lambda: pass_state(
            torch.empty(*lead, width), torch.empty(*lead, width), torch.empty(*lead, 1)
        )
    )
    return chunks * one


def mamba2(row):
    q, p, n = row["chunk_size"], row["D_head"], row["D_state"]
    chunks = row["S"] // q
    by_head = state_of_positions(q, p, n) + scan_of_one_chunk(q, p, n)
    each = row["H"] * by_head + row["G"] * coupling_of_one_chunk(q, n)
    return cumsum(row) + row["Bsz"] * chunks * each + passing(row, chunks, p * n)


FLOPS = {
    "CausalConv1dFwdOp": lambda row: row["L"] * conv_token(row),
    "CausalConv1dUpdateFwdOp": lambda row: row["N"] * conv_token(row),
    "SelectiveScanFwdOp": selective_scan,
    "SSDRecurrentFwdOp": one_step,
    "SSDChunkCumsumFwdOp": lambda row: cumsum(row, row["dt_min"], row["dt_max"]),
    "SSDChunkCouplingFwdOp": lambda row: (
        row["Bsz"] * row["NC"] * row["G"] * coupling_of_one_chunk(row["chunk_size"], row["D_state"])
    ),
    "SSDChunkStateFwdOp": states,
    "SSDStatePassingFwdOp": lambda row: passing(row, row["NC"], row["D_flat"]),
    "SSDChunkScanFwdOp": lambda row: (
        row["Bsz"]
        * row["NC"]
        * row["H"]
        * scan_of_one_chunk(row["Q"], row["D_head"], row["D_state"])
    ),
    "Mamba2FwdOp": mamba2,
}


@pytest.mark.parametrize("op", OPS)
def test_flops_are_those_of_the_steps_or_the_chunks(op):
    assert differing(op, FLOPS[op], "flops") == {}


def of_conv(row):
    """A sequence's tokens are kept, and read where it goes on; an empty one's stay."""
    offsets = row.values("cu_seqlens")
    kept = sum(end > start for start, end in itertools.pairwise(offsets))
    times = 2 if row.record.present("has_initial_state") else 1
    state = times * kept * (row.size("conv_state") // row["N"])
    return state + row.size(*set(row.record.tensors) - {"conv_state"})


def of_chunk_state(row):
    """Positions that count for nothing are not read."""
    per_position = ("x", "B", "dt", "dA_cumsum")
    read = row.size(*per_position) // (row["Bsz"] * row["NC"] * row["Q"]) * sum(live(row))
    return read + row.size("seq_idx", "states")


def of_chunk_scan(row):
    """Of a triangle nothing behind its diagonal."""
    pairs = sum(1 for i in range(row["Q"]) for j in range(row["Q"]) if j <= i)
    read = row.size("cb") // row["Q"] ** 2 * pairs
    return read + row.size(*set(row.record.tensors) - {"cb"})


BYTES = {
    "CausalConv1dFwdOp": of_conv,
    "CausalConv1dUpdateFwdOp": lambda row: row.size("conv_state", *row.record.tensors),
    "SSDRecurrentFwdOp": lambda row: row.size("state", *row.record.tensors),
    "SSDChunkStateFwdOp": of_chunk_state,
    "SSDChunkScanFwdOp": of_chunk_scan,
}


@pytest.mark.parametrize("op", OPS)
def test_bytes_are_those_of_every_tensor_that_is_needed(op):
    count = BYTES.get(op, lambda row: row.size(*row.record.tensors))
    assert differing(op, count, "bytes") == {}


# -- the formulas that are counted are right ------------------------------------------------------


def test_the_stages_give_what_steps_give():
    q, chunks, p, n = 4, 3, 2, 3
    generator = torch.Generator().manual_seed(0)
    shapes = (chunks * q, p), (chunks * q, n), (chunks * q, n), (chunks * q,), (p, n)
    x, b, c, dt, state = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    a = torch.tensor(-0.5, dtype=torch.float64)
    right, last = [], state
    for t in range(chunks * q):
        token = x[t][None], torch.nn.functional.softplus(dt[t]).expand(1, p), a
        y, last = step(*token, b[t][None, None], c[t][None, :, None], last.view(1, p, n))
        right.append(y)
    ours = []
    for i in range(chunks):
        at = slice(i * q, (i + 1) * q)
        out, da = chunk_cumsum(dt[at], a, None, True, 0.0, float("inf"))
        cb = lower(c[at], b[at])
        ours.append(chunk_scan(x[at], cb, da, c[at], state, out))
        state = pass_state(state, chunk_state(x[at], b[at], out, da), da[-1])
    torch.testing.assert_close(torch.cat(ours), torch.cat(right))
    torch.testing.assert_close(state, last[0])


def test_the_convolution_is_that_of_torch():
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((9, 5), (4, 5), 5)
    )
    right = torch.nn.functional.conv1d(x.mT, weight.mT[:, None], bias, groups=5).mT
    ours = [conv(x[t : t + 4], weight, bias, "silu") for t in range(6)]
    torch.testing.assert_close(torch.stack(ours), torch.nn.functional.silu(right))
