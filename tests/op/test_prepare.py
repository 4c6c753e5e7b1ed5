"""Building ahead: after it a call finds everything, and nothing has run."""

from __future__ import annotations

import gc
import io
import sys
import weakref

import composites
import faulty
import pytest
import torch
from call_support import Switch, op_class, served, small, target

from tileops_core import BUILTIN, TensorSpec
from tileops_core.call import pipeline
from tileops_core.call.binding import UNBOUND
from tileops_core.call.checking import WATCHING
from tileops_core.call.dry import StandIn
from tileops_core.call.frames import FRAMES
from tileops_core.errors import (
    BackendError,
    NotATensorError,
    OpNotAvailableError,
    SignatureError,
    TileOpsError,
)
from tileops_core.ops import (
    GELUFwdOp,
    GEMMFwdOp,
    LayerNormFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SoftmaxFwdOp,
)


def spec(*shape, dtype=torch.float32):
    return TensorSpec("cpu", dtype, shape or (3, 4))


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    assert (FRAMES, WATCHING) == ({}, [])


@pytest.fixture
def misses(monkeypatch):
    """The ops whose calls found no route from now on."""
    missed = []
    serve = pipeline._serve

    def counted(op, *arguments):
        missed.append(type(op).__name__)
        return serve(op, *arguments)

    monkeypatch.setattr(pipeline, "_serve", counted)
    return missed


# -- what is built ----------------------------------------------------------------------------


def test_a_prepared_call_builds_nothing_and_takes_a_known_route(misses):
    switch = Switch(faulty._doubled)
    with served(build=switch.build) as op:
        op.prepare(spec())
        assert switch.builds == 1
        assert op(small()).equal(small() * 2)
    assert (switch.builds, misses) == (1, [])
    assert op.serving_target == "acme"


def test_the_first_result_of_what_was_prepared_is_checked_in_full():
    """A known route asks where a result begins only, and a prepared one has shown nothing yet."""
    memory, does = torch.ones(8, 4), Switch(lambda x: memory[2:5])
    with served(build=does.build) as op:
        op.prepare(spec())
        for _ in range(2):
            with pytest.raises(BackendError, match="returned y in the memory of its input x"):
                op(memory[:3])
        does.does = faulty.KERNELS["ProbeFwdOp"]()
        assert torch.equal(op(small()), small() * 2)


def test_what_was_prepared_dies_with_the_op():
    switch = Switch(faulty.KERNELS["ProbeFwdOp"]())
    with served(build=switch.build) as op:
        op.prepare(spec())
        (kernel,) = map(weakref.ref, op._binding.target_kernels.values())
        gc.disable()
        try:
            op._binding = UNBOUND
            assert kernel() is None
        finally:
            gc.enable()


def test_nothing_runs():
    def fail(x):
        raise AssertionError("it ran")

    with served(build=Switch(fail).build) as op:
        assert op.prepare(spec()) is None
        with pytest.raises(RuntimeError, match="no call"):
            op.last_call  # noqa: B018


REAL = {
    "ReLU": (lambda: ReLUFwdOp(), [(3, 4)]),
    "ReLU in place": (lambda: ReLUFwdOp(inplace=True), [(3, 4)]),
    "GELU": (lambda: GELUFwdOp(), [(3, 4)]),
    "Softmax": (lambda: SoftmaxFwdOp(dim=-1), [(3, 4)]),
    "RMSNorm": (lambda: RMSNormFwdOp((4,)), [(3, 4), (4,)]),
    "RMSNorm without weight": (lambda: RMSNormFwdOp((4,)), [(3, 4), None]),
    "LayerNorm with bias alone": (lambda: LayerNormFwdOp((4,)), [(3, 4), None, (4,)]),
    "GEMM": (lambda: GEMMFwdOp(), [(3, 4), (5, 4)]),
}


@pytest.mark.parametrize("name", REAL)
def test_a_prepared_op_of_the_library_takes_a_known_route(name, misses):
    make, shapes = REAL[name]
    op = make()
    dtype = torch.float16 if name == "GEMM" else torch.float32
    op.prepare(*(None if s is None else spec(*s, dtype=dtype) for s in shapes))
    given = [None if s is None else torch.randn(s).to(dtype) for s in shapes]
    due = make()(*(None if x is None else x.clone() for x in given))
    misses.clear()
    torch.testing.assert_close(op(*given), due, rtol=0, atol=0)
    assert misses == []


