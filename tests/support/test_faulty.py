from __future__ import annotations

import threading

import faulty
import pytest
import torch

from tileops_core.kernels.contracts import install
from tileops_core.kernels.dispatch import decide, entry_for
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import load_spec_from


@pytest.fixture
def x():
    return torch.arange(6.0).reshape(2, 3)


def outcome(fault, x):
    """What a fault returns, or what it raises."""
    try:
        return fault.does(x), None
    except BaseException as error:
        return None, error


@pytest.mark.parametrize("op", faulty.SPECS)
def test_every_entry_is_a_good_one(op):
    signature = build_signature(load_spec_from(faulty.SPECS[op], op))
    assert signature.op == op


def test_every_entry_has_a_kernel():
    assert list(faulty.KERNELS) == list(faulty.SPECS)


@pytest.mark.parametrize("op", faulty.SPECS)
def test_every_kernel_computes_what_its_entry_says(op):
    signature = build_signature(load_spec_from(faulty.SPECS[op], op))
    inputs = {
        t.name: torch.ones((2, 3) if t.shape_text == "[M, N]" else (2,), dtype=DTYPES[t.dtype_text])
        for t in signature.inputs
    }
    params = {p.name: p.default for p in signature.params}
    result = faulty.builder(op)(*inputs.values(), **params)(*inputs.values())
    results = result if isinstance(result, tuple) else (result,)
    for declared, tensor in zip(signature.outputs, results, strict=False):
        assert tensor.dtype is DTYPES[declared.dtype_text]
        assert tensor.shape == ((2, 3) if declared.shape_text == "[M, N]" else (2,))
    assert signature.outputs or result is None


DTYPES = {"T": torch.float32, "bool": torch.bool, "int64": torch.int64}


def test_an_in_tree_kernel_type_fits_its_interface(x):
    interfaces, kernel_type = faulty.in_tree()
    installed = install("ProbeFwdOp", interfaces, {"probe": kernel_type}, ())
    call = interfaces["probe"].request("cpu", x.dtype, tuple(x.shape))
    candidate = decide(installed, "ProbeFwdOp", "probe", call).require()
    _, factory = entry_for(candidate, "ProbeFwdOp", call)
    assert torch.equal(factory().forward(x), x * 2)


def test_an_in_tree_entry_may_be_anything():
    interfaces, kernel_type = faulty.in_tree(factory=lambda: 3)
    call = interfaces["probe"].request("cpu", torch.float32, (1,))
    assert kernel_type.entry_for(call)[1]() == 3


def test_names_of_faults_are_unique():
    for faults in (faulty.kernel_faults(), faulty.builder_faults()):
        assert len({fault.name for fault in faults}) == len(faults)


@pytest.mark.parametrize("fault", faulty.kernel_faults(), ids=lambda fault: fault.name)
def test_no_faulty_kernel_does_what_a_good_one_does(fault, x):
    result, error = outcome(fault, x)
    if error is not None:
        assert fault.is_told_by(error)
        return
    good = faulty.KERNELS["ProbeFwdOp"]()(x)
    assert not (
        type(result) is torch.Tensor
        and result.device == good.device
        and result.layout == good.layout
        and (result.shape, result.dtype) == (good.shape, good.dtype)
        and result.is_contiguous()
        and not result.requires_grad
        and result.data_ptr() != x.data_ptr()
    )


@pytest.mark.parametrize("fault", faulty.builder_faults(), ids=lambda fault: fault.name)
def test_no_faulty_builder_returns_a_kernel(fault, x):
    result, error = outcome(fault, x)
    if error is not None:
        assert fault.is_told_by(error)
    else:
        assert isinstance(result, type) or not callable(result)


def test_the_reused_buffer_changes_an_earlier_result(x):
    kernel = faulty.ReusesItsBuffer()
    first = kernel(x)
    kernel(x + 1)
    assert not torch.equal(first, x * 2)


def test_the_writing_kernel_changes_its_input(x):
    before = x.clone()
    assert torch.equal(faulty.writes_its_input(x), before * 2)
    assert not torch.equal(x, before)


def test_the_slow_builder_waits_counts_and_fails_as_told(x):
    slow = faulty.SlowBuilder(OSError("no compiler"))
    failed = []

    def build():
        try:
            slow(x)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    assert slow.started.wait(20)
    assert failed == []
    slow.let_go.set()
    thread.join(20)
    assert len(failed) == 1
    assert torch.equal(slow(x)(x), x * 2)
    assert slow.counts == {(2, 3): 2}


def test_kernels_and_builders_may_call_ops(x):
    called = []
    assert torch.equal(faulty.kernel_that_calls(called.append)(x), x * 2)
    assert torch.equal(faulty.builder_that_calls(called.append)(x)(x), x * 2)
    assert [tuple(tensor.shape) for tensor in called] == [(2, 3), (2, 2)]
