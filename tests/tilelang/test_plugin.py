"""What the distribution registers."""

from __future__ import annotations

import importlib

import pytest

from tileops_core import ops
from tileops_core.backend.registry import REGISTRY
from tileops_core.kernels import Kernel
from tileops_tilelang import plugin


@pytest.mark.parametrize("registration", plugin.tileops_kernel_types(), ids=lambda r: r.op)
def test_every_kernel_type_runs_on_the_cpu_under_one_key(registration):
    module, _, name = registration.kernel_type.partition(":")
    kernel_type = getattr(importlib.import_module(module), name)
    assert registration.key == "tilelang"
    assert registration.op in ops.__all__
    assert issubclass(kernel_type, Kernel)
    assert kernel_type.devices == {"cpu"}
    assert not kernel_type.general


def test_ten_ops_have_one():
    names = [registration.op for registration in plugin.tileops_kernel_types()]
    assert len(names) == len(set(names)) == 10


def test_the_registry_finds_them_and_the_diagnostic():
    REGISTRY.ensure_loaded()
    found = REGISTRY.registered_by("tilelang")
    titles = [registered.registration.title for registered in found]
    assert "diagnostic 'C++ compiler'" in titles
    assert len(titles) == 11


def test_the_diagnostic_names_a_function():
    (registration,) = plugin.tileops_diagnostics()
    module, _, name = registration.find.partition(":")
    assert callable(getattr(importlib.import_module(module), name))
