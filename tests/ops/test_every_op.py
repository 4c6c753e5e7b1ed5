"""Every op on every workload row, scaled down, through the public API."""

from __future__ import annotations

import math

import pytest
import torch
from calling import called

from tileops_core import BUILTIN, ops
from tileops_core.backend.registry import REGISTRY
from tileops_core.conformance import compare
from tileops_core.conformance.exact import expected
from tileops_core.conformance.inputs import Arguments, made, make
from tileops_core.conformance.kinds import kind_of
from tileops_core.errors import NotATensorError, SignatureError
from tileops_core.signature.build import build_signature
from tileops_core.signature.kinds import DTypeKind, MaybeKind
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import load_spec

SIGNATURES = {op: build_signature(load_spec(op)) for op in ops.__all__ if op.endswith("Op")}
CASES = [case for signature in SIGNATURES.values() for case in cases(signature, small=True)]
pytestmark = [
    pytest.mark.filterwarnings("ignore:(Log)?SoftmaxFwdOp. dim is None"),
    pytest.mark.usefixtures("server", "on_each_device"),
]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.case_id}")
first = pytest.mark.parametrize(
    "case", {case.op: case for case in reversed(CASES)}.values(), ids=lambda case: case.op
)


def parameters(case):
    """A row's parameters, those that are tensors or say a device too."""
    return make(case.instance, device=torch.get_default_device()).params


def construct(case, **more):
    return getattr(ops, case.op)(**parameters(case), **more)


def call(op, inputs):
    return called(SIGNATURES[type(op).__name__], op, inputs)


def as_tuple(result):
    """The outputs that there are."""
    return tuple(x for x in (result if isinstance(result, tuple) else (result,)) if x is not None)


def for_oracle(case):
    """The parameters as the oracle takes them."""
    params = dict(parameters(case))
    for param in SIGNATURES[case.op].params:
        kind = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
        if isinstance(kind, DTypeKind) and params[param.name] is not None:
            params[param.name] = getattr(torch, params[param.name])
    return params


@each
def test_the_op_gives_what_the_reference_function_gives(case, server):
    op, inputs = construct(case, target=server or "reference"), made(case)
    copies = [x if x is None else x.clone() for x in inputs]
    expected = REGISTRY.oracle(case.op)(*copies, **for_oracle(case))
    for result, right in zip(as_tuple(call(op, inputs)), as_tuple(expected), strict=True):
        assert torch.equal(result, right)
        assert result.dtype is right.dtype
        assert result.is_contiguous()


@each
def test_the_result_is_near_the_exact_one(case):
    inputs = made(case)
    arguments = Arguments(parameters(case), tuple(inputs))
    due = expected(case.instance, kind_of(case.op), REGISTRY.oracle(case.op), arguments, ())
    inputs = [x if x is None else x.clone() for x in inputs]
    present = [one for one in due.outputs if one is not None]
    for result, one in zip(as_tuple(call(construct(case), inputs)), present, strict=True):
        if one.allowed is None:
            assert compare.exact(result.cpu(), one.value) is None
        else:
            assert compare.close(result.cpu(), one.value, one.allowed) is None


@each
def test_naming_the_reference_changes_who_serves_and_at_most_a_rounding(case, server):
    default, named = construct(case), construct(case, target="reference")
    inputs = made(case)
    copies = [x if x is None else x.clone() for x in inputs]
    results = as_tuple(call(default, inputs)), as_tuple(call(named, copies))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    assert named.serving_target == "reference"
    assert default.serving_target == (server or BUILTIN)


@each
def test_only_declared_inputs_are_written(case):
    """PIPE-04."""
    op, inputs = construct(case), made(case)
    copies = [x if x is None else x.clone() for x in inputs]
    versions = [x if x is None else x._version for x in inputs]
    call(op, inputs)
    written = op.last_call.written
    for declared, x, copy, version in zip(
        SIGNATURES[case.op].inputs, inputs, copies, versions, strict=True
    ):
        if x is not None and declared.name not in written:
            assert torch.equal(x.view(torch.uint8), copy.view(torch.uint8))
            assert x._version == version


@each
def test_the_record_says_what_came_and_what_it_costs(case):
    op, inputs = construct(case), made(case)
    call(op, inputs)
    record = op.last_call
    for (name, fact), x in zip(case.inputs.items(), inputs, strict=True):
        assert record.present(name) == (fact is not None)
        if x is not None:
            assert record.bytes(name) == x.numel() * x.element_size()
    flops, moved = op.eval_roofline()
    assert type(flops) is int
    assert type(moved) is int
    assert flops > 0
    assert moved > 0


@first
def test_strided_inputs_give_what_dense_ones_give(case):
    """PIPE-06."""
    op, inputs = construct(case), made(case)
    strided = []
    for declared, x in zip(SIGNATURES[case.op].inputs, inputs, strict=True):
        if x is not None and not declared.contiguous:
            wide = x.new_zeros((*x.shape, 2))
            wide[..., 0] = x
            x = wide[..., 0]
        strided.append(x)
    for one, other in zip(as_tuple(call(op, strided)), as_tuple(call(op, inputs)), strict=True):
        assert torch.equal(one, other)


@first
def test_wrong_calls_are_refused_and_the_next_good_one_works(case):
    op, inputs = construct(case), made(case)
    required = [i for i, t in enumerate(SIGNATURES[case.op].inputs) if t.optional is False]
    positional = [
        x for t, x in zip(SIGNATURES[case.op].inputs, inputs, strict=True) if not t.kw_only
    ]
    if required:
        with pytest.raises(TypeError, match=case.op):
            op(*inputs[: required[-1]])
    with pytest.raises(TypeError, match=case.op):
        op(*inputs, *inputs, None)
    with pytest.raises(TypeError, match=f"{case.op}.*unheard_of"):
        op(*positional, unheard_of=1)
    for i in required:
        name = SIGNATURES[case.op].inputs[i].name
        for wrong in (None, 3.0, [1.0], "text"):
            with pytest.raises(NotATensorError, match=f"{case.op}: {name}"):
                call(op, [*inputs[:i], wrong, *inputs[i + 1 :]])
        other = torch.zeros(inputs[i].shape, dtype=torch.complex64)
        with pytest.raises(SignatureError, match=f"{case.op}: {name} .*complex64"):
            call(op, [*inputs[:i], other, *inputs[i + 1 :]])
    assert all(not x.double().isnan().any() for x in as_tuple(call(op, inputs)))


def test_every_row_is_small_enough_for_a_test():
    for case in CASES:
        facts = (*case.inputs.values(), *case.outputs.values())
        sizes = [math.prod(fact[1]) for fact in facts if fact]
        assert max(sizes) <= 1 << 20, case.case_id