@pytest.mark.parametrize("name", [n for n in faulty.SPECS if n not in ("ContiguousInPlaceFwdOp",)])
def test_ops_with_every_kind_of_effect_are_prepared(name, misses):
    plan = op_class(name)._plan
    dtypes = {"keep": torch.bool, "lengths": torch.int64}
    shapes = {"lengths": (3,)}
    made = {
        t.name: torch.ones(shapes.get(t.name, (3, 4)), dtype=dtypes.get(t.name, torch.float32))
        for t in plan.signature.inputs
    }
    with served(name) as op:
        op.prepare(*map(TensorSpec.of, made.values()))
        named = {t.name: made.pop(t.name) for t in plan.signature.inputs if t.kw_only}
        op(*made.values(), **named)
    assert misses == []


def test_several_calls_are_prepared_at_once(misses):
    switch = Switch(lambda x, z=None: x + 0)
    with served("ProbePairFwdOp", build=switch.build) as op:
        op.prepare([(spec(),), (spec(2, 2), None), (spec(2, 2), spec(2, 2))])
        assert switch.builds == 3
        for x, z in ((small(), None), (small(2, 2), None), (small(2, 2), small(2, 2))):
            op(x, z)
    assert misses == []


def test_what_was_prepared_or_called_before_is_not_built_again():
    switch = Switch(faulty._doubled)
    with served(build=switch.build) as op:
        op(small())
        for _ in range(2):
            op.prepare([(spec(),), [spec(2, 2)]])
    assert switch.builds == 2


def test_an_op_without_inputs_is_prepared_without_specs():
    entry = dict(faulty.SPECS["ProbeFwdOp"])
    signature = {
        "forall": {},
        "params": {"n": {"type": "int"}},
        "inputs": {},
        "outputs": {"y": {"dtype": "float32", "shape": "[n]"}},
    }
    rows = [{"label": "small", "n": 3, "dtype_cases": [{}]}]
    entry |= {"signature": signature, "workloads": rows, "roofline": {"flops": "n"}}
    switch = Switch(lambda: torch.zeros(3))
    with target(switch.build, op="ZerosFwdOp"):
        op = op_class("ZerosFwdOp", spec=entry)(3, target="acme")
        op.prepare()
        assert switch.builds == 1
        op()
    assert switch.builds == 1


@pytest.mark.parametrize("empty", [True, False])
def test_a_call_that_nobody_has_to_run_needs_nobody(empty):
    op = ReLUFwdOp()
    op.prepare(spec(0, 4) if empty else TensorSpec("meta", torch.float32, (3, 4)))
    assert op._binding is UNBOUND


def test_a_device_without_an_index_is_the_current_one():
    """As that of a tensor is, which the call's key has."""
    stand_in = StandIn.of_spec(TensorSpec("cuda", torch.float32, (3, 4)))
    assert stand_in.device == torch.device("cuda:0")


def in_tree(does=faulty._doubled):
    interfaces, kernel_type = faulty.in_tree(does)
    request = interfaces["probe"].request
    return {
        "interfaces": interfaces,
        "kernel_types": {"only": kernel_type},
        "call_spec": lambda self, x: request(x.device, x.dtype, x.shape),
    }


# -- bodies -----------------------------------------------------------------------------------


def asking(does=faulty._doubled):
    """An op whose body asks for a kernel."""
    body = in_tree(does)
    request = body["interfaces"]["probe"].request
    del body["call_spec"]

    def forward(self, x):
        entry = self.kernel_for("probe", request(x.device, x.dtype, tuple(x.shape)))
        return entry(x) + 0

    return op_class("ProbeFwdOp", **body, forward=forward)()


def test_a_body_is_prepared_as_far_as_its_first_kernel():
    op = asking()
    op.prepare(spec())
    (entry,) = op.built_entries("probe").values()
    assert op(small()).equal(small() * 2)
    assert list(op.built_entries("probe").values()) == [entry]
    assert str(op.last_call.served_by) == "BUILTIN (own:only)"


def test_a_composite_is_prepared_with_all_its_sub_ops(misses):
    classes = composites.ops()
    op = classes.nest(target=BUILTIN)
    op.prepare(spec())
    assert classes.does.builds == 3
    assert op(small()).equal(small() * 8)
    assert misses == []
    assert classes.does.builds == 3
    subs = [*op.held_delegates(), *op.held_delegates()[0].held_delegates()]
    assert all(o.serving_target is BUILTIN for o in (op, *subs))
    assert all(o._binding.settled for o in (op, *subs))


def test_a_composites_body_computes_with_tensors_without_data(misses):
    classes = composites.ops()

    def between(self, x):
        made = torch.arange(x.shape[0], device=x.device)[:, None]
        return (x.half().float() + made) * self.derived("two", x.device, lambda: torch.tensor(2.0))

    classes.does.between = between
    op = classes.twice()
    op.prepare(spec())
    due = (small() * 2 + torch.arange(3)[:, None]) * 4
    assert op(small()).equal(due)
    assert misses == []


