"""The table of composite ops in `docs/compile.md`: a test for each row."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import composites
import pytest
import torch
from call_support import small, target
from graphs import BACKENDS, Seen, fresh, graphs, shared_graphs, whole  # noqa: F401
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from tileops_core import BUILTIN, Op, default_target
from tileops_core.errors import TileOpsError
from tileops_core.ops import FusedMoEFwdOp, GELUFwdOp, ReLUFwdOp

TEXT = (Path(__file__).parents[2] / "docs" / "compile.md").read_text(encoding="utf-8")
TABLE = TEXT[TEXT.index("## Composite ops") :]
ROWS = dict(re.findall(r"^\| (.+?) \| (works|refused) \|.*\|$", TABLE, re.MULTILINE))
TESTS: dict[str, tuple[str, Callable[[], None]]] = {}
pytestmark = pytest.mark.filterwarnings("ignore")
RELU = torch.ops.tileops_core.elementwise_relu_fwd


def works(row):
    """A function that calls composites there, and finds that all is right."""
    return lambda test: TESTS.setdefault(row, ("works", test))[1]


def refused(row):
    """A function that calls composites there, and expects to be refused."""
    return lambda test: TESTS.setdefault(row, ("refused", test))[1]


class ReluTwiceFwdOp(Op):
    """Reads no size, and holds its sub-op when it is called."""

    spec: ClassVar[Any] = composites.composite_spec(relu="ReLUFwdOp")
    delegate_types: ClassVar[Any] = {"relu": ReLUFwdOp}

    def forward(self, x):
        return self.delegate_for("relu", ())(x) * 2


class ReluThenGeluFwdOp(Op):
    """Of two ops, so that errors tell which they name."""

    spec: ClassVar[Any] = composites.composite_spec(relu="ReLUFwdOp", gelu="GELUFwdOp")
    delegate_types: ClassVar[Any] = {"relu": ReLUFwdOp, "gelu": GELUFwdOp}

    def forward(self, x):
        return self.delegate_for("gelu", ())(self.delegate_for("relu", ())(x))


class Holder(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, *inputs):
        return self.op(*inputs)


class OfOne(Holder):
    def forward(self, x):
        return self.op(x)


class OfFour(Holder):
    def forward(self, a, b, c, d):
        return self.op(a, b, c, d)


def layer():
    """The tensors of a mixture of experts."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(5, 16), (5, 4), (4, 16, 16), (4, 16, 8)]
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def right(y, x=None):
    assert torch.equal(y, ReluTwiceFwdOp()(small() if x is None else x))


# -- compiled ---------------------------------------------------------------------------------


@works("`torch.compile` with `fullgraph=True`, the first call")
def _():
    seen = Seen()
    right(whole(ReluTwiceFwdOp(), seen)(small()))
    assert seen.nodes[0] is RELU.default
    for backend in BACKENDS:
        torch._dynamo.reset()
        op = FusedMoEFwdOp(2)
        y = whole(lambda *x, op=op: op(*x), backend)(*layer())
        assert torch.equal(y, FusedMoEFwdOp(2)(*layer()))


@refused("`torch.compile`, a call of a composite that its entry refuses")
def _():
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="ReluTwiceFwdOp: x has 1 axis"):
        whole(ReluTwiceFwdOp())(torch.ones(5))


class Twice:
    activation = "silu_and_mul"
    routed_scaling_factor = 1.0

    def __call__(self, hidden, *rest):
        return hidden * 2


@works("`torch.compile`, an object given at construction that is no op")
def _():
    op = FusedMoEFwdOp(2, experts=Twice())
    given = layer()
    assert torch.equal(whole(lambda *x: op(*x))(*given), given[0] * 2)


@works("compiled code, with inputs that require grad")
def _():
    y = whole(ReluThenGeluFwdOp())(small().requires_grad_())
    with pytest.raises(RuntimeError, match="GELUFwdOp has no gradient"):
        y.sum().backward()


# -- recorded ---------------------------------------------------------------------------------


@works("`torch.export`, strict or not, of a composite")
def _():
    for strict in (False, True):
        file = io.BytesIO()
        program = torch.export.export(OfFour(FusedMoEFwdOp(2)), layer(), strict=strict)
        torch.export.save(program, file)
        file.seek(0)
        y = torch.export.load(file).module()(*layer())
        assert torch.equal(y, FusedMoEFwdOp(2)(*layer()))


@works("`make_fx`, `vmap`, `functionalize` of a composite")
def _():
    for mode in ("real", "fake", "symbolic"):
        traced = make_fx(ReluTwiceFwdOp(), tracing_mode=mode)(small())
        right(traced(small()))
        assert any(RELU.default._name in str(n.target) for n in traced.graph.nodes) or any(
            "elementwise_relu_fwd" in str(n.target) for n in traced.graph.nodes
        )
    y = torch.func.vmap(ReluTwiceFwdOp())(torch.stack([small(), -small()]))
    right(y[0])
    right(y[1], -small())
    right(torch.func.functionalize(ReluTwiceFwdOp())(small()))


