"""What the reference registers, and how little that costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from tileops_core.backend.registry import REGISTRY
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import known_ops, load_spec, status_of
from tileops_reference import plugin

IMPLEMENTED = sorted(op for op in known_ops() if status_of(op) == "implemented")
LEAVES = [op for op in IMPLEMENTED if build_signature(load_spec(op)).composition is None]


@pytest.fixture(autouse=True)
def loaded():
    REGISTRY.ensure_loaded()


def test_every_implemented_op_that_is_not_made_of_others_has_a_kernel_type():
    assert sorted(r.op for r in plugin.tileops_kernel_types()) == LEAVES


def test_every_implemented_op_has_an_oracle():
    assert sorted(r.op for r in plugin.tileops_oracles()) == IMPLEMENTED


@pytest.mark.parametrize("op", IMPLEMENTED)
def test_an_oracle_takes_the_op_s_inputs_by_position_and_its_parameters_by_name(op):
    signature = build_signature(load_spec(op))
    parameters = inspect.signature(REGISTRY.oracle(op)).parameters.values()
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert by_position == [tensor.name for tensor in signature.inputs]
    assert list(by_name) == [param.name for param in signature.params]


@pytest.mark.parametrize("op", IMPLEMENTED)
def test_an_oracle_s_defaults_are_the_entry_s(op):
    signature = build_signature(load_spec(op))
    parameters = inspect.signature(REGISTRY.oracle(op)).parameters
    for param in signature.params:
        default = parameters[param.name].default
        assert default == param.default or default is inspect.Parameter.empty


def test_registering_imports_no_kernel_and_no_function():
    code = (
        "import sys, tileops_reference.plugin as p; p.tileops_kernel_types(); p.tileops_oracles();"
        "print([m for m in sys.modules if m.startswith('tileops_reference.')])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "['tileops_reference.plugin']"
