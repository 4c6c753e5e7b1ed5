"""What sits between the blocks of a model costs what its formulas compute."""

from __future__ import annotations

import pytest
import torch
from costs import differing, ops_of
from operations import operations

OPS = ops_of("sequence_modeling")


def sigmoid(x):
    return torch.reciprocal(1 + torch.exp(-x))


def rrms(x, eps):
    """1 / sqrt(mean(x²) + eps) of each row."""
    return torch.rsqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps)


# -- Engram: H, k and v are [..., S, D] ----------------------------------------------------------


def gate(h, k, w, eps):
    rh, rk = rrms(h, eps), rrms(k, eps)
    dot = (h * k * (w * w)).sum(-1, keepdim=True)
    return sigmoid(dot * (rh * rk) / h.shape[-1] ** 0.5), rh, rk


def taps(weights, x, shift=3):
    """Σ weights[j] · x[t - 3 + j] along the axis before the last; zeros before the first."""
    padded = torch.cat([torch.zeros(*x.shape[:-2], shift, x.shape[-1], dtype=x.dtype), x], -2)
    total = weights[0] * padded[..., : x.shape[-2], :]
    for j in range(1, len(weights)):
        total = total + weights[j] * padded[..., j : j + x.shape[-2], :]
    return total


def silu(x):
    return x / (1 + torch.exp(-x))


def engram(h, k, v, w_h, w_v, conv_w, eps):
    """The weight of the normalized value goes into the taps."""
    alpha, rh, rk = gate(h, k, w_h, eps)
    vhat = alpha * v
    rv = rrms(vhat, eps)
    return silu(taps(conv_w * w_v, vhat * rv)) + vhat, vhat, alpha, rh, rk, rv


def later(weights, x):
    """What :func:`taps` gives back: Σ weights[j] · x[t + 3 - j], zeros behind the last."""
    return taps(weights, x.flip(-2)).flip(-2)


def met(x, n):
    """Σ x[t] · n[t - 3 + j] of each channel and tap j, over batch and positions."""
    padded = torch.cat([torch.zeros(*n.shape[:-2], 3, n.shape[-1], dtype=n.dtype), n], -2)
    parts = [(x * padded[..., j : j + x.shape[-2], :]).sum((0, 1)) for j in range(4)]
    return torch.stack(parts)


def engram_backward(dy, h, k, v, w_h, w_v, conv_w, vhat, alpha, rh, rk, rv):
    """Factors of a position or of a channel are multiplied with each other first."""
    d = h.shape[-1]
    # The convolution again, and what comes to it.
    weights, n = conv_w * w_v, vhat * rv
    c = taps(weights, n)
    s = sigmoid(c)
    dc = dy * (s * (1 + c * (1 - s)))
    # The weights of convolution and norm share the sums over positions.
    sums = met(dc, n)
    dconv_w, drms_w_v = sums * w_v, (sums * conv_w).sum(0)
    dn = later(weights, dc)
    dvhat = rv * (dn - n * ((dn * n).sum(-1, keepdim=True) / d)) + dy
    dalpha, dv = (dvhat * v).sum(-1, keepdim=True), dvhat * alpha
    # The gate's logit is p · Σ H k w².
    p = rh * rk
    hk, ww = h * k, w_h * w_h
    dot = (hk * ww).sum(-1, keepdim=True)
    dp = dalpha * (alpha * (1 - alpha)) / d**0.5 * p
    drms_w_h = 2 * w_h * (hk * dp).sum((0, 1))
    back = dp * dot / d
    dh = dp * (k * ww) - back * (rh * rh) * h
    dk = dp * (h * ww) - back * (rk * rk) * k
    return dh, dk, dv, drms_w_h, drms_w_v, dconv_w


def engram_decode(e, h, state, w_k, w_v, rms_w_h, rms_w_v, conv_w, eps):
    """``state`` has what the taps but the last one meet."""
    k, v = e @ w_k, e @ w_v
    alpha, *_ = gate(h, k, rms_w_h, eps)
    vhat = alpha * v
    m = vhat * rrms(vhat, eps) * rms_w_v
    total = conv_w[-1] * m
    for w, x in zip(conv_w[:-1], state, strict=True):
        total = total + w * x
    return silu(total) + vhat, m


# -- mHC ---------------------------------------------------------------------------------------


def divided(m, axis, eps):
    """By sums that start at eps."""
    total = eps
    for part in m.unbind(axis):
        total = part + total
    return m / total.unsqueeze(axis)


