from __future__ import annotations

import attrs
import pytest
import torch

from tileops_core.backend.registry import REGISTRY
from tileops_core.conformance.exact import expected
from tileops_core.conformance.inputs import make
from tileops_core.conformance.kinds import PLAIN, Kind, kind_of
from tileops_core.signature.build import build_signature
from tileops_core.signature.scaling import changed
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import load_spec


@pytest.fixture(autouse=True)
def loaded():
    REGISTRY.ensure_loaded()


def call_of(op, **values):
    call = next(cases(build_signature(load_spec(op)), small=True)).instance
    return changed(call, values) if values else call


def exact(op, call, oracle=None, kind=None, written=(), **options):
    arguments = make(call, **options)
    found = expected(
        call, kind or kind_of(op), oracle or REGISTRY.oracle(op), arguments, tuple(written)
    )
    return arguments, found


def test_results_are_those_of_float64():
    arguments, due = exact("TanhFwdOp", call_of("TanhFwdOp"))
    assert due.outputs[0].value.dtype is torch.float64
    assert torch.equal(due.outputs[0].value, arguments.inputs[0].double().tanh())


def test_the_inputs_stay_as_they_are():
    call = call_of("ReLUFwdOp", inplace=True)
    arguments, due = exact("ReLUFwdOp", call, written=("input",))
    assert (arguments.inputs[0] < 0).any()
    assert torch.equal(due.written["input"].value, arguments.inputs[0].double().relu())


def test_a_cast_that_the_op_makes_is_made_before():
    call = call_of("SumFwdOp", dtype="bfloat16", T="float32")
    arguments, due = exact("SumFwdOp", call)
    cast = arguments.inputs[0].bfloat16().double()
    assert torch.allclose(
        due.outputs[0].value, cast.sum(call.params["dim"], call.params["keepdim"])
    )


def test_ints_are_exact():
    _, due = exact("ArgmaxFwdOp", call_of("ArgmaxFwdOp"))
    assert due.outputs[0].allowed is None
    assert due.outputs[0].value.dtype is torch.int64


def test_what_cancels_may_be_off_by_its_terms():
    """A difference of large numbers is no more exact than they are."""
    call = call_of("AddFwdOp", T="float32", A=(2,), B=(2,))

    def near(x, y, alpha):
        return x - 0.999999 * x

    _, plain = exact("AddFwdOp", call, oracle=near)
    _, small = exact("AddFwdOp", call, oracle=lambda x, y, alpha: 1e-6 * x)
    assert torch.allclose(plain.outputs[0].value, small.outputs[0].value)
    assert torch.allclose(plain.outputs[0].allowed, small.outputs[0].allowed, rtol=1e-3)
    _, wide = exact("AddFwdOp", call, oracle=lambda x, y, alpha: x + y)
    assert (wide.outputs[0].allowed > 1e5 * small.outputs[0].allowed).all()


def test_longer_sums_may_be_off_by_more():
    allowed = []
    for length in (8, 2048):
        call = call_of("SumFwdOp", S=(4, length), dim=-1, dtype=None, T="float32", keepdim=False)
        _, due = exact("SumFwdOp", call, values="positive")
        allowed.append(due.outputs[0].allowed / due.outputs[0].value)
    assert 2 < (allowed[1] / allowed[0]).mean() < 16


def test_what_may_be_rounded_on_the_way_widens_the_bound():
    call = call_of("GQADenseFwdOp")
    plain = attrs.evolve(kind_of("GQADenseFwdOp"), rounds=False)
    (_, strict), (_, wide) = exact("GQADenseFwdOp", call, kind=plain), exact("GQADenseFwdOp", call)
    assert (wide.outputs[0].allowed > strict.outputs[0].allowed).all()


def test_where_a_rounding_is_part_of_the_contract_nothing_is_widened():
    call = call_of("TanhFwdOp", T="float16")
    seen = []

    def oracle(x):
        seen.append(x.dtype)
        return x.tanh()

    exact("TanhFwdOp", call, oracle=oracle, kind=Kind("*", "a rounding counts", widened=False))
    assert seen == [torch.float16]
    exact("TanhFwdOp", call, oracle=oracle, kind=PLAIN)
    assert seen[1:] == [torch.float64] * 3


def test_an_oracle_with_too_few_results_is_told():
    call = call_of("FusedAddRMSNormFwdOp")
    with pytest.raises(ValueError, match="the oracle gives 1 results, due are 2"):
        exact("FusedAddRMSNormFwdOp", call, oracle=lambda *inputs, **params: inputs[0])


def test_where_the_contract_rounds_the_value_does_and_terms_are_measured_without():
    """Of a difference of two large terms, either may be off by its own rounding."""
    kind = attrs.evolve(kind_of("AddFwdOp"), widened=False, rounds=True)
    arguments, due = exact("AddFwdOp", call_of("AddFwdOp", T="bfloat16"), kind=kind)
    one, other = arguments.inputs
    assert torch.equal(due.outputs[0].value, (one + other).double())
    assert (due.outputs[0].allowed >= 2.0**-9 * one.double().abs()).all()


def test_an_oracle_without_inputs_is_asked_on_the_cpu_in_float64():
    arguments, due = exact("AlibiFwdOp", call_of("AlibiFwdOp"), device="meta")
    assert arguments.params["device"].type == "meta"
    assert due.outputs[0].value.device.type == "cpu"
    assert due.outputs[0].value.dtype is torch.float64
