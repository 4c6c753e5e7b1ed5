"""A call on a warm instance tells what it would tell on a new one, whatever changed by one fact.

Warm instances hold routes, and a route is found by a key. Were a fact missing from the key, the
call would take a road that was made for another one, and nothing else would notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import property_calls as calls
import pytest
import torch
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

import tileops_core.ops
from tileops_core.backend import BuilderRegistration, TargetRegistration, registered
from tileops_core.errors import ManifestError, TileOpsError
from tileops_core.ops._index import OPS as ALL
from tileops_core.signature.build import build_signature
from tileops_core.signature.kinds import (
    AdtKind,
    AxesKind,
    BoolKind,
    DeviceKind,
    DimKind,
    DTypeKind,
    EnumKind,
    IntKind,
    Kind,
    MaybeKind,
    OpaqueKind,
    ScalarKind,
    SeqKind,
    ShapeKind,
    TensorKind,
)
from tileops_core.signature.model import REQUIRED, Signature, Workload
from tileops_core.signature.workload import instantiate
from tileops_core.spec.catalogue import load_spec

Given = calls.Given


def _takes_objects(signature: Signature) -> bool:
    """Whether a parameter is an object, by which kernels find places in what a tensor holds."""
    kinds = [p.kind.of if isinstance(p.kind, MaybeKind) else p.kind for p in signature.params]
    return any(isinstance(kind, AdtKind | OpaqueKind) for kind in kinds)


EVERY: Mapping[str, Signature] = {op: build_signature(load_spec(op)) for op in ALL}
# Random numbers are no places; the others go the same way through the library.
SIGNATURES = {op: signature for op, signature in EVERY.items() if not _takes_objects(signature)}
OPS = tuple(SIGNATURES)


def _marked(ops: Iterable[str]) -> list[Any]:
    """Ops as a test's parameters; of experts even small calls are large."""
    large = {op for op in OPS if SIGNATURES[op].family == "moe"}
    return [pytest.param(op, marks=[pytest.mark.slow] * (op in large)) for op in sorted(ops)]


DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn,
    torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64,
)  # fmt: skip
PROFILE = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
THOROUGH = settings(PROFILE, max_examples=120)


@attrs.frozen
class Call:
    """A call that an op accepts, and the row it was made from."""

    op: str
    row: Workload
    dtypes: Mapping[str, str]
    params: Mapping[str, Any]
    inputs: Mapping[str, Any]
    around: str = "plain"

    target: str | None = None

    def construct(self) -> Any:
        return getattr(tileops_core.ops, self.op)(**self.params, target=self.target)

    def run(self, op: Any) -> Any:
        return calls.outcome(op, calls.arguments(type(op), self.inputs), self.around)


TARGET = "property_memory"


def _builder(op: str) -> Any:
    """The reference's kernels behind a target's builder, reading memory as it lies."""

    def build_kernel(*specs: Any, **params: Any) -> Any:
        return calls.reads_memory(getattr(tileops_core.ops, op)(**params, target="reference"))

    return build_kernel


@pytest.fixture(scope="module", autouse=True)
def target() -> Iterator[None]:
    with registered(
        TargetRegistration(TARGET, lambda device: False),
        *(BuilderRegistration(op, TARGET, _builder(op)) for op in OPS),
    ):
        yield


# -- good calls ---------------------------------------------------------------------------


@st.composite
def good_calls(draw: Any, op: str) -> Call:
    """A call by a row of the manifest, made small, or by made-up values."""
    signature = SIGNATURES[op]
    if draw(st.booleans()):
        row = draw(st.sampled_from(signature.workloads))
        dtypes = draw(st.sampled_from(row.dtype_cases))
        row = _shrunk(row, signature)
    else:
        row, dtypes = draw(_made_up_attention() if "GQA" in op else _made_up(signature))
    call = _call(op, row, dtypes, draw(st.integers(0, 9)))
    assume(call is not None)
    inputs = {
        name: given and attrs.evolve(given, layout=draw(st.sampled_from(calls.LAYOUTS)))
        for name, given in call.inputs.items()
    }
    if "inplace" in call.params:
        # An expanded tensor is read gladly, and refused where it is written.
        inputs["input"] = attrs.evolve(
            inputs["input"],
            layout=draw(
                st.sampled_from([layout for layout in calls.LAYOUTS if layout != "expanded"])
            ),
        )
    return attrs.evolve(call, inputs=inputs, target=draw(st.sampled_from([None, TARGET])))


