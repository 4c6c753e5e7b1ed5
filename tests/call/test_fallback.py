"""The word where an accelerator's call is left to what runs anywhere."""

from __future__ import annotations

import logging

import faulty
import pytest
import torch
from call_support import op_class

from tileops_core.backend import KernelTypeRegistration, registered
from tileops_core.call import fallback


@pytest.fixture(autouse=True)
def warned(monkeypatch, caplog):
    """What is told, in a process that has told nothing yet."""
    monkeypatch.setattr(fallback, "_told", set())
    caplog.set_level(logging.WARNING, logger="tileops.select")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "tileops.select"]


def ask(device, *, target=None, op="ProbeFwdOp", **others):
    """Choose a kernel on a device, among one that runs anywhere and some others."""
    interfaces, anywhere = faulty.in_tree(general=True)
    kinds = {"anywhere": anywhere, **{k: type(k, (anywhere,), body) for k, body in others.items()}}
    cls = op_class(op, spec=faulty.SPECS["ProbeFwdOp"], interfaces=interfaces)
    entries = [KernelTypeRegistration(op, key, kind) for key, kind in kinds.items()]
    with registered(*entries, backend="general"):
        instance = cls(target=target)
        return instance.kernel_for(
            "probe", interfaces["probe"].request(device, torch.float32, (2, 3))
        )


FAST = {"general": False, "devices": frozenset({"cuda"})}


def test_an_accelerators_call_that_is_left_to_the_general_one_is_told(warned):
    ask("mps", fast=FAST)
    (line,) = warned()
    assert line.startswith("ProbeFwdOp: a call on mps:0 is served by 'anywhere' (general), which")
    assert "'fast' (general): runs on cuda, not mps:0" in line
    assert "target='general' asks for this one" in line


def test_it_is_told_once_for_an_op_and_a_device_type(warned):
    for _ in range(2):
        ask("mps")
        ask("mps:1")
    assert len(warned()) == 1
    ask("vulkan")
    ask("mps", op="OtherFwdOp")
    assert [line.partition(" is served")[0] for line in warned()[1:]] == [
        "ProbeFwdOp: a call on vulkan:0",
        "OtherFwdOp: a call on mps:0",
    ]


def test_where_nothing_else_is_installed_that_is_the_reason(warned):
    ask("mps")
    assert "no other kernel type is installed for it" in warned()[0]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_on_the_cpu_it_is_no_surprise(warned, device):
    ask(device)
    assert warned() == []


def test_who_asked_for_it_is_told_nothing(warned):
    ask("mps", target="general")
    assert warned() == []


def test_a_general_one_of_that_very_device_type_is_no_surprise(warned):
    ask("mps", near={"devices": frozenset({"mps"}), "general": False})
    assert warned() == []