def test_a_sub_op_finds_the_tensors_that_the_body_will_pass(misses):
    classes = composites.ops()
    classes.does.between = lambda self, x: x.t()
    op = classes.twice()
    op.prepare(spec(4, 4))
    assert op(small(4, 4)).equal(small(4, 4).t() * 4)
    assert misses == []


def test_a_composite_that_needs_data_says_so_and_selects_nothing():
    classes = composites.ops()
    classes.does.between = lambda self, x: x[: int(x.sum().item())]
    op = classes.nest()
    with pytest.raises(TileOpsError, match="TwiceFwdOp: its body asks for the values"):
        op.prepare(spec())
    inner, *_ = op.held_delegates()
    assert all(o.serving_target is None for o in (op, inner, *inner.held_delegates()))


def test_a_composite_with_a_kernel_of_its_own_is_prepared_as_far_as_that():
    interfaces, kernel_type = faulty.in_tree()
    request = interfaces["probe"].request

    def forward(self, x):
        y = self.delegate_for("first", ())(x)
        entry = self.kernel_for("probe", request(y.device, y.dtype, tuple(y.shape)))
        return self.delegate_for("second", ())(entry(y))

    own = {"interfaces": interfaces, "kernel_types": {"own": kernel_type}}
    classes = composites.ops(forward=forward, **own)
    op = classes.twice(target=BUILTIN)
    op.prepare(spec())
    assert [o.serving_target for o in op.held_delegates()] == [BUILTIN, None]
    assert len(op.built_entries("probe")) == 1
    assert op(small()).equal(small() * 8)


def test_what_a_builder_calls_while_it_prepares_runs():
    ran = []
    other = ReLUFwdOp()

    def builder(x):
        ran.append(other(small()).equal(small()))
        return faulty._doubled

    classes = composites.ops()
    with target(builder):
        classes.nest(target="acme").prepare(spec())
    assert ran == [True, True, True]


# -- errors -----------------------------------------------------------------------------------


def test_a_call_that_would_be_refused_is_refused():
    op = RMSNormFwdOp((4,))
    with pytest.raises(SignatureError, match=r"weight has shape \(5,\)"):
        op.prepare(spec(3, 4), spec(5))
    with pytest.raises(SignatureError, match="2 specs were given, the op's inputs are input"):
        ReLUFwdOp().prepare(spec(), spec())
    assert op._binding is UNBOUND


@pytest.mark.parametrize("given", [None, torch.ones(3, 4), (3, 4, 5), "float32"])
def test_what_is_no_spec_is_told_how_to_be_one(given):
    with pytest.raises(NotATensorError, match=r"input must be a TensorSpec, got .*TensorSpec.of"):
        ReLUFwdOp().prepare([(given,)])


def test_what_nobody_serves_is_told():
    with target(op="RMSNormFwdOp"), pytest.raises(OpNotAvailableError):
        ReLUFwdOp(target="acme").prepare(spec())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_cannot_be_built_leaves_nothing(error):
    def fail(*specs):
        raise error

    with served(build=fail) as op:
        with pytest.raises(error):
            op.prepare(spec())
        assert op._binding is UNBOUND
        assert op._running.entered == {}


def test_of_several_calls_the_one_that_fails_is_told_and_those_before_stay():
    with served() as op:
        with pytest.raises(SignatureError) as caught:
            op.prepare([(spec(),), (spec(3),)])
        assert len(op._binding) == 1
    assert "while preparing (TensorSpec('cpu', torch.float32, (3,)),)" in caught.value.__notes__[0]


# -- in tuned mode ----------------------------------------------------------------------------


def test_a_kernel_that_is_to_be_tuned_is_built_and_tuned_by_the_call(monkeypatch, tmp_path):
    from tileops_core.kernels import tuning

    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "measure", lambda run, device: run.args[0].__self__.config["n"])

    def with_config(self, config):
        made = type(self)()
        made.config = config
        return made

    body = in_tree()
    kernel_type = body["kernel_types"]["only"]
    kernel_type.autotune_configs = ({"n": 2}, {"n": 1})
    kernel_type.config, kernel_type.with_config = {"n": 2}, with_config
    kernel_type.forward = lambda self, x: x * 2
    op = op_class("ProbeFwdOp", **body)()
    op.request_tune()
    op.prepare(spec())
    assert op.kernel_config() == {"n": 2}
    op(small())
    assert op.kernel_config() == {"n": 1}


# -- progress ---------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_shown_where_a_terminal_watches(monkeypatch):
    calls = [(spec(n + 1, 2),) for n in range(3)]
    for out, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", out)
        ReLUFwdOp().prepare(calls)
        assert ("preparing ReLUFwdOp" in out.getvalue()) is shown


def test_one_call_needs_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    ReLUFwdOp().prepare(spec())
    assert out.getvalue() == ""
