"""Kernel interfaces are contracts that somebody outside can write a kernel from."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest
import torch

from tileops_core.interfaces import attention, elementwise, gemm, moe, norm, reduction, rope
from tileops_core.kernels import CallSpec, KernelInterface

MODULES = (attention, elementwise, gemm, moe, norm, reduction, rope)
INTERFACES = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type)
    and issubclass(value, KernelInterface)
    and value is not KernelInterface
]
CPU = torch.device("cpu")
CALLS = [
    gemm.GEMMCall(CPU, torch.float16, 2, 3, 4),
    gemm.BMMCall(CPU, torch.float16, 5, 2, 3, 4),
    elementwise.ElementwiseCall(CPU, "add", torch.int32, ((2, 3), (3,)), (2,)),
    elementwise.GenerativeCall(CPU, "alibi", torch.float16, (2, 3, 3)),
    reduction.SoftmaxCall(CPU, torch.float16, (2, 3), 1, torch.float32),
    reduction.ReduceCall(CPU, "sum", torch.float16, (2, 3), (0,), False, torch.float16),
    reduction.ArgreduceCall(CPU, "argmax", torch.float16, (2, 3), None, False),
    reduction.ScanCall(CPU, "cumsum", torch.float16, (2, 3), 1, torch.float32),
    norm.RMSNormCall(CPU, torch.float16, (2, 3), (3,), 1e-6, True),
    norm.LayerNormCall(CPU, torch.float16, (2, 3), (3,), 1e-5, True, False),
    norm.FusedAddLayerNormCall(CPU, torch.float16, (2, 3), 1e-6),
    norm.FusedAddRMSNormCall(CPU, torch.float16, (2, 3), 1e-6),
    rope.RoPECall(CPU, torch.float16, (2, 4), "neox", 4, 10000.0),
    rope.RoPENeoxPositionIdsCall(CPU, torch.float16, (2, 3, 8), torch.int64, 4, 64, 10000.0),
    rope.LongRoPECall(CPU, torch.float16, (2, 4), 4, 10000.0, 1.0, torch.float32),
    attention.GQADenseCall(
        CPU,
        torch.bfloat16,
        torch.bfloat16,
        batch=1,
        seq_q=2,
        seq_kv=3,
        heads=4,
        heads_kv=2,
        head_dim=8,
        window_left=-1,
        window_right=0,
        scale=0.5,
        softcap=0.0,
        rope="none",
        rotary_dim=0,
        rope_positions=0,
        has_scales=False,
        has_sinks=False,
    ),
    moe.FusedTopKCall(CPU, torch.float16, 2, 8, 2, "softmax", True, 4, 2, 2.5, False),
    moe.MoEPermuteAlignCall(CPU, 2, 3, 8, 64),
    moe.MoEPrePermuteCall(CPU, torch.float16, 2, 4, 3, 8, 6, moe.ContiguousLayout()),
    moe.MoEPostPermuteCall(CPU, torch.float16, torch.float32, 2, 4, 3, 6, moe.MaskedLayout(3), 1.0),
    moe.MoEGroupedGEMMCall(
        CPU, torch.float16, torch.float32, 6, 4, 5, 8, moe.ContiguousLayout(), "swigluoai", True
    ),
    moe.MoEGroupedGEMMFP8Call(CPU, 8, 128, 256, moe.MaskedLayout(3)),
    moe.SharedExpertMLPCall(CPU, torch.float16, 2, 4, 6),
    moe.IndexedExpertMLPCall(CPU, torch.float16, 2, 4, 6, 8, 3, 2.5),
]

each_interface = pytest.mark.parametrize("interface", INTERFACES, ids=lambda i: i.__name__)
each_call = pytest.mark.parametrize("call", CALLS, ids=lambda c: type(c).__name__)


@each_interface
def test_an_interface_is_abstract_and_names_its_call_spec(interface):
    assert issubclass(interface.request, CallSpec)
    with pytest.raises(TypeError, match="abstract"):
        interface()


@each_interface
def test_the_contract_speaks_of_every_tensor_and_of_the_result(interface):
    text, returns, _ = inspect.getdoc(interface.forward).partition("Returns:")
    arguments = re.findall(r"^    (\w+): ", text.partition("Args:")[2], re.M)
    assert arguments == list(inspect.signature(interface.forward).parameters)[1:]
    assert returns


@each_interface
def test_every_call_spec_that_a_contract_mentions_a_field_of_has_it(interface):
    for name in re.findall(r"call\.(\w+)", inspect.getdoc(interface.forward)):
        assert name in interface.request._fields


def test_there_is_a_call_of_every_kind_here():
    assert {type(call) for call in CALLS} == {i.request for i in INTERFACES}


@each_call
def test_call_specs_are_equal_by_their_facts(call):
    copy = pickle.loads(pickle.dumps(call))
    assert copy == call
    assert hash(copy) == hash(call)
    assert {call: 1}[copy] == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            elementwise.ElementwiseCall(CPU, "add", torch.float32, ((2,), (2,)), (1,)),
            elementwise.ElementwiseCall(CPU, "add", torch.float32, ((2,), (2,)), (1.5,)),
        ),
        (
            elementwise.ElementwiseCall(CPU, "relu", torch.float32, ((2,),)),
            elementwise.ElementwiseCall(CPU, "relu", torch.float32, ((2,),), inplace=True),
        ),
        (
            norm.RMSNormCall(CPU, torch.float16, (2, 3), (3,), 0.0, True),
            norm.RMSNormCall(CPU, torch.float16, (2, 3), (3,), -0.0, True),
        ),
    ],
)
def test_calls_that_mean_different_programs_differ(one, other):
    assert one != other


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_the_greatest_position_is_found(dtype):
    assert rope.greatest_position(torch.tensor([3, 0, 7, 2], dtype=dtype), 8) == 7
    assert rope.greatest_position(torch.tensor([[3], [1]], dtype=dtype), 2**31) == 3
    assert rope.greatest_position(torch.empty(0, dtype=dtype), 8) == -1


@pytest.mark.parametrize(
    ("positions", "bound", "dtype", "at", "remedy"),
    [
        ([3, 8, 9], 8, torch.int32, 1, "max_position above"),
        ([3, -1, -2], 8, torch.int32, 1, "from 0"),
        ([7, -(2**31)], 2**31, torch.int32, 1, "from 0"),
        ([2**31 - 1, 2**31], 2**31, torch.int64, 1, "max_position above"),
        ([-(2**63), 0], 8, torch.int64, 0, "from 0"),
    ],
)
def test_a_position_out_of_range_is_told_with_its_place(positions, bound, dtype, at, remedy):
    """POS-02."""
    with pytest.raises(rope.PositionError, match=remedy) as caught:
        rope.greatest_position(torch.tensor(positions, dtype=dtype), bound)
    error = caught.value
    assert isinstance(error, IndexError)
    assert error.actual == positions[at]
    assert f"RoPENeoxPositionIdsFwdOp: positions holds {positions[at]} at index {at}" in str(error)
    assert str(bound) in str(error)
