from __future__ import annotations

import attrs
import faulty
import pytest
import torch

from tileops_core.conformance.inputs import made, make
from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import load_spec, load_spec_from


def first_call(op):
    spec = load_spec_from(faulty.SPECS[op], op) if op in faulty.SPECS else load_spec(op)
    return next(cases(build_signature(spec), small=True)).instance


def test_a_seed_decides_the_tensors():
    call = first_call("RMSNormFwdOp")
    one, same, other = (make(call, seed=seed).inputs for seed in (3, 3, 4))
    assert all(torch.equal(x, y) for x, y in zip(one, same, strict=True))
    assert not torch.equal(one[0], other[0])


def test_tensors_are_as_the_call_says():
    call = first_call("GQADenseFwdOp")
    for (_, fact), x in zip(call.inputs.items(), make(call).inputs, strict=True):
        assert (x is None) == (fact is None)
        if x is not None:
            assert (str(x.dtype), tuple(x.shape)) == (f"torch.{fact[0]}", fact[1])


def test_a_row_s_inputs_lie_on_the_default_device():
    case = next(cases(build_signature(load_spec("TanhFwdOp")), small=True))
    with torch.device("meta"):
        assert made(case)[0].is_meta
    assert made(case)[0].device.type == "cpu"


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ("positive", lambda x: ((x >= 0.5) & (x <= 1.5)).all()),
        ("zeros", lambda x: not x.any()),
        ("large", lambda x: x.abs().max() > 1e3),
        ("nan:input", lambda x: x.isnan().sum() == 1),
        ("nan:other", lambda x: not x.isnan().any()),
    ],
)
def test_values_are_what_was_asked_for(values, holds):
    assert holds(make(first_call("TanhFwdOp"), values=values).inputs[0])


def test_what_only_gets_written_holds_poison():
    cache, x = make(first_call("StoreFwdOp")).inputs
    assert cache.isnan().all()
    assert not x.isnan().any()


def test_a_caller_s_buffer_holds_poison():
    assert make(first_call("BufferFwdOp"), out=True).out.isnan().all()
    assert make(first_call("BufferFwdOp")).out is None


@pytest.mark.parametrize("layout", ["transposed", "expanded"])
def test_an_input_that_must_be_contiguous_is(layout):
    assert make(first_call("ContiguousFwdOp"), layout=layout).inputs[0].is_contiguous()


def test_a_written_input_shares_no_memory_among_its_elements():
    state, x = make(first_call("AccumulateFwdOp"), layout="expanded").inputs
    assert 0 not in state.stride()
    assert 0 in x.stride()


def test_an_input_of_the_cpu_stays_there():
    x, lengths = make(first_call("LengthsFwdOp"), device="meta").inputs
    assert (x.device.type, lengths.device.type) == ("meta", "cpu")


def test_copies_are_dense_and_their_own():
    arguments = make(first_call("TanhFwdOp"), layout="negative")
    (copy,) = arguments.copies().inputs
    assert torch.equal(copy, arguments.inputs[0])
    assert not copy.is_neg()
    assert attrs.asdict(arguments)["params"] == {}


def test_a_parameter_that_states_a_device_states_the_call_s():
    assert make(first_call("AlibiFwdOp"), device="meta").params["device"].type == "meta"


def test_a_tensor_given_at_construction_is_made_of_what_the_op_divides_by():
    factors = make(first_call("LongRoPEFwdOp")).params["rescale_factors"]
    assert factors.shape == (12,)
    assert (factors.abs() >= 1).all()
