from __future__ import annotations

import types

import pytest
import torch

from tileops_core.backend import registry
from tileops_core.errors import BackendError
from tileops_core.kernels import CallSpec, DeviceFacts, device_facts
from tileops_core.kernels.device_facts import facts_of

CUDA = torch.device("cuda:0")
ACME = torch.device("xla:0")


class AnyCall(CallSpec):
    pass


@pytest.fixture(autouse=True)
def _nothing_read_yet(monkeypatch):
    monkeypatch.setattr(device_facts, "_read_facts", {})


@pytest.fixture
def hopper(monkeypatch):
    """A machine with one CUDA device; counts how often it is asked."""
    asked = []

    def properties(device):
        asked.append(device)
        return types.SimpleNamespace(
            major=9,
            minor=0,
            multi_processor_count=132,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=232448,
        )

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    return asked


class FakeRegistry:
    generation = 1

    def __init__(self, read):
        self.read = read

    def device_facts(self, device_type):
        return self.read if device_type == ACME.type else None


def test_cuda_facts_come_from_torch(hopper):
    assert facts_of(CUDA) == DeviceFacts(arch=90, sm_count=132, smem_budget=232448)


def test_a_device_is_asked_once(hopper):
    assert facts_of(CUDA) is facts_of(torch.device("cuda:0"))
    assert hopper == [CUDA]


def test_a_call_spec_reads_its_device_s_facts(hopper):
    call = AnyCall(CUDA)
    assert (call.arch, call.sm_count, call.smem_budget) == (90, 132, 232448)


def test_gfx_numbers_do_not_pass_for_sm_numbers(hopper, monkeypatch):
    """REG-09: the device type is "cuda" on ROCm too, where gfx90a is 9.0."""
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert facts_of(CUDA) == DeviceFacts(arch=None, sm_count=132, smem_budget=232448)


def test_facts_of_a_missing_cuda_device_say_how_to_ask_anyway(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendError, match=r"cuda:0 cannot be read.*stating\(arch=90\)"):
        facts_of(CUDA)


def test_nothing_is_known_of_the_cpu():
    assert facts_of(torch.device("cpu")) == DeviceFacts(None, None, None)


def test_a_backend_s_reader_is_asked_for_its_device_type(monkeypatch):
    facts = DeviceFacts(arch=7, sm_count=20)
    monkeypatch.setattr(registry, "REGISTRY", FakeRegistry(lambda device: facts))
    assert facts_of(ACME) is facts
    assert facts_of(torch.device("cpu")) == DeviceFacts()


def test_a_reader_that_came_later_is_asked(monkeypatch):
    known = FakeRegistry(None)
    monkeypatch.setattr(registry, "REGISTRY", known)
    assert facts_of(ACME) == DeviceFacts()
    known.read, known.generation = (lambda device: DeviceFacts(arch=7)), 2
    assert facts_of(ACME).arch == 7


def test_a_reader_must_return_device_facts(monkeypatch):
    monkeypatch.setattr(registry, "REGISTRY", FakeRegistry(lambda device: {"arch": 7}))
    with pytest.raises(BackendError, match=r"'xla' returned \{'arch': 7\}.*DeviceFacts"):
        facts_of(ACME)


def test_an_exception_of_a_reader_says_whose_it_is(monkeypatch):
    def read(device):
        raise OSError("driver is gone")

    monkeypatch.setattr(registry, "REGISTRY", FakeRegistry(read))
    with pytest.raises(OSError, match="driver is gone") as caught:
        facts_of(ACME)
    assert "device facts for 'xla'" in caught.value.__notes__[0]
