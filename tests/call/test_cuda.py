"""What calls do on a CUDA device; skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from tileops_core.errors import BackendError, SignatureError
from tileops_core.kernels.device_facts import facts_of
from tileops_core.ops import AddFwdOp, GEMMFwdOp, ReLUFwdOp, RMSNormFwdOp

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(8, 64, device="cuda")


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.randn(64, device="cuda")


def test_tensors_on_two_devices_are_refused_with_both_named(x, weight):
    """PIPE-14."""
    op = RMSNormFwdOp((64,))
    with pytest.raises(SignatureError, match="weight is on cpu, x is on cuda:0"):
        op(x, weight.cpu())
    with pytest.raises(SignatureError, match="other is on cpu, input is on cuda:0"):
        AddFwdOp()(x, torch.tensor(1.0))
    assert op(x, weight).device == x.device


def test_one_instance_serves_two_devices(x, weight):
    op = RMSNormFwdOp((64,))
    torch.testing.assert_close(op(x, weight).cpu(), op(x.cpu(), weight.cpu()))
    assert op.last_call.device.type == "cpu"


def test_a_call_runs_on_the_current_stream(x):
    """DIS-16."""
    op = GEMMFwdOp()
    big = torch.randn(2048, 2048, device="cuda")
    op(big, big)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        produced = big
        for _ in range(20):
            produced = produced @ big / 64
        result = op(produced, big)
    side.synchronize()
    torch.testing.assert_close(result, produced @ big.t(), rtol=1e-3, atol=1e-2)


def test_a_warm_call_is_captured_and_replayed(x, weight):
    """CMP-08."""
    op = RMSNormFwdOp((64,))
    op(x, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = op(x, weight)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(result, op(x, weight))


def test_a_call_that_would_build_during_a_capture_is_refused(x):
    """CMP-08."""
    op = ReLUFwdOp()
    graph = torch.cuda.CUDAGraph()
    refused = None
    with torch.cuda.graph(graph):
        torch.zeros(1, device="cuda")
        try:
            op(x)
        except BackendError as error:
            refused = error
    assert refused is not None
    assert "while a CUDA graph is captured" in str(refused)
    assert op.serving_target is None
    assert torch.equal(op(x), torch.relu(x))


def test_device_facts_are_the_devices():
    facts = facts_of(torch.device("cuda:0"))
    properties = torch.cuda.get_device_properties(0)
    if torch.version.hip is None:
        assert facts.arch == properties.major * 10 + properties.minor
    assert facts.sm_count == properties.multi_processor_count
    assert facts.smem_budget is not None
