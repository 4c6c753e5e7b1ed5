"""Copies, pickles and the keys that say what an instance is."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import threading

import pytest
import torch
from call_support import op_class, served, small, target

from tileops_core import BUILTIN
from tileops_core.call.binding import UNBOUND
from tileops_core.errors import TileOpsError, UnknownTargetError
from tileops_core.op import hosts
from tileops_core.ops import (
    GELUFwdOp,
    LayerNormFwdOp,
    RMSNormFwdOp,
    RoPENeoxPositionIdsFwdOp,
    SoftmaxFwdOp,
    SumFwdOp,
)


class Block(torch.nn.Module):
    """A module that holds an op and its weight."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), 2.0))
        self.norm = RMSNormFwdOp((4,), eps=1e-3)

    def forward(self, x):
        return self.norm(x, self.weight)


def pickled(value):
    return pickle.loads(pickle.dumps(value))


WAYS = [copy.copy, copy.deepcopy, pickled]
OPS = [
    pytest.param(lambda: RMSNormFwdOp((4,), eps=1e-3), id="rms_norm"),
    pytest.param(lambda: SumFwdOp(dim=[0, -1], keepdim=True, dtype="float32"), id="sum"),
    pytest.param(lambda: SoftmaxFwdOp(dim=0, target="reference"), id="softmax"),
    pytest.param(lambda: GELUFwdOp(approximate="tanh", target=BUILTIN), id="gelu"),
]


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("make", OPS)
def test_a_copy_is_an_equal_op_that_nobody_serves_yet(make, way, called):
    """Peer fault 8"""
    op = make()
    if called:
        op(small())
    other = way(op)
    assert type(other) is type(op)
    assert repr(other) == repr(op)
    assert other.target is op.target or other.target == op.target
    assert other._key == op._key
    assert other._binding is UNBOUND
    with pytest.raises(RuntimeError, match="no call"):
        other.last_call  # noqa: B018
    assert torch.equal(other(small()), op(small()))
    assert other._binding is not op._binding


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_copys_parameters_are_fixed_too(way):
    other = way(RMSNormFwdOp((4,)))
    with pytest.raises(AttributeError, match="eps is fixed"):
        other.eps = 1.0


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_copy_keeps_what_a_user_added(way):
    op = RMSNormFwdOp((4,))
    op.label = ["first"]
    other = way(op)
    assert other.label == ["first"]
    assert (other.label is op.label) is (way is copy.copy)


def test_a_module_that_holds_an_op_is_copied():
    """Peer fault 8"""
    block = Block()
    block(small())
    for other in (copy.deepcopy(block), pickled(block)):
        assert torch.equal(other(small()), block(small()))


def test_a_module_that_holds_an_op_is_saved_and_loaded():
    """Peer fault 8"""
    block, file = Block(), io.BytesIO()
    block(small())
    torch.save(block, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(loaded(small()), block(small()))


def test_a_copy_of_an_op_whose_target_is_gone_says_so():
    with target():
        op = op_class("ProbeFwdOp")(target="acme")
        op(small())
    with pytest.raises(UnknownTargetError, match="'acme'"):
        copy.deepcopy(op)


def test_an_op_is_copied_while_other_threads_call_it():
    op, stop = RMSNormFwdOp((4,)), threading.Event()
    errors = []

    def call():
        rows = 0
        while not stop.is_set():
            rows = rows % 50 + 1
            try:
                op(small(rows, 4))
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=call, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        copy.deepcopy(op)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert errors == []


def test_a_copy_of_a_subclass_with_a_constructor_of_its_own():
    with served(op="BufferFwdOp") as op:
        other = copy.deepcopy(op)
        assert torch.equal(other(small()), op(small()))


class Graph(torch.nn.Module):
    """A module whose op only graphs have called."""

    def __init__(self):
        super().__init__()
        self.norm = RMSNormFwdOp((4,), eps=1e-3)

    def forward(self, x):
        return self.norm(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_module_is_copied_after_it_was_compiled(way):
    """Peer fault 8"""
    torch._dynamo.reset()
    module = Graph()
    y = torch.compile(module, backend="eager", fullgraph=True)(small())
    other = way(module)
    assert torch.equal(other(small()), y)
    assert other.norm._key == module.norm._key
    torch._dynamo.reset()


# -- records ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("make", OPS)
def test_a_record_is_copied_with_all_that_it_tells(make, way):
    op = make()
    op(small())
    record, other = op.last_call, way(op.last_call)
    assert repr(other) == repr(record)
    assert other.tensors == record.tensors
    assert other.indices == record.indices
    assert other.parameters == record.parameters
    assert other.served_by == record.served_by
    assert other.roofline() == record.roofline()


def test_a_record_of_a_class_that_no_module_has_says_so():
    with served() as op:
        op(small())
        with pytest.raises(pickle.PicklingError, match="ProbeFwdOp: no module has its class"):
            pickle.dumps(op.last_call)


def test_a_record_of_an_entry_that_changed_is_refused(monkeypatch):
    import attrs

    op = GELUFwdOp()
    op(small())
    text = pickle.dumps(op.last_call)
    signature = attrs.evolve(GELUFwdOp._plan.signature, entry_hash="0" * 16)
    monkeypatch.setattr(GELUFwdOp, "_plan", attrs.evolve(GELUFwdOp._plan, signature=signature))
    with pytest.raises(TileOpsError, match="GELUFwdOp: this was pickled for an entry"):
        pickle.loads(text)


def test_a_records_metadata_is_pickled_with_it():
    op, positions = RoPENeoxPositionIdsFwdOp(max_position=16), torch.tensor([3, 1])
    op(torch.randn(2, 1, 8), positions)
    assert pickled(op.last_call).metadata.keys() == op.last_call.metadata.keys()


# -- keys -------------------------------------------------------------------------------------


def test_a_key_is_json_of_op_parameters_target_and_entry():
    op = RMSNormFwdOp((4,), eps=1e-3, target="reference")
    name, params, chosen, entry = json.loads(op._key)
    assert (name, params, chosen) == ("RMSNormFwdOp", [[4], 1e-3], "reference")
    assert isinstance(entry, str)
    assert entry


def test_what_differs_has_another_key():
    ops = [
        RMSNormFwdOp((4,)),
        RMSNormFwdOp((4, 4)),
        RMSNormFwdOp((4,), eps=1e-3),
        RMSNormFwdOp((4,), target="reference"),
        RMSNormFwdOp((4,), target=BUILTIN),
        LayerNormFwdOp((4,)),
    ]
    assert len({op._key for op in ops}) == len(ops)


def test_equal_ops_share_one_anchor():
    one, two = RMSNormFwdOp((4,)), RMSNormFwdOp([4])
    assert one._construction.anchor is two._construction.anchor


def test_a_key_is_in_use_as_long_as_an_op_lives():
    op = RMSNormFwdOp((4,), eps=0.125)
    key = op._key
    assert key in hosts._ANCHORS
    del op
    gc.collect()
    assert key not in hosts._ANCHORS


def test_who_serves_is_no_part_of_the_key():
    op = RMSNormFwdOp((4,))
    before = op._key
    op(small())
    assert op._key == before
