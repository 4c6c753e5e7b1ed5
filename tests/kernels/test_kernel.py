from __future__ import annotations

from abc import abstractmethod

import pytest
import torch

import tileops_core.kernels
from tileops_core.kernels import CallSpec, Kernel, KernelInterface


class ScaleCall(CallSpec):
    dtype: torch.dtype


class ScaleKernel(KernelInterface):
    request = ScaleCall

    @abstractmethod
    def forward(self, x, factor, *, mask=None):
        """Scale x."""


class PlainScale(Kernel, ScaleKernel):
    devices = None

    def forward(self, x, factor, *, mask=None):
        return x * factor if mask is None else x * factor * mask


def test_the_package_exports_what_kernel_authors_use():
    names = ["BuildOnce", "CallSpec", "DeviceFacts", "Kernel", "KernelInterface", "cache_directory"]
    assert tileops_core.kernels.__all__ == names


def test_an_interface_cannot_be_instantiated():
    with pytest.raises(TypeError, match="abstract"):
        ScaleKernel()


def test_a_kernel_that_leaves_out_forward_cannot_be_instantiated():
    class Missing(Kernel, ScaleKernel):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Missing()


def test_calling_a_kernel_calls_forward():
    kernel = PlainScale()
    assert kernel(3, 2) == kernel.forward(3, 2) == 6
    assert kernel(3, 2, mask=0) == 0


def test_a_kernel_type_declares_nothing_but_cuda_unless_it_says_so():
    class Silent(Kernel, ScaleKernel):
        def forward(self, x, factor, *, mask=None):
            return x

    call = ScaleCall("cuda:0", torch.float16)
    assert Silent.devices == {"cuda"}
    assert Silent.supported_archs is None
    assert Silent.general is False
    assert Silent.preferred_over == frozenset()
    assert Silent.refusal(call) is None
    assert Silent.defers(call) is None
    assert Silent().config == {}


def test_a_kernel_type_that_compiles_nothing_in_has_one_entry_for_all_calls():
    identities = {PlainScale.entry_for(ScaleCall("cpu", d))[0] for d in (torch.half, torch.float)}
    _, factory = PlainScale.entry_for(ScaleCall("cpu", torch.half))
    assert identities == {()}
    assert isinstance(factory(), PlainScale)


def test_asking_a_kernel_without_choices_to_tune_changes_nothing():
    kernel = PlainScale()
    kernel.request_tune()
    assert kernel.config == {}