def mhc_pre(phi, x, b, alphas, repeat, eps):
    batch, c = x.shape
    n = round((1 + phi.shape[1]) ** 0.5) - 1
    r = torch.sqrt((x * x).sum(-1, keepdim=True)) / c**0.5 + 1e-4
    y = x @ phi
    parts = [
        part * (torch.full((), alpha) / r) + bias
        for part, alpha, bias in zip(
            y.split([n, n, n * n], 1), alphas, b.split([n, n, n * n]), strict=True
        )
    ]
    pre = sigmoid(parts[0])
    post = torch.full((), 2.0) / (1 + torch.exp(-parts[1]))
    z = parts[2].view(batch, n, n)
    m = torch.exp(z - z.amax(-1, keepdim=True))
    for _ in range(repeat):
        m = divided(divided(m, 2, eps), 1, eps)
    streams = x.view(batch, n, c // n)
    return m @ streams, pre[:, None] @ streams, post


def mhc_post(layer, post, res):
    return post[:, :, None] * layer[:, None] + res


# -- counts -------------------------------------------------------------------------------------


def blanks(row, *names):
    return [torch.empty(row.shape(name), device="meta") for name in names]


def engram_forward(row):
    return operations(engram, *blanks(row, "H", "k", "v", "rms_w_h", "rms_w_v", "conv_w"), 1e-6)


def backward(row):
    given = blanks(row, "dY", "H", "k", "v", "rms_w_h", "rms_w_v", "conv_w", "vhat")
    kept = [x[..., None] for x in blanks(row, "alpha", "rrms_h", "rrms_k", "rrms_v")]
    return operations(engram_backward, *given, *kept)


def decode(row):
    e, h, *weights = blanks(row, "e_t", "h_t", "W_K", "W_V", "rms_w_h", "rms_w_v", "conv_w")
    state = torch.empty(row["conv_kernel_size"] - 1, *h.shape, device="meta")
    return operations(engram_decode, e, h, state, *weights, 1e-6)


def pre(row):
    alphas = [row[f"alpha_{part}"] for part in ("pre", "post", "res")]
    return operations(
        mhc_pre, *blanks(row, "phi", "x", "b"), alphas, row["sinkhorn_repeat"], row["sinkhorn_eps"]
    )


def post(row):
    layer, h_post, res = blanks(row, "x_layer_out", "h_post", "x_res")
    return operations(mhc_post, layer, h_post, res.view(row["B"], row["N"], row["D"]))


FLOPS = {
    "EngramGateConvFwdOp": engram_forward,
    "EngramGateConvBwdOp": backward,
    "EngramDecodeFwdOp": decode,
    "MHCPreFwdOp": pre,
    "MHCPostFwdOp": post,
}


@pytest.mark.parametrize("op", OPS)
def test_flops_are_the_operations_of_the_formulas(op):
    assert differing(op, FLOPS[op], "flops") == {}


@pytest.mark.parametrize("op", OPS)
def test_bytes_are_those_of_every_tensor(op):
    assert differing(op, lambda row: row.size(*row.record.tensors), "bytes") == {}


# -- the formulas that are counted are right ------------------------------------------------------


def data(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def normed(x, eps=1e-6):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], eps=eps)


def plain_engram(h, k, v, w_h, w_v, conv_w):
    logit = (normed(h) * w_h * (normed(k) * w_h)).sum(-1, keepdim=True) / h.shape[-1] ** 0.5
    vhat = torch.sigmoid(logit) * v
    m = torch.nn.functional.pad(normed(vhat) * w_v, (0, 0, 3, 0))
    c = torch.nn.functional.conv1d(m.mT, conv_w.mT[:, None], groups=h.shape[-1]).mT
    return torch.nn.functional.silu(c) + vhat


B, S, D = 2, 6, 5
ENGRAM = [(B, S, D)] * 3 + [(D,), (D,), (4, D)]


def test_engram_is_the_documented_formula():
    given = data(*ENGRAM)
    torch.testing.assert_close(engram(*given, 1e-6)[0], plain_engram(*given))


def test_the_gradients_of_engram_are_those_of_autograd():
    given = [x.requires_grad_() for x in data(*ENGRAM)]
    (dy,) = data((B, S, D))
    right = torch.autograd.grad((plain_engram(*given) * dy).sum(), given)
    with torch.no_grad():
        _, *kept = engram(*given, 1e-6)
        ours = engram_backward(dy, *given, *kept)
    for one, other in zip(ours, right, strict=True):
        torch.testing.assert_close(one, other)


def test_a_decoded_token_is_the_last_one_of_a_sequence():
    h, _, e, w_h, w_v, conv_w, w_k, w_value = data(*ENGRAM, (D, D), (D, D))
    k, v = e @ w_k, e @ w_value
    right, vhat, *_ = engram(h, k, v, w_h, w_v, conv_w, 1e-6)
    m = vhat * rrms(vhat, 1e-6) * w_v
    weights = w_k, w_value, w_h, w_v, conv_w
    y, kept = engram_decode(e[:, -1], h[:, -1], m[:, -4:-1].unbind(1), *weights, 1e-6)
    torch.testing.assert_close(y, right[:, -1])
    torch.testing.assert_close(kept, m[:, -1])


def test_the_streams_are_mixed_by_the_documented_formula():
    phi, x, b = data((6, 8), (3, 6), (8,))
    mixed, layer, post = mhc_pre(phi, x, b, (0.5, 0.25, 2.0), 3, 0.02)
    r = x.norm(dim=-1, keepdim=True) / 6**0.5 + 1e-4
    y = x @ phi / r
    pre = torch.sigmoid(0.5 * y[:, :2] + b[:2])
    z = (2.0 * y[:, 4:] + b[4:]).view(3, 2, 2)
    m = torch.exp(z - z.max(-1, keepdim=True).values)
    for _ in range(3):
        m = m / (m.sum(-1, keepdim=True) + 0.02)
        m = m / (m.sum(-2, keepdim=True) + 0.02)
    torch.testing.assert_close(mixed, m @ x.view(3, 2, 3))
    torch.testing.assert_close(layer.squeeze(1), (pre[:, :, None] * x.view(3, 2, 3)).sum(1))
    torch.testing.assert_close(post, 2 * torch.sigmoid(0.25 * y[:, 2:4] + b[2:4]))
