"""Parameters that are tensors, on their way to a kernel."""

from __future__ import annotations

from abc import abstractmethod

import pytest
import torch
from call_support import op_class

from tileops_core.call.constants import constants, given
from tileops_core.kernels import CallSpec, Kernel, KernelInterface

SPEC = {
    "family": "probe",
    "status": "spec-only",
    "signature": {
        "forall": {"N": "Dim", "T": "DType[float16 | float32]"},
        "params": {
            "weight": {"dtype": "T", "shape": "[N]"},
            "shift": {"dtype": "float32", "shape": "[]", "optional": True, "kw_only": True},
        },
        "inputs": {"x": {"dtype": "T", "shape": "[N]"}},
        "outputs": {"y": {"dtype": "T", "shape": "[N]"}},
    },
    "workloads": [{"label": "small", "N": 4, "dtype_cases": [{"T": "float32"}]}],
    "roofline": {"flops": "N"},
}


class AffineCall(CallSpec):
    """The only facts."""

    dtype: torch.dtype


class AffineInterface(KernelInterface):
    """Weights, then perhaps shifts."""

    request = AffineCall

    @abstractmethod
    def forward(self, x, weight, shift):
        """Weigh and shift."""


class AffineKernel(AffineInterface, Kernel):
    """Does it in torch."""

    devices = None
    general = True

    @classmethod
    def entry_for(cls, call):
        return call.dtype, cls

    def forward(self, x, weight, shift):
        return x * weight if shift is None else x * weight + shift


def affine():
    return op_class(
        "AffineFwdOp",
        spec=SPEC,
        interfaces={"affine": AffineInterface},
        kernel_types={"torch": AffineKernel},
        call_spec=lambda self, x: AffineCall(x.device, x.dtype),
    )


@pytest.fixture(scope="module")
def make():
    return affine()


def test_an_interface_takes_them_by_name(make):
    x, weight = torch.arange(4.0), torch.arange(1.0, 5.0)
    op = make(weight, shift=torch.tensor(2.0))
    for _ in range(2):
        assert torch.equal(op(x), x * weight + 2)
    assert torch.equal(make(weight)(x), x * weight)


def test_a_body_that_is_called_by_hand_takes_them_too(make):
    x, weight = torch.arange(4.0), torch.arange(1.0, 5.0)
    assert torch.equal(make(weight).forward(x), x * weight)


def test_what_a_tensor_settles_at_construction_checks_the_calls(make):
    op = make(torch.ones(4))
    assert op._plan.static_names == ("weight", "shift", "T", "N")
    with pytest.raises(ValueError, match=r"x has shape \(3,\), the signature says \[N\] = \(4,\)"):
        op(torch.ones(3))
    with pytest.raises(ValueError, match="x has dtype float16, the signature says T = float32"):
        op(torch.ones(4, dtype=torch.float16))


def test_one_on_the_calls_device_is_the_parameter_itself(make):
    op = make(torch.ones(4))
    found = constants(op, torch.device("cpu"))
    assert found["weight"] is op.weight
    assert found["shift"] is None


def test_one_elsewhere_is_copied_once_and_kept(make):
    op, meta = make(torch.ones(4)), torch.device("meta")
    first = constants(op, meta)["weight"]
    assert first.device == meta
    assert constants(op, meta)["weight"] is first


def test_a_copy_made_in_inference_mode_is_an_ordinary_tensor(make):
    with torch.inference_mode():
        op = make(torch.ones(4))
        assert not op.weight.is_inference()
        assert not constants(op, torch.device("meta"))["weight"].is_inference()


def test_a_kernel_that_takes_none_is_left_as_it_is():
    assert given(len, {}) is len
