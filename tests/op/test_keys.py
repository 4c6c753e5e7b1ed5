"""Keys: content as text, and back."""

from __future__ import annotations

import json
import math

import pytest
import torch

from tileops_core import BUILTIN
from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout
from tileops_core.op.keys import NotInTextError, arguments_of, key_of, typed
from tileops_core.ops import (
    AddFwdOp,
    CumsumFwdOp,
    GELUFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SumFwdOp,
)

OPS = [
    pytest.param(lambda: RMSNormFwdOp((4, 8), eps=1e-3), id="shape"),
    pytest.param(lambda: RMSNormFwdOp((4,)), id="none"),
    pytest.param(lambda: SumFwdOp(dim=(0, -1), keepdim=True, dtype="float32"), id="dtype"),
    pytest.param(lambda: SumFwdOp(dim=0, target="reference"), id="int and target"),
    pytest.param(lambda: GELUFwdOp(approximate="tanh", target=BUILTIN), id="word and builtin"),
    pytest.param(lambda: AddFwdOp(alpha=1), id="int alpha"),
    pytest.param(lambda: AddFwdOp(alpha=1.0), id="float alpha"),
    pytest.param(lambda: AddFwdOp(alpha=-0.0), id="negative zero"),
    pytest.param(lambda: AddFwdOp(alpha=float("nan")), id="no number"),
    pytest.param(lambda: AddFwdOp(alpha=float("inf")), id="infinity"),
    pytest.param(lambda: ReLUFwdOp(inplace=True), id="bool"),
    pytest.param(lambda: CumsumFwdOp(dim=-1), id="axis"),
]


@pytest.mark.parametrize("make", OPS)
def test_a_key_read_back_makes_an_op_of_the_same_key(make):
    op = make()
    again = type(op)(**arguments_of(op._plan, json.loads(op._key)))
    assert again._key == op._key
    assert repr(again) == repr(op)


def test_typed_values_stay_apart():
    values = (1, 1.0, True, 0.0, -0.0, "1", (1,), None, torch.float32, "float32", 1 + 0j)
    texts = {json.dumps(typed(v)) for v in values}
    assert len(texts) == len(values)


@pytest.mark.parametrize("value", [MaskedLayout(16), ContiguousLayout("tight", "per_row", 1)])
def test_a_sealed_sums_value_is_read_back(value):
    from hard_ops import op_class

    cls = op_class("ExpertProductsFwdOp")
    name = next(p.name for p in cls._plan.signature.params if "Layout" in p.annotation)
    params = {p.name: p.default for p in cls._plan.signature.params} | {name: value}
    key = key_of(cls._plan, tuple(params.values()), None)
    read = arguments_of(cls._plan, json.loads(key))
    assert read[name] == value
    assert type(read[name]) is type(value)


def test_a_key_makes_no_class_but_the_entrys_own():
    key = json.loads(RMSNormFwdOp((4,))._key)
    key[1][1] = {"subprocess.Popen": [["args", "true"]]}
    with pytest.raises(NotInTextError, match="subprocess"):
        arguments_of(RMSNormFwdOp._plan, key)


def test_what_no_text_names_is_a_key_of_its_own():
    tensor = torch.ones(2)
    texts = [json.dumps(typed(value)) for value in (tensor, tensor, object())]
    assert len(set(texts)) == 3
    assert "Tensor of its own" in texts[0]


def test_an_injected_object_is_part_of_the_key():
    plan = RMSNormFwdOp._plan
    plain = key_of(plan, ((4,), None), None)
    assert key_of(plan, ((4,), None), None, (None, None)) == plain
    keys = {key_of(plan, ((4,), None), None, (None, 3)) for _ in range(2)}
    assert len(keys) == 2
    for key in keys:
        with pytest.raises(NotInTextError, match="given at construction"):
            arguments_of(plan, json.loads(key))


def test_no_number_is_one_value():
    assert math.isnan(json.loads(AddFwdOp(alpha=float("nan"))._key)[1][0])
    assert AddFwdOp(alpha=float("nan"))._key == AddFwdOp(alpha=float("nan"))._key
