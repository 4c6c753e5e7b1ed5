"""Calls that write: a warm instance refuses, copies and returns as a new one does.

What is written may share memory with other arguments in many ways, and overlap lies in addresses,
which no key of a route holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import property_calls as calls
import pytest
import torch
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tileops_core import Op
from tileops_core.backend import BuilderRegistration, TargetRegistration, registered

PROFILE = settings(
    max_examples=150,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
THOROUGH = settings(PROFILE, max_examples=240)
TARGET = "property_target"


def _entry(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any], params: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    tensor = {"dtype": "T", "shape": "[M, N]"}
    signature: dict[str, Any] = {
        "forall": {"M": "Dim", "N": "Dim", "T": "DType[float16 | float32 | int32]"},
        "inputs": {name: {**tensor, **more} for name, more in inputs.items()},
        "outputs": {name: {**tensor, **more} for name, more in outputs.items()},
    }
    if params:
        signature["params"] = params
    row = {"label": "row", "M": 2, "N": 3, "dtype_cases": [{"T": "float32"}]}
    return {
        "family": "property",
        "status": "implemented",
        "signature": signature,
        "workloads": [row],
        "roofline": {"flops": "2 * M * N"},
    }


class PropertyAddOutFwdOp(Op):
    """``y = x + z``, into ``out`` if given."""

    spec = _entry({"x": {}, "z": {}}, {"y": {"buffer": "out"}})


class PropertyRotateFwdOp(Op):
    """``left, right = left + z, right - z``, both in place, and both returned."""

    spec = _entry(
        {"left": {"mutated": True}, "right": {"mutated": True}, "z": {}},
        {"sum": {"alias": "left"}, "difference": {"alias": "right"}},
    )


class PropertyAccumulateFwdOp(Op):
    """``state += x`` in place; returns ``2 x``, and ``3 x`` into ``out`` if given."""

    spec = _entry(
        {"state": {"mutated": True}, "x": {}, "mask": {"dtype": "bool", "optional": True}},
        {"double": {}, "triple": {"buffer": "out"}},
    )


class PropertyMaybeFwdOp(Op):
    """``y = x + z``, in ``x`` where ``inplace``."""

    spec = _entry(
        {"x": {"mutated": "inplace"}, "z": {}},
        {"y": {"alias": "x"}},
        {"inplace": {"type": "bool", "default": False}},
    )


def _add_out(*specs: Any) -> Callable[..., Any]:
    def kernel(x: Any, z: Any, out: Any = None) -> Any:
        return torch.add(x, z) if out is None else torch.add(x, z, out=out)

    return kernel


def _rotate(*specs: Any) -> Callable[..., Any]:
    def kernel(left: Any, right: Any, z: Any) -> Any:
        total, difference = left + z, right - z
        return left.copy_(total), right.copy_(difference)

    return kernel


def _accumulate(*specs: Any) -> Callable[..., Any]:
    def kernel(state: Any, x: Any, mask: Any, out: Any = None) -> Any:
        double, triple = x + x, x + x + x
        state.add_(x if mask is None else torch.where(mask, x, 0))
        return double, triple if out is None else out.copy_(triple)

    return kernel


def _maybe(*specs: Any, inplace: bool) -> Callable[..., Any]:
    def kernel(x: Any, z: Any) -> Any:
        return x.add_(z) if inplace else x + z

    return kernel


BUILDERS: Mapping[type[Op], Callable[..., Any]] = {
    PropertyAddOutFwdOp: _add_out,
    PropertyRotateFwdOp: _rotate,
    PropertyAccumulateFwdOp: _accumulate,
    PropertyMaybeFwdOp: _maybe,
}


def _of_memory(build_kernel: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *specs, **params: calls.reads_memory(build_kernel(*specs, **params))


@pytest.fixture(autouse=True)
def target() -> Iterator[None]:
    with registered(
        TargetRegistration(TARGET, lambda device: False),
        *(BuilderRegistration(op.__name__, TARGET, _of_memory(b)) for op, b in BUILDERS.items()),
    ):
        yield


# -- arguments that share memory ----------------------------------------------------------


VIEWS: Mapping[str, Callable[[torch.Tensor, tuple[int, int]], torch.Tensor]] = {
    "first": lambda base, shape: _block(base, 0, shape),
    "shifted": lambda base, shape: _block(base, 1, shape),
    "second": lambda base, shape: _block(base, shape[0] * shape[1], shape),
    "even": lambda base, shape: _block(base[::2], 0, shape),
    "odd": lambda base, shape: _block(base[1::2], 0, shape),
    "turned": lambda base, shape: _block(base, 0, shape[::-1]).t(),
    "row": lambda base, shape: base[: shape[1]].expand(shape),
    "folded": lambda base, shape: base.as_strided(shape, (1, 1)),
    "gapped": lambda base, shape: base.as_strided(shape, (shape[1] + 2, 1), 3),
}
"""Views of one piece of memory; many of them meet."""


def _block(base: torch.Tensor, start: int, shape: tuple[int, int]) -> torch.Tensor:
    return base[start : start + shape[0] * shape[1]].view(shape)


@attrs.frozen
class Argument:
    """A tensor of its own, or a view of the memory that such arguments of a call share."""

    view: str | None = None
    seed: int = 0
    layout: str = "dense"
    form: str = "tensor"
    device: str = "cpu"
    dtype: torch.dtype | None = None
    shape: tuple[int, ...] | None = None


@attrs.frozen
class Call:
    """A call of one of the ops above; an argument that is None is left out."""

    op: type[Op]
    shape: tuple[int, int]
    dtype: torch.dtype
    arguments: Mapping[str, Argument | None]
    params: Mapping[str, Any] = attrs.field(factory=dict)
    around: str = "plain"

    def construct(self) -> Any:
        return self.op(**self.params, target=TARGET)

    def run(self, op: Any) -> Any:
        return calls.outcome(op, self._make, self.around)

    def _make(self) -> tuple[list[Any], dict[str, Any]]:
        length = 4 * self.shape[0] * self.shape[1] + 16
        base = calls.Given(self.dtype, (length,), 1).make()
        made = {
            name: None if a is None else self._argument(name, a, base)
            for name, a in self.arguments.items()
        }
        out = made.pop("out", None)
        return list(made.values()), {} if out is None else {"out": out}

    def _argument(self, name: str, a: Argument, base: torch.Tensor) -> Any:
        shape = self.shape if a.shape is None else a.shape
        dtype = a.dtype or (torch.bool if name == "mask" else self.dtype)
        if a.view is None or dtype != base.dtype or len(shape) != 2:
            return calls.Given(dtype, shape, a.seed, a.layout, a.form, a.device).make()
        return VIEWS[a.view](base, shape)


OPTIONAL = {PropertyAddOutFwdOp: ("out",), PropertyAccumulateFwdOp: ("mask", "out")}
WRITTEN = {
    PropertyAddOutFwdOp: ("out",),
    PropertyRotateFwdOp: ("left", "right"),
    PropertyAccumulateFwdOp: ("state", "out"),
    PropertyMaybeFwdOp: ("x",),
}
ORDINARY = [w for w in calls.LAYOUTS if w != "expanded"]


@st.composite
def good_calls(draw: Any, op: type[Op]) -> Call:
    """A call that the op accepts: what is written is its own memory, or somebody's very view."""
    inputs = list(op.spec["signature"]["inputs"])
    buffer = [n for n, o in op.spec["signature"]["outputs"].items() if o.get("buffer")]
    shape = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    made: dict[str, Argument | None] = {}
    for i, name in enumerate([*inputs, *(["out"] if buffer else [])]):
        if name in OPTIONAL.get(op, ()) and draw(st.booleans()):
            made[name] = None
            continue
        layouts = ORDINARY if name in WRITTEN[op] else calls.LAYOUTS
        made[name] = Argument(seed=i, layout=draw(st.sampled_from(layouts)))
    if draw(st.booleans()):
        # Disjoint parts of one piece of memory, or one view under two names, one of them read.
        names = [n for n in made if n != "mask" and made[n] is not None]
        first, other = draw(st.permutations(names))[:2]
        made[first] = Argument("first")
        both = {first, other} <= set(WRITTEN[op])
        made[other] = Argument("second" if both else draw(st.sampled_from(["first", "second"])))
    params = {}
    if op is PropertyMaybeFwdOp:
        params["inplace"] = draw(st.booleans())
    dtype = draw(st.sampled_from([torch.float32, torch.float16, torch.int32]))
    around = draw(st.sampled_from(["plain", "plain", "no_grad", "inference"]))
    return Call(op, shape, dtype, made, params, around)