def _call(op: str, row: Workload, dtypes: Mapping[str, str], seed: int) -> Call | None:
    """The call that a row describes, or None if it describes none."""
    try:
        # What metadata hold, no call reads.
        case = instantiate(SIGNATURES[op], row, dtypes, requires=False)
    except ManifestError:
        return None
    inputs = {
        name: None if facts is None else Given(getattr(torch, facts[0]), facts[1], seed + i)
        for i, (name, facts) in enumerate(case.inputs.items())
    }
    return Call(op, row, dtypes, dict(row.params), inputs)


def _shrunk(row: Workload, signature: Signature) -> Workload:
    """The row at its small sizes, and what is still large there made small by one table."""
    if signature.family == "moe":
        case = instantiate(signature, row, row.dtype_cases[0], requires=False).scaled(1 << 11)
        return attrs.evolve(row, indices={n: case.indices[n] for n in row.indices}, small=None)
    small = row.small or {}
    names = {p.name for p in signature.params}
    params = {**row.params, **{n: v for n, v in small.items() if n in names}}
    indices = {**row.indices, **{n: v for n, v in small.items() if n not in names}}
    kinds = {p.name: p.kind for p in signature.params}
    params = {n: _shorter(v) if isinstance(kinds[n], ShapeKind) else v for n, v in params.items()}
    indices = {n: _shorter(v) for n, v in indices.items()}
    return attrs.evolve(row, params=params, indices=indices, small=None)


def _shorter(lengths: Any) -> Any:
    if isinstance(lengths, tuple):
        return tuple(map(_shorter, lengths))
    return {128: 5, 384: 6, 512: 4, 1536: 8, 8192: 9}.get(lengths, lengths)


_LENGTH = st.integers(0, 4)
_SHAPE = st.lists(_LENGTH, max_size=3).map(tuple)


@st.composite
def _made_up(draw: Any, signature: Signature) -> tuple[Workload, Mapping[str, str]]:
    """A row of made-up values; most are calls that the op accepts."""
    indices: dict[str, Any] = {}
    dtypes: dict[str, str] = {}
    for index in signature.indices:
        if isinstance(index.kind, DTypeKind):
            dtypes[index.name] = draw(st.sampled_from(index.kind.members))
        else:
            several = isinstance(index.kind, (SeqKind, ShapeKind))
            indices[index.name] = draw(_SHAPE if several else _LENGTH)
    if {"A", "B"} <= indices.keys():  # shapes that broadcast
        kept = indices["A"][draw(st.integers(0, 3)) :]
        indices["B"] = tuple(n if draw(st.booleans()) else 1 for n in kept)
    params = {
        p.name: draw(_values_of(p.kind))
        for p in signature.params
        if p.default is REQUIRED or draw(st.booleans())
    }
    if not params.get("normalized_shape", (1,)):
        params["normalized_shape"] = (3,)
    optional = [t.name for t in signature.inputs if t.optional is True]
    some = tuple(name for name in optional if draw(st.booleans()))
    row = signature.workloads[0]
    return attrs.evolve(row, params=params, indices=indices, some=some, small=None), dtypes


