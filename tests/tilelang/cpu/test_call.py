"""What surrounds a call."""

from __future__ import annotations

import pytest
import torch

from tileops_tilelang.cpu import call


def test_little_work_stays_in_one_thread(two_threads, monkeypatch):
    assert call.threads_for(0) == 1
    assert call.threads_for(call._WORTH_THREADS - 1) == 1
    assert call.threads_for(call._WORTH_THREADS) == 2
    torch.set_num_threads(1)
    assert call.threads_for(1 << 30) == 1
    torch.set_num_threads(2)
    monkeypatch.setattr(call, "_forked", True)
    assert call.threads_for(1 << 30) == 1


GOOD = torch.ones(4, 6)


def test_dense_memory_of_the_right_dtype_and_size_agrees():
    assert call.agree(GOOD, torch.float32, 24)
    assert call.agree(GOOD[1:], torch.float32, 18)
    assert call.agree(torch.empty(0), torch.float32, 0)


@pytest.mark.parametrize(
    "tensor",
    [
        GOOD.double(),
        GOOD[:3],
        GOOD.t(),
        GOOD[:, :3].repeat(1, 4)[:, ::2],
        GOOD[:1].expand(4, 6),
        torch._neg_view(GOOD),
        GOOD.to("meta"),
    ],
)
def test_anything_else_does_not(tensor):
    assert not call.agree(tensor, torch.float32, 24)


def test_what_does_not_agree_is_told_by_name():
    error = call.disagreement("RMSNorm", x=GOOD.half(), weight=None)
    assert isinstance(error, ValueError)
    assert "RMSNorm: x ('torch.float16', (4, 6), 'cpu'), weight None" in str(error)
    assert "call the op" in str(error)


@pytest.mark.parametrize("start", [0, 1, 100])
def test_large_pages_change_no_content(start):
    x = torch.arange(1 << 22)[start:]
    call.in_large_pages(x)
    assert torch.equal(x, torch.arange(start, 1 << 22))
    call.in_large_pages(torch.empty(0))
    call.in_large_pages(torch.empty(1))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("op", ["norm", "gated", "softmax", "rope"])
def test_results_that_ask_for_large_pages_are_right(op):
    from tileops_core import ops

    x = torch.randn((call.LARGE // 4 + 4096) // 64, 64)
    calls = {
        "norm": lambda t: ops.FusedAddRMSNormFwdOp(target=t)(x, x, x[0])[0],
        "gated": lambda t: ops.SiLUAndMulFwdOp(target=t)(x.repeat(1, 2)),
        "softmax": lambda t: ops.SoftmaxFwdOp(-1, target=t)(x),
        "rope": lambda t: ops.RoPEFwdOp(target=t)(x),
    }
    torch.testing.assert_close(calls[op]("tilelang"), calls[op]("reference"))
