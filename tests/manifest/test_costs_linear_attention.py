"""What linear attention costs: a token's step, or a chunk's products row by row."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from costs import differing, ops_of
from operations import operations
from triangles import lower, lower_times, rows_of_triangle, upper_times

OPS = ops_of("linear_attention")


# -- by token: [heads, width], states [heads, K, V] ---------------------------------------------


def normalized(x):
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def sigmoid(x):
    return torch.reciprocal(1 + torch.exp(-x))


def softplus(x):
    return torch.where(x > 20, x, torch.log1p(torch.exp(x)))


def read(state, x):
    """stateᵀ x of each head."""
    return torch.bmm(state.mT, x[..., None]).squeeze(-1)


def per_value_head(x, heads):
    return x.repeat_interleave(heads // len(x), 0, output_size=heads)


def delta_step(q, k, v, beta, state, scale=None, norm=False, decay=None):
    """One token: the result, and the state behind it."""
    if norm:
        q, k = normalized(q), normalized(k)
    if scale is not None:
        q = q * scale
    q, k = per_value_head(q, len(v)), per_value_head(k, len(v))
    if decay is not None:
        state = state * torch.exp(decay).view(len(v), -1, 1)
    u = (v - read(state, k)) * beta[:, None]
    state = state + k[:, :, None] * u[:, None, :]
    return read(state, q), state


def gla_step(q, k, v, g, state, scale=1.0):
    state = torch.exp(g)[:, :, None] * state + k[:, :, None] * v[:, None, :]
    return read(state, q * scale), state


def raw_gate(g, coefficient, bias, lower_bound):
    """``coefficient`` is -exp(A_log), one per head."""
    if bias is not None:
        g = g + bias
    if lower_bound is None:
        return coefficient * softplus(g)
    return torch.full((), lower_bound) / (1 + torch.exp(coefficient * g))


def coefficient(a_log):
    return -torch.exp(a_log)


def gated_token(row):
    heads, values, k, v = row["H"], row["H_v"], row["K"], row["V"]
    by_channel = row.record.op == "KDAFwdOp"
    g, beta = torch.empty(values, k if by_channel else 1), torch.empty(values)
    if row["use_gate_in_kernel"]:
        bias = torch.empty(g.shape) if row.record.present("dt_bias") else None
        bound = row["lower_bound"] if by_channel else None
        g = raw_gate(g, torch.empty(values, 1), bias, bound)
    if row["use_beta_sigmoid_in_kernel"]:
        beta = sigmoid(beta)
        beta = 2 * beta if row["allow_neg_eigval"] else beta
    norm, shape = row["use_qk_l2norm_in_kernel"], (heads, k)
    state = torch.empty(values, k, v)
    q, k, v = torch.empty(shape), torch.empty(shape), torch.empty(values, v)
    delta_step(q, k, v, beta, state, 0.5, norm, g)


def gated(row):
    heads = torch.empty(row["H_v"], device="meta")
    once = operations(coefficient, heads) if row["use_gate_in_kernel"] else 0
    return row["B"] * row["S"] * operations(gated_token, row) + once


def delta(row, scale, norm=False):
    h, k, v = row["H"], row["K"], row["V"]

    def token():
        q, key, value = torch.empty(h, k), torch.empty(h, k), torch.empty(h, v)
        delta_step(q, key, value, torch.empty(h), torch.empty(h, k, v), scale, norm)

    return operations(token)


def gla(row):
    h, k, v = row["H"], row["K"], row["V"]

    def token():
        q, key, value, g = (torch.empty(h, n) for n in (k, k, v, k))
        gla_step(q, key, value, g, torch.empty(h, k, v), 0.5)

    return operations(token)


# -- by chunk of one head: [C, width]; of triangles each row by itself --------------------------


def inverse(n):
    """Of I - n, n strictly lower: a row that is ready goes, times a column of n, to those below."""
    rest = n
    for i in range(1, len(n) - 1):
        below = torch.addmm(rest[i + 1 :, :i], n[i + 1 :, i : i + 1], rest[i : i + 1, :i])
        rest = torch.cat([rest[: i + 1], torch.cat([below, rest[i + 1 :, i:]], 1)])
    one = torch.ones(1, 1, dtype=n.dtype)
    return rows_of_triangle(
        [torch.cat([rest[i : i + 1, :i], one], 1) for i in range(len(n))], len(n)
    )


def delta_chunk(q, k, v, beta, state):
    """The chunk's result, the state behind it, and what the backward wants."""
    x, y = k * beta[:, None], v * beta[:, None]
    a = inverse(lower(x, k, strict=True, sign=-1))
    w, u = lower_times(a, x, x, strict=True), lower_times(a, y, y, strict=True)
    e = torch.addmm(u, w, state, alpha=-1)
    return lower_times(lower(q, k), e, q @ state), torch.addmm(state, k.mT, e), (a, w, u)


