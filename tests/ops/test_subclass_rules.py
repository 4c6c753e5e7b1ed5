"""Every op class keeps to the three rules for subclasses, and what breaks one is found."""

from __future__ import annotations

import pytest
import torch
from calling import called
from subclass_rules import faults_of, left_on

from tileops_core import Op, ops
from tileops_core.cli.calls import call_of_case
from tileops_core.cli.survey import Survey
from tileops_core.conformance.inputs import made, make
from tileops_core.kernels import Kernel
from tileops_core.ops import ReLUFwdOp, RMSNormFwdOp
from tileops_core.signature.workload import cases

EVERY = sorted(name for name in ops.__all__ if name.endswith("Op"))


@pytest.mark.parametrize("name", EVERY)
def test_no_body_checks_keeps_or_constructs(name):
    assert faults_of(getattr(ops, name)) == []


@pytest.fixture(scope="module")
def seen():
    return Survey()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore:.*dim is None")
def test_a_call_leaves_nothing_on_an_instance(name, seen):
    signature = getattr(ops, name)._plan.signature
    case = next(cases(signature)).scaled(5000)
    given = make(case.instance).params
    op = call_of_case(seen, name, case, "reference", "cpu", given).op
    before = dict(vars(op))
    for inputs in (made(case), made(case)):
        called(signature, op, inputs)
    assert left_on(op, before) == []


# -- what breaks a rule is found --------------------------------------------------------------


class Checks(Op):
    def forward(self, x):
        if x.dim() != 2:
            raise ValueError("two axes")
        return x


class Asserts(Op):
    def call_spec(self, x):
        assert isinstance(x, torch.Tensor)
        return x


class AsksTheDevice(Op):
    def forward(self, x):
        return x if x.device.type == "cuda" or x.is_cuda else x + 1


class Keeps(Op):
    def forward(self, x):
        self._entry = self.kernel_for("probe", x)
        self.table[x.shape] = x
        return self._entry(x)


class KeepsInTheConstructor(Op):
    def __init__(self, *, target=None):
        super().__init__(target=target)
        self.norm = self.delegate_for("norm", ())


class Constructs(Op):
    def forward(self, x):
        return RMSNormFwdOp((4,))(x)


class Caches(Op):
    def forward(self, x):
        from functools import lru_cache

        return lru_cache(lambda: x)()


BREAKS = {
    Checks: ["forward checks something itself"],
    Asserts: ["call_spec checks something itself"] * 2,
    AsksTheDevice: ["forward asks for the device's type", "forward asks is_cuda"],
    Keeps: [
        "forward keeps something on itself",
        "forward keeps what delegate_for or kernel_for gave",
        "forward keeps something on itself",
    ],
    KeepsInTheConstructor: ["__init__ keeps what delegate_for or kernel_for gave"],
    Constructs: ["forward constructs a RMSNormFwdOp instead of asking delegate_for"],
    Caches: ["forward keeps results with lru_cache"],
}


@pytest.mark.parametrize("cls", BREAKS, ids=lambda cls: cls.__name__)
def test_what_breaks_a_rule_is_found(cls):
    assert sorted(faults_of(cls)) == sorted(f"{cls.__name__}.{fault}" for fault in BREAKS[cls])


def test_what_a_call_leaves_is_found():
    op = ReLUFwdOp()
    before = dict(vars(op))
    assert left_on(op, before) == []
    op.cache = {"a": [Kernel()]}
    op.__dict__["inplace"] = 0
    assert left_on(op, before) == [
        "has a new attribute cache",
        "has another inplace",
        "holds a kernel or an op as cache",
    ]