@st.composite
def changed(draw: Any, call: Call) -> tuple[str, Call]:
    """The call with one fact changed, and which."""
    fact = draw(st.sampled_from(["view", "view", "presence", "around", "shape", "dtype", *FIELDS]))
    arguments = dict(call.arguments)
    if fact == "around":
        return fact, attrs.evolve(call, around=draw(st.sampled_from(calls.SURROUNDINGS)))
    if fact == "shape":
        shape = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
        return fact, attrs.evolve(call, shape=shape)
    if fact == "dtype":
        return fact, attrs.evolve(call, dtype=draw(st.sampled_from(DTYPES)))
    if fact == "presence":
        name = draw(st.sampled_from(OPTIONAL.get(call.op, tuple(arguments))))
        arguments[name] = Argument(seed=9) if arguments[name] is None else None
        return fact, attrs.evolve(call, arguments=arguments)
    name = draw(st.sampled_from([n for n, a in arguments.items() if a is not None]))
    if fact == "view":
        arguments[name] = Argument(draw(st.sampled_from(tuple(VIEWS))))
    else:
        value = draw(st.sampled_from(FIELDS[fact]))
        alone = attrs.evolve(arguments[name], view=None)
        arguments[name] = attrs.evolve(alone, **{fact.removesuffix("_alone"): value})
    return fact, attrs.evolve(call, arguments=arguments)


