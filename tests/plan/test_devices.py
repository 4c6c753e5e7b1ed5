"""Where a call is when no required input says so."""

from __future__ import annotations

import pytest
import torch
from plan_support import optional, plan, signature, spec, statics

from tileops_core.plan.devices import default_device, device_of, undecided_device

CPU, META = torch.device("cpu"), torch.device("meta")
DEVICE = {"type": "torch.device | str | None", "default": None}
RESULT = {"y": {"dtype": "float32", "shape": "[]"}}
TABLE = {"dtype": "T", "shape": "[M]", "optional": True}


def test_a_required_input_decides():
    assert undecided_device(signature("M", {"x": "[M]"})) is None


def test_a_required_input_that_stays_on_the_cpu_decides_nothing():
    lengths = {"dtype": "T", "shape": "[M]", "device": "cpu"}
    assert undecided_device(signature("M", {"x": lengths})) is not None


@pytest.mark.parametrize(
    ("there", "stated", "held", "expected"),
    [
        (META, CPU, CPU, META),
        (None, META, CPU, META),
        (None, None, META, META),
    ],
)
def test_a_tensor_of_the_call_comes_before_a_parameter_and_that_before_a_held_tensor(
    there, stated, held, expected
):
    found = plan("M", {"x": optional("[M]")}, RESULT, params={"device": DEVICE, "table": TABLE})
    table = torch.zeros(2, device=held)
    x = None if there is None else torch.zeros(2, device=there)
    assert found.check(statics(found, device=stated, table=table), x)[0] == expected


def test_where_nothing_says_it_is_the_current_cuda_device_or_the_cpu():
    found = plan("M", {"x": optional("[M]")}, RESULT, params={"table": TABLE})
    assert found.check(statics(found), None)[0].type in ("cuda", "cpu")
    assert found.check(statics(found), spec(2))[0] == CPU


def test_a_device_without_a_number_is_the_current_one_where_there_are_several():
    assert default_device(torch.device("cpu")) == CPU
    assert default_device(None, None, torch.zeros(1, device="meta")) == META


def test_the_first_held_tensor_there_is_counts():
    assert device_of(None) is None
    assert device_of(None, None, torch.zeros(1, device="meta"), torch.zeros(1)) == META
    assert device_of(CPU, torch.zeros(1, device="meta")) == CPU


def test_a_device_that_is_not_there_is_told_as_it_was_stated(monkeypatch):
    def missing():
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch.cuda, "current_device", missing)
    assert default_device(torch.device("cuda")) == torch.device("cuda")