@works("`torch.jit.trace`, `torch.fx.symbolic_trace`, a body that reads no sizes")
def _():
    right(torch.jit.trace(OfOne(ReluTwiceFwdOp()), (small(),))(small()))
    traced = torch.fx.symbolic_trace(OfOne(ReluTwiceFwdOp()))
    assert RELU.default in [node.target for node in traced.graph.nodes]
    right(traced(small()))


@refused("`torch.jit.trace`, `torch.fx.symbolic_trace`, a body that reads sizes")
def _():
    op = FusedMoEFwdOp(2)
    with pytest.raises(TileOpsError, match=r"^FusedMoEFwdOp: torch\.jit\.trace runs the body"):
        torch.jit.trace(OfFour(op), layer())
    with pytest.raises(TileOpsError, match=r"^FusedMoEFwdOp: torch\.fx\.symbolic_trace runs"):
        torch.fx.symbolic_trace(OfFour(op))


@refused("any of the above but `torch.compile`, of a composite that a target serves whole")
def _():
    def build(x):
        return lambda x: torch.relu(x) * 2

    with target(build, op="ReluTwiceFwdOp"):
        op = ReluTwiceFwdOp(target="acme")
        right(op(small()))
        for record in (
            lambda: torch.export.export(OfOne(op), (small(),), strict=False),
            lambda: make_fx(op)(small()),
            lambda: torch.func.vmap(op)(small(2, 3, 4)),
            lambda: torch.jit.trace(OfOne(op), (small(),)),
            lambda: torch.fx.symbolic_trace(OfOne(op)),
        ):
            with pytest.raises(TileOpsError, match="ReluTwiceFwdOp: target 'acme' serves it whole"):
                record()


# -- watched ----------------------------------------------------------------------------------


@works("a dispatch mode, a profiler, a wrapper subclass")
def _():
    from torch.testing._internal.two_tensor import TwoTensor

    names = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watching():
        right(ReluTwiceFwdOp()(small()))
    assert any("elementwise_relu_fwd" in name for name in names)
    with torch.profiler.profile() as profile:
        right(ReluTwiceFwdOp()(small()))
    assert any("elementwise_relu_fwd" in event.key for event in profile.key_averages())
    y = ReluTwiceFwdOp()(TwoTensor(small(), -small()))
    right(y.a)
    right(y.b, -small())


# -- the table --------------------------------------------------------------------------------


def test_the_table_has_these_rows():
    assert {row: said for row, (said, _) in TESTS.items()} == ROWS


@pytest.mark.parametrize("row", TESTS)
def test_a_row_is_true(row):
    with default_target(BUILTIN):
        TESTS[row][1]()


@pytest.mark.usefixtures("shared_graphs")
@pytest.mark.parametrize("first", ["eager", "compiled"])
def test_eager_calls_of_a_composite_make_no_new_graphs(first):
    """Dynamo sees what they leave on the instance: who serves it, and which sub-ops it holds."""
    with fresh():
        compiled, batches = whole(lambda op, *x: op(*x), dynamic=True), (3, 5, 7, 9, 11)
        for op in (FusedMoEFwdOp(2, target=BUILTIN), FusedMoEFwdOp(2, target=BUILTIN)):
            for batch in batches:
                hidden, gates, *weights = layer()
                given = hidden.repeat(3, 1)[:batch], gates.repeat(3, 1)[:batch], *weights
                order = (op, compiled) if first == "eager" else (compiled, op)
                one, other = (f(*given) if f is op else f(op, *given) for f in order)
                assert torch.equal(one, other)
        assert graphs() == 1


def test_a_composite_that_is_to_be_tuned_keeps_its_graph():
    with fresh():
        compiled, op = whole(lambda *x: op(*x)), FusedMoEFwdOp(2, target=BUILTIN)
        given = layer()
        compiled(*given)
        op.request_tune()
        assert torch.equal(compiled(*given), op(*given))
        assert graphs() == 1


@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_what_a_composite_holds_later_costs_no_graph(how):
    """More experts take another sub-op; equal layers hold it too, when dynamo is told of it."""
    with fresh():
        op, compiled = FusedMoEFwdOp(2, target=BUILTIN), whole(lambda *x: op(*x))
        few = hidden, gates, *weights = layer()
        more = hidden, gates.repeat(1, 2), *(w.repeat(2, 1, 1) for w in weights)
        compiled(*few)
        before = graphs()
        (op if how == "eager" else whole(lambda *x: op(*x)))(*more)
        made = graphs()
        assert torch.equal(compiled(*few), op(*few))
        assert (before, graphs()) == (1, made)


def test_an_exported_program_holds_one_choice_of_a_body():
    op = FusedMoEFwdOp(2, target=BUILTIN)

    class Layer(torch.nn.Module):
        def forward(self, hidden, gates, gate_up, down):
            return op(hidden, gates, gate_up, down)

    def given(tokens):
        shapes = [(tokens, 128), (tokens, 4), (4, 512, 128), (4, 128, 256)]
        return tuple(torch.randn(shape) for shape in shapes)

    def program(least):
        tokens = {0: torch.export.Dim("tokens", min=least, max=64)}
        return torch.export.export(Layer(), given(8), dynamic_shapes=(tokens, tokens, None, None))

    with pytest.raises(torch._dynamo.exc.UserError, match="min=5"):
        program(2)
    few = given(5)
    assert torch.equal(program(5).module()(*few), op(*few))
