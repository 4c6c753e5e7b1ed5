"""Take a good call, change one fact: an instance that knows the good call and a fresh one agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import torch
from call_support import faulty, never, op_class, small, target
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileops_core.backend import BuilderRegistration, TargetRegistration, registered
from tileops_core.ops import (
    AddFwdOp,
    FusedAddLayerNormFwdOp,
    GEMMFwdOp,
    LayerNormFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SoftmaxFwdOp,
    SumFwdOp,
)

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.bool)


@attrs.frozen
class Form:
    """One argument: what it is and how it lies. ``same``: the very tensor of that argument."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: str = "dense"
    device: str = "cpu"
    grad: bool = False
    same: str | None = None


def made(form: Form | None, others: dict[str, Any]) -> Any:
    """The argument of a form; ``layout`` may lie it over another one."""
    if form is None:
        return None
    if form.same is not None:
        return others[form.same]
    count = torch.Size(form.shape).numel()
    values = (torch.arange(count) % 7 - 3).to(form.dtype).reshape(form.shape)
    x = values.to(form.device)
    if form.layout == "strided":
        wide = torch.zeros((*form.shape[:-1], form.shape[-1] * 2) if form.shape else (2,))
        wide = wide.to(x.dtype).to(form.device)
        view = wide[..., ::2] if form.shape else wide[0]
        view.copy_(x)
        x = view
    elif form.layout == "transposed" and len(form.shape) > 1:
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    elif form.layout == "expanded" and form.shape:
        x = x[:1].expand(form.shape)
    elif form.layout == "overlapping" and others:
        base = next((t for t in others.values() if isinstance(t, torch.Tensor)), None)
        if base is not None and base.dtype is x.dtype and base.device == x.device:
            storage = torch.empty(0, dtype=x.dtype).set_(base.untyped_storage())
            if storage.numel() >= base.storage_offset() + count:
                x = storage[storage.numel() - count :].view(form.shape)
    elif form.layout == "negative" and form.dtype is torch.float32 and form.device == "cpu":
        x = torch.complex(torch.zeros(form.shape), -x).conj().imag
    elif form.layout == "sparse" and form.shape:
        x = x.to_sparse()
    return x.requires_grad_() if form.grad and x.is_floating_point() else x


@attrs.frozen
class Case:
    """An op with parameters, and a good call's arguments by name."""

    make: Callable[..., Any]
    params: dict[str, Any]
    arguments: dict[str, Form | None]
    others: dict[str, tuple[Any, ...]] = attrs.field(factory=dict)


def probe(name: str, **params: Any) -> Callable[..., Any]:
    return lambda **more: op_class(name)(**{**params, **more}, target="acme")


X, ROW = Form((3, 4)), Form((4,))
CASES = {
    "rms_norm": Case(
        RMSNormFwdOp,
        {"normalized_shape": (4,)},
        {"x": X, "weight": ROW},
        {"normalized_shape": ((3, 4), 4, (5,), ()), "eps": (1e-3, 0.0)},
    ),
    "layer_norm": Case(
        LayerNormFwdOp, {"normalized_shape": (4,)}, {"input": X, "weight": ROW, "bias": ROW}
    ),
    "fused_add": Case(
        FusedAddLayerNormFwdOp, {}, {"x": X, "residual": X, "weight": ROW, "bias": ROW}
    ),
    "add": Case(AddFwdOp, {}, {"input": X, "other": ROW}, {"alpha": (2, 0.5, -1)}),
    "gemm": Case(GEMMFwdOp, {}, {"a": X, "b": Form((5, 4))}, {"trans_a": (True,)}),
    "sum": Case(
        SumFwdOp, {"dim": 0}, {"input": X}, {"dim": (1, -1, 2, (0, 1)), "keepdim": (True,)}
    ),
    "softmax": Case(SoftmaxFwdOp, {"dim": 1}, {"x": X}, {"dim": (0, 2, -3)}),
    "relu": Case(ReLUFwdOp, {"inplace": False}, {"input": X}, {"inplace": (True,)}),
    "relu in place": Case(ReLUFwdOp, {"inplace": True}, {"input": X}),
    "buffer": Case(probe("BufferFwdOp"), {}, {"x": X, "out": X}, {"factor": (3.0,)}),
    "accumulate": Case(probe("AccumulateFwdOp"), {}, {"state": X, "x": X}),
    "store": Case(probe("StoreFwdOp"), {}, {"cache": X, "x": X}),
    "rotate": Case(probe("RotateFwdOp"), {}, {"left": X, "right": X}),
    "maxima": Case(probe("MaximaFwdOp"), {}, {"x": X}, {"indices": (False,)}),
    "mask": Case(probe("MaskFwdOp"), {}, {"x": X, "keep": Form((3, 4), torch.bool)}),
}


