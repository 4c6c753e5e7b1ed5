"""The table in `docs/compile.md`: a row for every way to call an op, and a test for each row."""

from __future__ import annotations

import copy
import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from call_support import small
from graphs import BACKENDS, Seen, whole
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tileops_core.errors import NotATensorError, SignatureError
from tileops_core.ops import GEMMFwdOp, ReLUFwdOp, RMSNormFwdOp

TEXT = (Path(__file__).parents[2] / "docs" / "compile.md").read_text(encoding="utf-8")
TABLE = TEXT[: TEXT.index("## Composite ops")]
ROWS = dict(re.findall(r"^\| (.+?) \| (works|refused) \|.*\|$", TABLE, re.MULTILINE))
TESTS: dict[str, tuple[str, Callable[[], None]]] = {}
pytestmark = pytest.mark.filterwarnings("ignore")

OP = RMSNormFwdOp((4,), 1e-3)
WRITES = ReLUFwdOp(inplace=True)
OPERATOR, TWIN = torch.ops.tileops_core.rms_norm_fwd, torch.ops.tileops_core.rms_norm_fwd_raw


def works(row):
    """A function that calls ops there, and finds that all is right."""
    return lambda test: TESTS.setdefault(row, ("works", test))[1]


def refused(row):
    """A function that calls ops there, and expects to be refused."""
    return lambda test: TESTS.setdefault(row, ("refused", test))[1]


def due(x=None):
    return OP(small() if x is None else x)


def right(y, x=None):
    assert type(y) is torch.Tensor
    assert torch.equal(y, due(x))


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.op = RMSNormFwdOp((4,), 1e-3)

    def forward(self, x):
        return self.op(x)


class Watching(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


# -- graphs -----------------------------------------------------------------------------------


@works("`torch.compile`, any backend, `fullgraph=True`, `dynamic=True`")
def _():
    seen = Seen()
    right(whole(OP, seen)(small()))
    assert seen.nodes == [OPERATOR.default]
    for backend in BACKENDS:
        torch._dynamo.reset()
        right(whole(OP, backend, dynamic=True)(small(5, 4)), small(5, 4))


@refused("`torch.compile`, an op constructed inside")
def _():
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"construct it once, outside|dynamo\.disable"
    ):
        whole(lambda x: RMSNormFwdOp((4,), 1e-3)(x))(small())
    right(torch.compile(lambda x: RMSNormFwdOp((4,), 1e-3)(x), backend="eager")(small()))


@refused("`torch.compile`, a call that the entry refuses")
def _():
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="RMSNormFwdOp: x has shape"):
        whole(OP)(torch.ones(3, 5))


@works("`torch.export`, strict or not")
def _():
    for strict in (False, True):
        file = io.BytesIO()
        torch.export.save(torch.export.export(Holder(), (small(),), strict=strict), file)
        file.seek(0)
        right(torch.export.load(file).module()(small()))


@works("`run_decompositions()`")
def _():
    program = torch.export.export(Holder(), (small(),)).run_decompositions()
    assert TWIN.default in [n.target for n in program.graph.nodes]
    module = program.module()
    right(module(small()))
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="run_decompositions"):
        whole(module)(small().requires_grad_())


@works("`make_fx`, real, fake, symbolic, pre-dispatch")
def _():
    for how in ({}, {"tracing_mode": "fake"}, {"tracing_mode": "symbolic"}, {"pre_dispatch": True}):
        graph = make_fx(lambda x: OP(x), **how)(small())
        (node,) = (n for n in graph.graph.nodes if n.op == "call_function")
        assert node.target in (OPERATOR.default, TWIN.default)
        right(graph(small()))


@works("`torch.fx.symbolic_trace`")
def _():
    traced = torch.fx.symbolic_trace(Holder())
    assert OPERATOR.default in [n.target for n in traced.graph.nodes]
    right(traced(small()))


@works("`torch.jit.trace`")
def _():
    traced = torch.jit.trace(Holder(), (small(),))
    assert str(traced.graph).count("tileops_core::rms_norm_fwd(") == 1
    right(traced(small()))


@refused("`torch.jit.script`")
def _():
    with pytest.raises(RuntimeError, match="has no attribute 'op'"):
        torch.jit.script(Holder())


# -- transforms -------------------------------------------------------------------------------


@works("`torch.func.vmap`")
def _():
    x = small(2, 3, 4)
    right(torch.func.vmap(OP)(x), x)
    assert torch.equal(torch.func.vmap(WRITES)(x - 9), torch.relu(x - 9))


@refused("`torch.func.vmap` over no example")
def _():
    with pytest.raises(SignatureError, match="no example"):
        torch.func.vmap(OP)(small(2, 3, 4)[:0])


@refused("`torch.func.grad`, `vjp`, `jacrev`, `hessian`")
def _():
    for transform in (
        lambda x: torch.func.grad(lambda a: OP(a).sum())(x),
        lambda x: torch.func.vjp(OP, x),
        lambda x: torch.func.jacrev(OP)(x),
        lambda x: torch.func.hessian(lambda a: OP(a).sum())(x),
    ):
        with pytest.raises(SignatureError, match="because it has none"):
            transform(small())


@refused("`torch.func.jvp`, `jacfwd`, `linearize`, `forward_ad`")
def _():
    for transform in (
        lambda x: torch.func.jvp(OP, (x,), (x,)),
        lambda x: torch.func.jacfwd(OP)(x),
        lambda x: torch.func.linearize(OP, x),
    ):
        with pytest.raises(SignatureError, match="tangents"):
            transform(small())
    with forward_ad.dual_level(), pytest.raises(SignatureError, match="tangents"):
        OP(forward_ad.make_dual(small(), small()))