def delta_chunk_backward(do, q, k, v, beta, state, kept, behind):
    """Gradients of the chunk and of the state before it; ``behind`` is that of the one after."""
    a, w, u = kept
    e, p = torch.addmm(u, w, state, alpha=-1), lower(q, k)
    de, dp = upper_times(p, do, k @ behind), lower(do, e)
    dq = lower_times(dp, k, do @ state.mT)
    before = torch.addmm(torch.addmm(behind, q.mT, do), w.mT, de, alpha=-1)
    dw = torch.addmm(torch.zeros(k.shape, dtype=k.dtype), de, state.mT, alpha=-1)
    dx, dy = upper_times(a, dw, dw, strict=True), upper_times(a, de, de, strict=True)
    da = lower(dy, u, lower(dx, w, strict=True, sign=-1), strict=True, sign=-1)
    dx = lower_times(da, k, dx, strict=True)
    dk = upper_times(da, k * beta[:, None], upper_times(dp, q, e @ behind.mT), strict=True)
    dbeta = torch.cat([dx * k, dy * v], 1).sum(1)
    return (dq, dk + dx * beta[:, None], dy * beta[:, None], dbeta), before


def gla_chunk(q, k, v, g, state, scale):
    decay = torch.exp(g.cumsum(0))
    q, k = q * scale * decay, k / decay
    o = lower_times(lower(q, k), v, q @ state)
    return o, decay[-1, :, None] * torch.addmm(state, k.mT, v)


def gla_chunk_backward(do, q, k, v, g, states, behind, scale):
    """Gradients from that of the state behind the chunk; ``states`` are before and behind it."""
    decay = torch.exp(g.cumsum(0))
    q_, k_, e = q * decay, k / decay, scale * do
    f, dp = decay[-1, :, None] * behind, lower(e, v)
    dq = lower_times(dp, k_, e @ states[0].mT) * decay
    dk = upper_times(dp, q_, v @ f.mT) / decay
    dv = upper_times(lower(q_, k_), e, k_ @ f)
    db = dq * q - dk * k
    last = torch.baddbmm(db[-1, :, None, None], behind[:, None, :], states[1][:, :, None])
    dg = torch.cat([db[:-1], last.view(1, -1)]).flip(0).cumsum(0).flip(0)
    return (dq, dk, dv, dg), torch.addmm(f, q_.mT, e)


@cache
def of_one_chunk(op, c, k, v):
    keys, values, state = (lambda: torch.empty(c, k)), (lambda: torch.empty(c, v)), (k, v)

    def chunk():
        q, key, value, m = keys(), keys(), values(), torch.empty(state)
        if op == "DeltaNetChunkFwdOp":
            delta_chunk(q, key, value, torch.empty(c), m)
        elif op == "DeltaNetChunkBwdOp":
            kept = torch.empty(c, c), keys(), values()
            delta_chunk_backward(values(), q, key, value, torch.empty(c), m, kept, m)
        elif op == "GLAChunkFwdOp":
            gla_chunk(q, key, value, keys(), m, 0.5)
        else:
            gla_chunk_backward(values(), q, key, value, keys(), (m, m), m, 0.5)

    return operations(chunk, on="cpu")


