"""Every operator of the library: compiled cold, compared with eager mode, asked by opcheck.

A call for each is found among the workload rows, so an op is in here as soon as it is there. By
default each operator is taken once; what is marked slow takes every layout, every choice of
optional inputs, and torch's whole compiler, which is slow, on two layouts.
"""

from __future__ import annotations

import compile_cases
import pytest
import torch
from compile_cases import LAYOUTS, OPS
from graphs import breaks, graphs, whole

from tileops_core import ops

REPRESENTATIVES = compile_cases.representatives()
OPTIONAL = compile_cases.with_optional_inputs()
EMPTY = compile_cases.empty()
ASKED = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)
pytestmark = pytest.mark.filterwarnings("ignore")

each = pytest.mark.parametrize("call", REPRESENTATIVES, ids=lambda c: c.id)
each_layout = pytest.mark.parametrize(
    "layout",
    [
        pytest.param(layout, marks=() if layout is LAYOUTS[1] else pytest.mark.slow)
        for layout in LAYOUTS
    ],
    ids=lambda layout: layout.__name__,
)
each_choice = pytest.mark.parametrize(
    "call", [pytest.param(c, marks=pytest.mark.slow) for c in OPTIONAL], ids=lambda c: c.id
)
each_empty = pytest.mark.parametrize("call", EMPTY, ids=lambda c: c.id)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def copied(tensors):
    """Tensors of their own that lie in the same way."""
    return [
        x
        if x is None
        else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
        if 0 not in x.stride()
        else x
        for x in tensors
    ]


def compare_compiled(call, tensors, backend):
    """Compile cold in one graph; results and what is written are bitwise those of eager mode."""
    op = call.op()
    mine, theirs = copied(tensors), copied(tensors)
    due = as_tuple(call.run(op, mine))
    results = as_tuple(call.run(whole(op, backend), theirs))
    assert graphs() == 1
    assert not breaks()
    for one, other in zip((*due, *mine), (*results, *theirs), strict=True):
        if one is None or other is None:
            assert one is other
            continue
        assert one.dtype is other.dtype
        assert torch.equal(one, other) or same_with_nan(one, other)
    assert [r is None for r in due] == [r is None for r in results]


def same_with_nan(one, other):
    return one.is_floating_point() and torch.equal(one.nan_to_num(), other.nan_to_num())


def ask_opcheck(call, tensors):
    op, asked = call.op(), list(ASKED)
    if any(x is not None and x.dtype.itemsize == 1 and x.is_floating_point() for x in tensors):
        asked.remove("test_schema")  # it compares what torch cannot compare in float8
    for overload in (call.torch.overload, call.torch.raw):
        told = torch.library.opcheck(overload, (op._key, *copied(tensors)), test_utils=asked)
        assert set(told.values()) == {"SUCCESS"}


# -- the registry -----------------------------------------------------------------------------


def test_every_op_with_a_boundary_is_here():
    for name in ops.__all__:
        cls = getattr(ops, name)
        if isinstance(cls, type) and cls._plan.signature.inputs:
            composite = cls._plan.signature.composition is not None
            assert (name in OPS) != composite, name


def test_every_operator_is_reached():
    """One that is not needs a call in `compile_cases.MORE`."""
    reached = {call.operator for call in REPRESENTATIVES}
    assert reached == compile_cases.names_of_all_operators()


def test_every_choice_of_optional_inputs_is_found():
    for op, cls in OPS.items():
        for tensor in cls._plan.signature.inputs:
            if tensor.optional is True:
                passed = {
                    c.case.inputs[tensor.name] is not None for c in OPTIONAL if c.case.op == op
                }
                assert passed == {True, False}, (op, tensor.name)


def test_every_op_has_an_empty_call():
    assert {call.case.op for call in EMPTY} == set(OPS)


# -- compiled ---------------------------------------------------------------------------------


@each
@each_layout
def test_it_compiles_cold_and_computes_the_same(call, layout):
    compare_compiled(call, compile_cases.lying(call, layout), "aot_eager")


@pytest.mark.slow
@each
@pytest.mark.parametrize("layout", LAYOUTS[::2][:2], ids=lambda layout: layout.__name__)
def test_torchs_compiler_computes_the_same(call, layout):
    compare_compiled(call, compile_cases.lying(call, layout), "inductor")


@each_choice
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_every_choice_of_optional_inputs_computes_the_same(call, backend):
    compare_compiled(call, call.tensors(), backend)


@each_empty
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_nothing_at_all_computes_the_same(call, backend):
    compare_compiled(call, call.tensors(), backend)


@each
def test_eager_calls_make_no_new_graphs(call):
    """Dynamo sees what they leave on the instance."""
    op, tensors = call.op(), call.tensors()
    compiled = whole(op)
    for f in (compiled, op, compiled):
        call.run(f, copied(tensors))
    assert graphs() == 1


# -- asked by opcheck -------------------------------------------------------------------------


@each
@each_layout
def test_opcheck_finds_nothing(call, layout):
    """CMP-03, CMP-06: fakes, schemas, autograd registration, dynamic shapes."""
    ask_opcheck(call, compile_cases.lying(call, layout))


@each_choice
def test_opcheck_finds_nothing_in_any_choice_of_optional_inputs(call):
    ask_opcheck(call, call.tensors())


@each_empty
def test_opcheck_finds_nothing_in_an_empty_call(call):
    ask_opcheck(call, call.tensors())