DTYPES = (torch.float16, torch.float32, torch.float64, torch.int32, torch.bool, torch.complex64)
FIELDS: Mapping[str, Any] = {
    "seed": range(10, 15),
    "layout": calls.LAYOUTS,
    "form": calls.FORMS + calls.ODD,
    "device": ["meta"],
    "dtype_alone": DTYPES,
    "shape_alone": [(2, 3), (3, 2), (1, 3), (0, 3), (3,), (), (1, 2, 3)],
}


# -- the rule -----------------------------------------------------------------------------


def _check_one_change(op: type[Op], data: Any) -> None:
    call = data.draw(good_calls(op))
    warm = call.construct()
    good = call.run(warm)
    note(f"{call}\ntold {good.told}")
    assert not isinstance(good.told[0], type), "a good call was refused"
    assert call.run(warm) == good
    for _ in range(data.draw(st.integers(1, 3))):
        fact, other = data.draw(changed(call))
        note(f"changed by {fact}:\n{other}")
        due = other.run(other.construct())
        assert other.run(warm) == due, f"changed by {fact}"
        assert other.run(warm) == due, f"changed by {fact}, again"
        if due.record is None:
            assert calls.facts_of(warm.last_call) == good.record, "a refused call left a record"
        assert call.run(warm) == good, f"the good call, after a change by {fact}"


@pytest.mark.parametrize("op", BUILDERS, ids=lambda op: op.__name__)
@PROFILE
@given(data=st.data())
def test_a_warm_instance_tells_of_a_changed_call_what_a_new_one_tells(op, data) -> None:
    _check_one_change(op, data)


@pytest.mark.slow
@pytest.mark.parametrize("op", BUILDERS, ids=lambda op: op.__name__)
@THOROUGH
@given(data=st.data())
def test_a_warm_instance_tells_what_a_new_one_tells_of_many_calls(op, data) -> None:
    _check_one_change(op, data)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("other", VIEWS)
def test_a_warm_instance_refuses_overlap_as_a_new_one_does(view, other) -> None:
    apart = {"x": Argument(seed=1), "z": Argument(seed=2), "out": Argument(seed=3)}
    call = Call(PropertyAddOutFwdOp, (2, 3), torch.float32, apart)
    warm = call.construct()
    good = call.run(warm)
    mixed = attrs.evolve(call, arguments={**apart, "x": Argument(view), "out": Argument(other)})
    told = mixed.run(mixed.construct())
    assert mixed.run(warm) == told
    assert call.run(warm) == good