def chunks(row):
    size = row["chunk_size"]
    one = of_one_chunk(row.record.op, size, row["K"], row["V"])
    return row["B"] * row["H"] * (row["S"] // size) * one


FLOPS = {
    "DeltaNetFwdOp": lambda row: (
        row["B"] * row["S"] * delta(row, 0.5, row["use_qk_l2norm_in_kernel"])
    ),
    "GDNFwdOp": gated,
    "KDAFwdOp": gated,
    "GLAFwdOp": lambda row: row["B"] * row["S"] * gla(row),
    "DeltaNetRecurrentFwdOp": lambda row: row["B"] * delta(row, None),
    "GLARecurrentFwdOp": lambda row: row["B"] * gla(row),
}


@pytest.mark.parametrize("op", OPS)
def test_flops_are_those_of_the_steps_or_the_chunks(op):
    assert differing(op, FLOPS.get(op, chunks), "flops") == {}


def moved(row):
    """All that there is once, except what a backward knows otherwise."""
    names = set(row.record.tensors)
    if row.record.op != "DeltaNetChunkBwdOp":
        return row.size(*names)
    states, size = row.shape("h")[2], row["chunk_size"]
    below_diagonal = row["B"] * row["H"] * row["NC"] * sum(range(size))
    read = row.size(*names - {"Aw", "Au", "h"}) + row.size("h") // states * (states - 1)
    return read + row.size("Aw") // row.numel("Aw") * below_diagonal


@pytest.mark.parametrize("op", OPS)
def test_bytes_are_those_of_every_tensor_that_is_needed(op):
    assert differing(op, moved, "bytes") == {}


# -- the formulas that are counted are right ----------------------------------------------------

C, K, V = 5, 3, 4


def data(*shapes):
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [x.requires_grad_() for x in made]


def by_steps(step, state, *tensors):
    results = []
    for token in zip(*tensors, strict=True):
        result, state = step(*(x[None] for x in token), state[None])
        results.append(result[0])
        state = state[0]
    return torch.stack(results), state


def close(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_chunk_of_the_delta_rule_gives_what_its_steps_give():
    q, k, v, beta, state = data((C, K), (C, K), (C, V), (C,), (K, V))
    close(delta_chunk(q, k, v, beta, state)[:2], by_steps(delta_step, state, q, k, v, beta))


def test_gradients_of_a_chunk_of_the_delta_rule_are_those_of_its_steps():
    given = data((C, K), (C, K), (C, V), (C,), (K, V))
    do, behind = data((C, V), (K, V))
    *tensors, state = given
    o, last = by_steps(delta_step, state, *tensors)
    right = torch.autograd.grad((o * do).sum() + (last * behind).sum(), given)
    with torch.no_grad():
        kept = delta_chunk(*tensors, state)[2]
        gradients, before = delta_chunk_backward(do, *tensors, state, kept, behind)
    close((*gradients, before), right)


def test_a_chunk_of_gated_linear_attention_gives_what_its_steps_give():
    q, k, v, g, state = data((C, K), (C, K), (C, V), (C, K), (K, V))
    steps = by_steps(lambda *token: gla_step(*token, 0.5), state, q, k, v, g)
    close(gla_chunk(q, k, v, g, state, 0.5), steps)


def test_gradients_of_a_chunk_of_gated_linear_attention_are_those_of_its_steps():
    given = data((C, K), (C, K), (C, V), (C, K), (K, V))
    do, behind = data((C, V), (K, V))
    *tensors, state = given
    o, last = by_steps(lambda *token: gla_step(*token, 0.5), state, *tensors)
    right = torch.autograd.grad((o * do).sum() + (last * behind).sum(), given)
    with torch.no_grad():
        gradients, before = gla_chunk_backward(do, *tensors, (state, last), behind, 0.5)
    close((*gradients, before), right)


def test_raw_gates_are_the_documented_ones():
    g, bias, a_log = (x.detach() for x in data((2, K), (2, K), (2, 1)))
    bounded = -5 * torch.sigmoid(torch.exp(a_log) * (g + bias))
    free = -torch.exp(a_log) * torch.nn.functional.softplus(g + bias)
    close([raw_gate(g, coefficient(a_log), bias, -5.0)], [bounded])
    close([raw_gate(g, coefficient(a_log), bias, None)], [free])