def shapes(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """The shape with one fact changed: a length, the rank, the order."""
    changed = [(*shape, 1), (1, *shape), shape[::-1], shape[1:], ()]
    for axis in range(len(shape)):
        for length in (0, 1, shape[axis] + 1):
            changed.append((*shape[:axis], length, *shape[axis + 1 :]))
    return st.sampled_from(changed)


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, dict[str, Any], dict[str, Form | None]]:
    """A case by name, and its parameters and arguments after at most one change."""
    name = draw(st.sampled_from(sorted(CASES)))
    case = CASES[name]
    params, arguments = dict(case.params), dict(case.arguments)
    kinds = ["none", "dtype", "shape", "layout", "device", "presence", "same", "grad"]
    kind = draw(st.sampled_from([*kinds, *(["parameter"] if case.others else [])]))
    which = draw(st.sampled_from(sorted(arguments)))
    form = arguments[which]
    assert form is not None
    if kind == "dtype":
        arguments[which] = attrs.evolve(form, dtype=draw(st.sampled_from(DTYPES)))
    elif kind == "shape":
        arguments[which] = attrs.evolve(form, shape=draw(shapes(form.shape)))
    elif kind == "layout":
        layout = draw(
            st.sampled_from(
                ["strided", "transposed", "expanded", "overlapping", "negative", "sparse"]
            )
        )
        arguments[which] = attrs.evolve(form, layout=layout)
    elif kind == "device":
        arguments[which] = attrs.evolve(form, device="meta")
    elif kind == "presence":
        arguments[which] = None
    elif kind == "same":
        first = next(iter(arguments))
        if first != which:
            arguments[which] = attrs.evolve(form, same=first)
    elif kind == "grad":
        arguments[which] = attrs.evolve(form, grad=True)
    elif kind == "parameter":
        parameter = draw(st.sampled_from(sorted(case.others)))
        params[parameter] = draw(st.sampled_from(case.others[parameter]))
    return name, params, arguments


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def facts(value: Any, arguments: dict[str, Any]) -> Any:
    """What can be said of a result: which argument it is, or its facts and values."""
    for name, argument in arguments.items():
        if argument is not None and value is argument:
            return name
    if isinstance(value, tuple):
        return tuple(facts(v, arguments) for v in value)
    if not isinstance(value, torch.Tensor):
        return value
    numbers = None if value.device.type == "meta" else value.detach().double().tolist()
    return (
        value.dtype,
        tuple(value.shape),
        value.stride(),
        str(value.device),
        value.requires_grad,
        repr(numbers),
    )


def outcome(op: Any, forms: dict[str, Form | None]) -> Any:
    """What a call comes to: the result, what its arguments hold, and the record."""
    arguments: dict[str, Any] = {}
    for name, form in forms.items():
        arguments[name] = made(form, arguments)
    try:
        result = facts(op(**arguments), arguments)
    except Exception as error:
        return told(error)
    after = {
        n: repr(a.detach().double().tolist())
        for n, a in arguments.items()
        if a is not None and a.device.type != "meta" and a.layout is torch.strided
    }
    record = op.last_call
    return result, after, dict(record.tensors), record.branch_key, record.present("out")


def construct(case: Case, params: dict[str, Any]) -> Any:
    try:
        return case.make(**params), None
    except Exception as error:
        return None, told(error)


PROBED = [name for name in faulty.SPECS if name != "ProbeFwdOp"]


def probes() -> Any:
    """All the probes' builders under one target."""
    builders = (BuilderRegistration(name, "acme", faulty.builder(name)) for name in PROBED)
    return registered(TargetRegistration("acme", never), *builders, backend="vendor")


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(changes(), st.integers(1, 2))
def test_a_cached_instance_and_a_fresh_one_agree(change, times):
    name, params, arguments = change
    case = CASES[name]
    with probes():
        fresh, refused = construct(case, params)
        cached, also_refused = construct(case, params)
        assert refused == also_refused
        if fresh is None:
            return
        good = outcome(cached, case.arguments)
        outcome(cached, case.arguments)
        due = outcome(fresh, arguments)
        for _ in range(times):
            assert outcome(cached, arguments) == due
        assert outcome(cached, case.arguments) == good


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(changes(), min_size=3, max_size=6))
def test_a_long_history_changes_no_outcome(history):
    """Whatever an instance met before, failures included."""
    name = history[0][0]
    case = CASES[name]
    with probes():
        cached, _ = construct(case, case.params)
        for other, _, arguments in history:
            if other != name:
                first = next(iter(case.arguments))
                strided = attrs.evolve(case.arguments[first], layout="strided")
                arguments = {**case.arguments, first: strided}
            outcome(cached, arguments)
        fresh, _ = construct(case, case.params)
        assert outcome(cached, case.arguments) == outcome(fresh, case.arguments)


def test_the_good_calls_are_good():
    """Else the property would hold for want of a result."""
    with probes():
        for name, case in CASES.items():
            op, refused = construct(case, case.params)
            assert refused is None
            assert not isinstance(outcome(op, case.arguments), str), name


def test_changes_reach_routes_and_refusals():
    x = small()
    with target():
        op = op_class("ProbeFwdOp")(target="acme")
        op(x)
        assert len(op._binding) == 1
        assert outcome(op, {"x": Form((3, 4))})[0][1] == (3, 4)
        assert "has dtype int32" in outcome(op, {"x": Form((3, 4), torch.int32)})