@st.composite
def _made_up_attention(draw: Any) -> tuple[Workload, Mapping[str, str]]:
    """Attention with few positions; its rules leave little room for chance."""

    def pick(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    S_kv, H_kv, D = draw(st.integers(1, 5)), pick(1, 2), pick(2, 4)
    indices = {
        "B": pick(0, 1, 2), "S_q": draw(st.integers(0, S_kv)), "S_kv": S_kv,
        "H": H_kv * pick(1, 2), "H_kv": H_kv, "D": D,
    }  # fmt: skip
    params: dict[str, Any] = {
        "is_causal": pick(False, True),
        "window_size_left": pick(-1, 0, 2),
        "window_size_right": pick(-1, 0, 2),
        "sm_scale": pick(None, 0.5),
        "softcap": pick(None, 0.0, 5.0),
    }
    dtypes = {"T": pick("float16", "bfloat16", "float32", "float8_e4m3fn")}
    some = pick((), ("sinks",))
    if pick(False, True):
        params |= {"pos_encoding_mode": "rope", "rotary_dim": pick(None, 2)}
        params |= {"rope_layout": pick("neox", "interleaved")}
        indices["P_pad"] = pick(0, 1)
    if dtypes["T"] == "float8_e4m3fn":
        params["out_dtype"] = pick("float16", "float32")
        some += ("q_scale",)
    row = SIGNATURES["GQADenseFwdOp"].workloads[0]
    return attrs.evolve(row, params=params, indices=indices, some=some, small=None), dtypes


def _values_of(kind: Kind) -> st.SearchStrategy[Any]:
    """Values of a parameter's kind, and a few that are not."""
    match kind:
        case MaybeKind(of=inner):
            return st.none() | _values_of(inner)
        case BoolKind():
            return st.booleans()
        case EnumKind(words=words):
            return st.sampled_from(words)
        case DTypeKind(members=members):
            return st.sampled_from(members)
        case DimKind() | IntKind():
            return st.integers(-3, 3)
        case ShapeKind():
            return _SHAPE
        case AxesKind():
            return st.none() | st.integers(-2, 2) | st.lists(st.integers(-2, 2), max_size=2)
        case DeviceKind():
            return st.sampled_from([None, "cpu", "meta"])
        case TensorKind():
            return st.none()  # no two of them are the same parameter
        case ScalarKind(types=types):
            numbers = [0.5, 1e-6, 0.0, -0.0, 2.0] + ([1, 2] if "int" in types else [])
            return st.sampled_from(numbers)
    raise AssertionError(kind)


# -- one change ---------------------------------------------------------------------------


@st.composite
def changed(draw: Any, call: Call) -> tuple[str, Call]:
    """The call with one fact changed, and which."""
    fact = draw(st.sampled_from(CHANGES if call.inputs else ("around",)))
    return fact, draw(_CHANGES[fact](call))


@st.composite
def _one_tensor(draw: Any, call: Call, change: Any) -> Call:
    present = [name for name, given in call.inputs.items() if given is not None]
    name = draw(st.sampled_from(present))
    return attrs.evolve(call, inputs={**call.inputs, name: draw(change(call.inputs[name]))})


def _field(name: str, values: Sequence[Any]) -> Callable[[Call], Any]:
    """A change of one property of one tensor to one of some values."""

    def change(given: Any) -> Any:
        return st.sampled_from(values).map(lambda value: attrs.evolve(given, **{name: value}))

    return lambda call: _one_tensor(call, change)


def _device(call: Call) -> Any:
    def all_of_them() -> Call:
        inputs = {n: g and attrs.evolve(g, device="meta") for n, g in call.inputs.items()}
        return attrs.evolve(call, inputs=inputs)

    return _field("device", ["meta"])(call) | st.builds(all_of_them)


@st.composite
def _axis(draw: Any, given: Any) -> Any:
    axis = draw(st.integers(0, max(len(given.shape) - 1, 0)))
    length = draw(st.integers(0, 5))
    return attrs.evolve(given, shape=(*given.shape[:axis], length, *given.shape[axis + 1 :]))


def _dim(call: Call) -> Any:
    return _one_tensor(call, _axis)


def _rank(call: Call) -> Any:
    def change(given: Any) -> Any:
        shapes = [(1, *given.shape), (*given.shape, 1), given.shape[1:], given.shape[:-1], ()]
        return st.sampled_from(shapes).map(lambda s: attrs.evolve(given, shape=s))

    return _one_tensor(call, change)


@st.composite
def _presence(draw: Any, call: Call) -> Call:
    optional = [t.name for t in SIGNATURES[call.op].inputs if t.optional is not False]
    assume(optional)
    name = draw(st.sampled_from(optional))
    if call.inputs[name] is not None:
        given = None
    else:
        like = next(g for g in reversed(call.inputs.values()) if g is not None)
        params = {"normalized_shape": like.shape[-1:], **call.params}
        shapes = [tuple(params["normalized_shape"]), like.shape[:1], like.shape[2:3]]
        given = Given(
            draw(st.sampled_from([like.dtype, torch.float32])), draw(st.sampled_from(shapes))
        )
    return attrs.evolve(call, inputs={**call.inputs, name: given})


@st.composite
def _index(draw: Any, call: Call) -> Call:
    """The same call at another length, or of another dtype, of all tensors that share it."""
    indices, dtypes = dict(call.row.indices), dict(call.dtypes)
    name = draw(st.sampled_from([*indices, *dtypes]))
    if name in dtypes:
        kind = SIGNATURES[call.op].kind_of(name)
        dtypes[name] = draw(st.sampled_from(kind.members))
    else:
        indices[name] = draw(_SHAPE) if isinstance(indices[name], tuple) else draw(_LENGTH)
    other = _call(call.op, attrs.evolve(call.row, indices=indices), dtypes, 0)
    assume(other is not None)
    return attrs.evolve(call, inputs=other.inputs)


@st.composite
def _around(draw: Any, call: Call) -> Call:
    return attrs.evolve(call, around=draw(st.sampled_from(calls.SURROUNDINGS)))


_CHANGES: Mapping[str, Callable[[Call], Any]] = {
    "around": _around,
    "device": _device,
    "dim": _dim,
    "dtype": _field("dtype", DTYPES),
    "form": _field("form", calls.FORMS + calls.ODD),
    "index": _index,
    "layout": _field("layout", calls.LAYOUTS),
    "presence": _presence,
    "rank": _rank,
    "values": _field("seed", range(10, 20)),
}
CHANGES = tuple(_CHANGES)


# -- the rule -----------------------------------------------------------------------------


def _told(call: Call) -> Any:
    """What a new instance tells, or what its construction does."""
    try:
        op = call.construct()
    except TileOpsError as error:
        return type(error), str(error)
    return call.run(op)


def _warm(call: Call) -> tuple[Any, Any]:
    """An instance that knows the call, and what it tells."""
    op = call.construct()
    first = call.run(op)
    if isinstance(first.told[0], type):
        assume(False)
    assert call.run(op) == first, "the second call tells something else than the first"
    return op, first


def _check_one_change(name: str, data: Any) -> None:
    call = data.draw(good_calls(name))
    op, good = _warm(call)
    for _ in range(data.draw(st.integers(1, 3))):
        _try_one_change(op, call, good, data)


def _try_one_change(op: Any, call: Call, good: Any, data: Any) -> None:
    fact, other = data.draw(changed(call))
    note(f"{call}\nchanged by {fact}:\n{other}")
    due = _told(other)
    assert other.run(op) == due, f"changed by {fact}"
    assert other.run(op) == due, f"changed by {fact}, again"
    if due.record is None:
        assert calls.facts_of(op.last_call) == good.record, "a refused call left a record"
    assert call.run(op) == good, f"the good call, after a change by {fact}"
    if _means_the_same(fact, other):
        assert calls.values_of(due) == calls.values_of(good), f"other values, by {fact} alone"


def _means_the_same(fact: str, other: Call) -> bool:
    """Whether what changed is none of the kernels' business, so that the values stay."""
    forms = {given.form for given in other.inputs.values() if given is not None}
    writes = other.params.get("inplace", False)
    return fact == "around" or (fact == "form" and forms <= calls.same_values(writes))


def _check_one_parameter(name: str, data: Any) -> None:
    signature = SIGNATURES[name]
    assume(signature.params)
    call = data.draw(good_calls(name))
    op, good = _warm(call)
    param = data.draw(st.sampled_from(signature.params))
    odd = st.sampled_from([float("nan"), float("inf"), -1, "none", "half", None, (), True, 10**400])
    value = data.draw(_values_of(param.kind) | odd)
    other = attrs.evolve(call, params={**call.params, param.name: value})
    note(f"{call}\nwith {param.name}={value!r}")
    due = _told(other)
    if not isinstance(due, tuple):  # constructing it succeeded
        known = other.construct()
        assert [other.run(known), other.run(known)] == [due, due]
    assert call.run(op) == good


@pytest.mark.parametrize("name", _marked(OPS))
@PROFILE
@given(data=st.data())
def test_a_warm_instance_tells_of_a_changed_call_what_a_new_one_tells(name, data) -> None:
    _check_one_change(name, data)


@pytest.mark.parametrize("name", _marked(op for op in OPS if SIGNATURES[op].params))
@settings(PROFILE, max_examples=30)
@given(data=st.data())
def test_instances_of_other_parameters_do_not_share_routes(name, data) -> None:
    _check_one_parameter(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", _marked(OPS))
@THOROUGH
@given(data=st.data())
def test_a_warm_instance_tells_what_a_new_one_tells_of_many_calls(name, data) -> None:
    _check_one_change(name, data)