@works("`torch.func.functionalize`")
def _():
    right(torch.func.functionalize(OP)(small()))


@refused("`torch.func.functionalize` of a call that writes")
def _():
    with pytest.raises(SignatureError, match="functionalize"):
        torch.func.functionalize(lambda x: WRITES(x * 1))(small())


# -- modes ------------------------------------------------------------------------------------


@works("`torch.autocast`")
def _():
    op, a, b = GEMMFwdOp(), torch.randn(3, 4), torch.randn(5, 4)
    compiled, plain = whole(op), op(a, b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for call in (op, compiled):
            assert torch.equal(call(a, b), plain)


@works("`torch.no_grad`, `torch.inference_mode`")
def _():
    for call in (OP, whole(OP)):
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                assert torch.equal(call(small()), due())
    with torch.inference_mode():
        x = small()
        WRITES(x)
    with pytest.raises(SignatureError, match="inference mode"):
        WRITES(x)


@works("`torch.set_default_device`, `torch.set_default_dtype`")
def _():
    x, plain = small(), due()
    for call in (OP, whole(OP)):
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        try:
            y = call(x)
        finally:
            torch.set_default_device(None)
            torch.set_default_dtype(torch.float32)
        assert torch.equal(y, plain)


@works("`torch.use_deterministic_algorithms`")
def _():
    torch.use_deterministic_algorithms(True)
    try:
        for call in (OP, whole(OP)):
            right(call(small()))
    finally:
        torch.use_deterministic_algorithms(False)


@works("`torch.profiler`")
def _():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        right(OP(small()))
    assert "tileops_core::rms_norm_fwd" in {event.key for event in profile.key_averages()}


@works("a `TorchDispatchMode`, `FlopCounterMode`")
def _():
    plain = due()
    with Watching() as mode:
        y = OP(small())
    assert mode.seen.count(TWIN.default) == 1
    with FlopCounterMode(display=False):
        assert torch.equal(OP(small()), y)
    assert torch.equal(y, plain)


@works("a `TorchFunctionMode`")
def _():
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        y = OP(small())
    right(y)
    assert OP not in seen


@works("`FakeTensorMode`, fake and meta tensors")
def _():
    op = RMSNormFwdOp((4,), 0.75)
    with FakeTensorMode():
        y = op(torch.ones(3, 4))
    assert type(y) is FakeTensor
    assert op(torch.ones(3, 4, device="meta")).shape == (3, 4)
    assert op.serving_target is None
    assert op.last_call.device.type == "meta"


# -- tensors ----------------------------------------------------------------------------------


@works("a subclass with `__torch_function__`")
def _():
    seen = []

    class Logging(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    y = OP(small().as_subclass(Logging))
    assert OP in seen
    assert type(y) is Logging


@works("a wrapper subclass with `__torch_dispatch__`")
def _():
    from torch.testing._internal.two_tensor import TwoTensor

    for call in (OP, whole(OP, "aot_eager")):
        y = call(TwoTensor(small(), small() * 2))
        right(y.a)
        right(y.b, small() * 2)


@works("`torch.nn.Parameter`, `torch.nn.Buffer`")
def _():
    w = torch.randn(4)
    plain = OP(small(), w)
    for cls in (torch.nn.Parameter, torch.nn.Buffer):
        for call in (OP, whole(OP)):
            assert torch.equal(call(small(), cls(w)).detach(), plain)


@works("negative and conjugate bits")
def _():
    x = torch.complex(torch.zeros(3, 4), -small()).conj().imag
    assert x.is_neg()
    for call in (OP, whole(OP, "aot_eager")):
        right(call(x))


@refused("sparse, nested, quantized, mkldnn tensors")
def _():
    for x in (
        small().to_sparse(),
        torch.nested.nested_tensor([small()]),
        torch.quantize_per_tensor(small(), 1.0, 0, torch.quint8),
        small().to_mkldnn(),
    ):
        with pytest.raises(SignatureError, match="takes dense"):
            OP(x)


@refused("what is no tensor")
def _():
    with pytest.raises(NotATensorError, match=r"x must be a torch\.Tensor, got 3\.0"):
        OP(3.0)


@works("`torch.utils.checkpoint`")
def _():
    for call in (OP, whole(OP)):
        y = checkpoint(call, small().requires_grad_(), use_reentrant=False)
        right(y.detach())
        with pytest.raises(NotImplementedError, match="RMSNormFwdOp has no gradient"):
            y.sum().backward()


@works("`copy`, `pickle`, `torch.save` of an op or of a module that holds one")
def _():
    module, file = Holder(), io.BytesIO()
    whole(module)(small())
    torch.save(module, file)
    file.seek(0)
    for other in (
        copy.copy(module),
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(file, weights_only=False),
        pickle.loads(pickle.dumps(OP)),
    ):
        right(other(small()))


@works("`pickle` of `op.last_call`")
def _():
    due()
    assert repr(pickle.loads(pickle.dumps(OP.last_call))) == repr(OP.last_call)


# -- the table --------------------------------------------------------------------------------


def test_the_table_has_these_rows():
    assert {row: said for row, (said, _) in TESTS.items()} == ROWS


@pytest.mark.parametrize("row", TESTS)
def test_a_row_is_true(row):
    TESTS[row][1]()
