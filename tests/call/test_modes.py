"""Modes, transforms and tensor classes: a right result, or a sentence."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from call_support import Switch, faulty, good, op_class, served, small, target
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tileops_core.errors import NotATensorError, SignatureError
from tileops_core.ops import (
    AddFwdOp,
    GELUFwdOp,
    GEMMFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SoftmaxFwdOp,
)


@pytest.fixture
def probe():
    with served() as op:
        yield op


@pytest.fixture(params=[False, True], ids=["first", "known"])
def warmed(request, probe):
    if request.param:
        probe(small())
    return probe


# -- autocast, grad modes, defaults -----------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_does_not_change_what_the_signature_says(dtype):
    op = GEMMFwdOp()
    a, b = torch.randn(3, 4), torch.randn(5, 4)
    due = op(a, b)
    for instance in (op, GEMMFwdOp()):
        with torch.autocast("cpu", dtype=dtype):
            d = instance(a, b)
            assert torch.is_autocast_enabled("cpu")
        assert d.dtype is torch.float32
        assert torch.equal(d, due)


def test_a_kernel_runs_with_autocast_off():
    seen = []
    switch = Switch(lambda x: seen.append(torch.is_autocast_enabled("cpu")) or good(x))
    with served(build=switch.build) as op, torch.autocast("cpu", dtype=torch.bfloat16):
        op(small())
        op(small())
    assert seen == [False, False]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda m: m.__name__)
def test_a_route_serves_inside_and_outside_of_a_mode(mode):
    switch = Switch(good)
    with served(build=switch.build) as op:
        with mode():
            assert torch.equal(op(small()), small() * 2)
        assert torch.equal(op(small()), small() * 2)
        with mode():
            assert torch.equal(op(small()), small() * 2)
    assert switch.builds == 1


def test_a_result_of_inference_mode_is_an_inference_tensor(warmed):
    with torch.inference_mode():
        y = warmed(small())
    assert y.is_inference()
    assert torch.equal(warmed(y.clone()), small() * 4)


def test_what_is_built_in_inference_mode_is_no_inference_tensor():
    """An entry outlives the mode."""
    constants = []

    def build(x):
        constants.append(torch.full((1,), 2.0))
        return lambda x: x * constants[0]

    with served(build=build) as op:
        with torch.inference_mode():
            op(small())
        assert not constants[0].is_inference()
        assert torch.equal(op(small()), small() * 2)


@pytest.mark.parametrize("cls", [torch.nn.Parameter, torch.nn.Buffer], ids=lambda c: c.__name__)
def test_a_modules_tensors_work(cls):
    op = RMSNormFwdOp((4,))
    weight = cls(torch.full((4,), 2.0))
    due = RMSNormFwdOp((4,))(small(), torch.full((4,), 2.0))
    for _ in range(2):
        with torch.no_grad():
            assert torch.equal(op(small(), weight), due)
        assert torch.equal(op(small(), weight).detach(), due)


def test_a_default_device_does_not_move_a_call(warmed):
    x = small()
    torch.set_default_device("meta")
    try:
        y = warmed(x)
        empty = warmed(x[:0])
    finally:
        torch.set_default_device(None)
    assert torch.equal(y, x * 2)
    assert empty.device.type == "cpu"


def test_a_default_dtype_does_not_change_a_result(warmed):
    torch.set_default_dtype(torch.float64)
    try:
        y = warmed(small())
    finally:
        torch.set_default_dtype(torch.float32)
    assert y.dtype is torch.float32


def test_a_function_mode_sees_no_call_but_the_result_is_right(warmed):
    class Watching(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Watching():
        assert torch.equal(warmed(small()), small() * 2)
        assert warmed(small().requires_grad_()).requires_grad


def test_a_profiler_shows_the_op_by_name(warmed):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert torch.equal(warmed(small()), small() * 2)
    assert "tileops_external::probe_fwd" in {event.key for event in profile.key_averages()}


def test_deterministic_algorithms_poison_nothing(warmed):
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(warmed(small()), small() * 2)
    finally:
        torch.use_deterministic_algorithms(False)


# -- dispatch modes ---------------------------------------------------------------------------


class Counting(TorchDispatchMode):
    """A user's mode that only watches."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_a_users_dispatch_mode_gets_a_right_result(warmed):
    with Counting() as mode:
        y = warmed(small())
    assert torch.equal(y, small() * 2)
    assert mode.seen


def test_a_users_dispatch_mode_gets_a_right_gradient_error(warmed):
    with Counting():
        y = warmed(small().requires_grad_())
    with pytest.raises(NotImplementedError, match="ProbeFwdOp has no gradient"):
        y.sum().backward()


def test_a_users_dispatch_mode_works_inside_forward_mode_differentiation(warmed):
    """Below autograd, where the mode runs, torch cannot say whether a tensor has a tangent."""
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(small(), torch.ones(3, 4))
        with Counting():
            assert torch.equal(warmed(small()), small() * 2)
            with pytest.raises(SignatureError, match="forward-mode tangents"):
                warmed(dual)


def test_a_written_input_under_a_dispatch_mode_is_written():
    with served("AccumulateFwdOp") as op, Counting():
        state = torch.zeros(4, 3).t()
        op(state, small())
        op(state, small())
        assert torch.equal(state, small() * 2)


# -- fake and meta tensors --------------------------------------------------------------------


def no_trace(op):
    """A call without data keeps no route, builds nothing and selects nobody."""
    return (len(op._binding), op.serving_target, op._running.entered) == (0, None, {})


@pytest.mark.parametrize("wrapped", [False, True])
def test_fake_tensors_get_a_fake_result_and_build_nothing(wrapped):
    """CMP-16"""
    switch = Switch(good)
    with served(build=switch.build) as op:
        mode = FakeTensorMode()
        x = mode.from_tensor(small(4, 3).t())
        if wrapped:
            with mode:
                y = op(x)
        else:
            y = op(x)
        assert type(y) is FakeTensor
        assert (y.shape, y.dtype, y.stride()) == ((3, 4), torch.float32, (4, 1))
        assert switch.builds == 0
        assert no_trace(op)
        assert torch.equal(op(small()), small() * 2)


def test_a_fake_call_between_real_ones_changes_nothing(warmed):
    """CMP-16"""
    warmed(small())
    routes = len(warmed._binding)
    mode = FakeTensorMode()
    with mode:
        y = warmed(torch.ones(3, 4))
    assert type(y) is FakeTensor
    assert len(warmed._binding) == routes
    assert torch.equal(warmed(small()), small() * 2)


def test_no_fake_tensor_stays_with_an_op():
    """CMP-16"""
    op = RMSNormFwdOp((4,))
    gc.collect()
    before = sum(type(o) is FakeTensor for o in gc.get_objects())
    with FakeTensorMode():
        op(torch.ones(2, 4), torch.ones(4))
    gc.collect()
    assert sum(type(o) is FakeTensor for o in gc.get_objects()) <= before
    assert torch.equal(op(torch.ones(2, 4)), RMSNormFwdOp((4,))(torch.ones(2, 4)))


@pytest.mark.parametrize("allowed", [False, True])
def test_real_tensors_in_a_fake_mode_run_no_kernel(warmed, allowed):
    """CMP-16: nothing real comes of them, and nothing fake stays."""
    x = small()
    with FakeTensorMode(allow_non_fake_inputs=allowed):
        y = warmed(x)
    assert type(y) is FakeTensor
    assert y.shape == (3, 4)
    assert torch.equal(warmed(x), x * 2)


def test_a_written_real_tensor_in_a_fake_mode_stays_as_it_was():
    with served("AccumulateFwdOp") as op:
        state = torch.zeros(3, 4)
        op(state, small())
        with FakeTensorMode(allow_non_fake_inputs=True):
            assert op(state, small()) is None
        assert torch.equal(state, small())


def test_an_in_place_call_on_a_fake_tensor_returns_it():
    op = ReLUFwdOp(inplace=True)
    with FakeTensorMode():
        x = torch.ones(3, 4)
        assert op(x) is x


def test_a_fake_input_beside_a_real_parameter_works():
    op = RMSNormFwdOp((4,))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    y = op(mode.from_tensor(small()), torch.ones(4))
    assert type(y) is FakeTensor


def test_fake_tensors_are_checked_like_any(warmed):
    with FakeTensorMode(), pytest.raises(SignatureError, match=r"x has 1 axis"):
        warmed(torch.ones(3))


def test_what_is_built_while_a_mode_is_active_is_real():
    """CMP-16: a kernel's constants outlive the mode of the call that built it."""
    constants = []

    def build(x):
        constants.append(torch.full((1,), 2.0))
        return lambda x: x * constants[-1]

    with served(build=build) as op:
        with Counting() as mode:
            op(small())
        assert torch.ops.aten.full.default not in mode.seen
        assert type(constants[0]) is torch.Tensor


def test_meta_tensors_get_a_meta_result_and_build_nothing(warmed):
    """CMP-16"""
    routes = len(warmed._binding)
    y = warmed(torch.ones(4, 3, device="meta").t())
    assert (y.device.type, y.shape, y.stride()) == ("meta", (3, 4), (4, 1))
    assert len(warmed._binding) == routes
    assert torch.equal(warmed(small()), small() * 2)


def test_a_meta_call_alone_selects_nobody(probe):
    probe(torch.ones(3, 4, device="meta"))
    assert no_trace(probe)
    assert probe.last_call.served_by.target is None
    assert probe.last_call.device.type == "meta"


def test_a_meta_result_of_an_input_that_requires_grad_requires_grad(probe):
    assert probe(torch.ones(3, 4, device="meta", requires_grad=True)).requires_grad


def test_out_on_meta_is_returned():
    with served("BufferFwdOp") as op:
        x, out = torch.ones(3, 4, device="meta"), torch.ones(3, 4, device="meta")
        assert op(x, out=out) is out


# -- transforms -------------------------------------------------------------------------------


TRANSFORMS = [
    pytest.param(lambda f, x: torch.func.grad(lambda a: f(a).sum())(x), id="grad"),
    pytest.param(lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),)), id="jvp"),
    pytest.param(lambda f, x: torch.func.vjp(f, x), id="vjp"),
    pytest.param(lambda f, x: torch.func.jacrev(f)(x), id="jacrev"),
    pytest.param(lambda f, x: torch.func.jacfwd(f)(x), id="jacfwd"),
    pytest.param(lambda f, x: torch.func.hessian(lambda a: f(a).sum())(x), id="hessian"),
    pytest.param(lambda f, x: torch.func.linearize(f, x), id="linearize"),
    pytest.param(
        lambda f, x: torch.func.vmap(torch.func.grad(lambda a: f(a).sum()))(x[None]), id="vmap grad"
    ),
    pytest.param(
        lambda f, x: torch.func.grad(lambda a: torch.func.vmap(f)(a).sum())(x[None]), id="grad vmap"
    ),
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_that_differentiates_is_refused_with_a_sentence(warmed, transform):
    """Peer fault 2"""
    with pytest.raises(SignatureError, match=r"ProbeFwdOp: cannot be called (inside|with)"):
        transform(warmed, small())
    assert torch.equal(warmed(small()), small() * 2)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_vmap_calls_once_per_example(warmed, axis):
    x = small(2, 3, 4)
    y = torch.func.vmap(warmed, in_dims=axis)(x.movedim(0, axis))
    assert torch.equal(y, x * 2)


def test_vmap_of_vmap_works(warmed):
    x = small(2, 5, 3, 4)
    assert torch.equal(torch.func.vmap(torch.func.vmap(warmed))(x), x * 2)


def test_vmap_takes_what_has_no_batch_as_it_is():
    op = AddFwdOp()
    x, other = small(2, 3, 4), small()
    assert torch.equal(torch.func.vmap(op, in_dims=(0, None))(x, other), x + other)
    assert torch.equal(torch.func.vmap(lambda a: a + op(other, other))(x), x + 2 * other)


def test_vmap_of_several_outputs_works():
    with served("MaximaFwdOp") as op:
        x = torch.randn(2, 3, 4)
        values, where = torch.func.vmap(op)(x)
        assert torch.equal(values, x.amax(2))
        assert torch.equal(where, x.argmax(2))


def test_vmap_of_an_output_left_out_works():
    with served("MaximaFwdOp", indices=False) as op:
        x = torch.randn(2, 3, 4)
        assert torch.equal(torch.func.vmap(lambda a: op(a)[0])(x), x.amax(2))


def test_vmap_writes_each_example():
    op = ReLUFwdOp(inplace=True)
    x = small(2, 3, 4) - 9
    due = x.relu()
    assert torch.equal(torch.func.vmap(op)(x), due)
    assert torch.equal(x, due)


def test_vmap_over_a_state_that_all_examples_share_is_refused():
    with served("AccumulateFwdOp") as op:
        state = torch.zeros(3, 4)
        with pytest.raises(SignatureError, match=r"state is written, so under torch\.vmap"):
            torch.func.vmap(lambda x: (op(state, x), x)[1])(small(2, 3, 4))
        assert (state == 0).all()


def test_vmap_over_no_example_is_refused(warmed):
    with pytest.raises(SignatureError, match="over no example"):
        torch.func.vmap(warmed)(small(2, 3, 4)[:0])


def test_vmap_is_recorded_on_the_instance(probe):
    torch.func.vmap(probe)(small(2, 3, 4))
    assert probe.last_call.tensors["x"][0] == (3, 4)
    assert probe.serving_target == "acme"


def test_functionalize_works(warmed):
    assert torch.equal(torch.func.functionalize(warmed)(small()), small() * 2)


def test_functionalize_of_a_write_is_refused_with_a_sentence():
    op = ReLUFwdOp(inplace=True)
    with pytest.raises(SignatureError, match=r"ReLUFwdOp: a call that writes .*functionalize"):
        torch.func.functionalize(lambda x: op(x * 1))(small())


def test_a_transform_of_something_else_may_call_an_op_on_other_tensors(warmed):
    x = small()

    def f(a):
        return (a * warmed(x)).sum()

    assert torch.equal(torch.func.grad(f)(torch.ones(3, 4)), x * 2)
    assert torch.equal(torch.func.vmap(lambda a: a * warmed(x))(torch.ones(2, 3, 4))[1], x * 2)


def test_forward_mode_by_two_backwards_meets_the_error_of_backward(warmed):
    with pytest.raises(NotImplementedError, match="ProbeFwdOp has no gradient"):
        torch.autograd.functional.jvp(warmed, small(), torch.ones(3, 4))


@pytest.mark.filterwarnings("ignore")
def test_jit_tracing_records_the_operator(warmed):
    traced = torch.jit.trace(lambda x: warmed(x), (small(),))
    assert str(traced.graph).count("tileops_external::probe_fwd(") == 1
    assert torch.equal(traced(small(5, 4)), small(5, 4) * 2)


def test_symbolic_tracing_by_fx_records_the_operator(warmed):
    class Module(torch.nn.Module):
        def forward(self, x):
            return warmed(x)

    traced = torch.fx.symbolic_trace(Module())
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [
        torch.ops.tileops_external.probe_fwd.default
    ]
    assert torch.equal(traced(small(5, 4)), small(5, 4) * 2)


def test_symbolic_tracing_of_a_write_gives_what_was_written():
    op = ReLUFwdOp(inplace=True)
    traced = torch.fx.symbolic_trace(lambda x: op(x - 5) + 0)
    assert torch.equal(traced(small()), torch.relu(small() - 5))


def test_what_is_no_tensor_is_refused_while_fx_traces(warmed):
    class Module(torch.nn.Module):
        def forward(self, x):
            return warmed(3.0)

    with pytest.raises(NotATensorError, match=r"x must be a torch\.Tensor, got 3\.0"):
        torch.fx.symbolic_trace(Module())


RECORDED = [
    pytest.param({"tracing_mode": "real"}, id="real"),
    pytest.param({"tracing_mode": "fake"}, id="fake"),
    pytest.param({"tracing_mode": "symbolic"}, id="symbolic"),
    pytest.param({"tracing_mode": "fake", "pre_dispatch": True}, id="pre-dispatch"),
    pytest.param({"tracing_mode": "real", "pre_dispatch": True}, id="real pre-dispatch"),
]


@pytest.mark.parametrize("how", RECORDED)
def test_make_fx_records_the_operator(warmed, how):
    graph = make_fx(lambda x: warmed(x) + 1, **how)(small())
    names = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert len(names) == 2
    assert names[0].startswith("tileops_external.probe_fwd")
    assert torch.equal(graph(small() * 3), small() * 6 + 1)


@pytest.mark.parametrize("how", RECORDED)
def test_make_fx_records_a_write(how):
    op = ReLUFwdOp(inplace=True)
    graph = make_fx(lambda x: op(x - 5) + 0, **how)(small())
    assert torch.equal(graph(small()), torch.relu(small() - 5))


def test_what_is_recorded_from_shapes_builds_nothing(probe):
    make_fx(lambda x: probe(x) + 1, tracing_mode="fake")(small())
    assert no_trace(probe)


@pytest.mark.filterwarnings("ignore")
def test_an_op_constructed_in_compiled_code_breaks_the_graph_and_is_right():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: RMSNormFwdOp((4,))(x) * 2, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(3, 4)), torch.full((3, 4), 2.0))
    torch._dynamo.reset()


# -- tensor subclasses ------------------------------------------------------------------------


class Plain(torch.Tensor):
    """A subclass with nothing of its own."""


class Quiet(torch.Tensor):
    """A subclass that takes no part in torch functions."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Logging(torch.Tensor):
    """The subclass of torch's documentation: it asks functions their names."""

    seen: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    """A subclass whose memory is elsewhere."""

    seen: list = []  # noqa: RUF012

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)

        def unwrap(t):
            return t.inner if isinstance(t, Wrapper) else t

        def wrap(t):
            return Wrapper(t) if isinstance(t, torch.Tensor) else t

        return tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))


@pytest.mark.parametrize("cls", [Plain, Logging], ids=lambda c: c.__name__)
def test_a_plain_subclass_works_and_keeps_its_class(warmed, cls):
    y = warmed(small().as_subclass(cls))
    assert type(y) is cls
    assert torch.equal(y.as_subclass(torch.Tensor), small() * 2)


def test_a_subclass_sees_the_op_by_name(warmed):
    Logging.seen.clear()
    warmed(small().as_subclass(Logging))
    assert "ProbeFwdOp" in Logging.seen


def test_a_subclass_without_torch_functions_works(warmed):
    y = warmed(small().as_subclass(Quiet))
    assert torch.equal(y.as_subclass(torch.Tensor), small() * 2)


@pytest.mark.parametrize("cls", [Plain, Quiet, Logging], ids=lambda c: c.__name__)
@pytest.mark.parametrize("times", [1, 2])
def test_a_subclass_written_in_place_is_itself_the_result(cls, times):
    op = ReLUFwdOp(inplace=True)
    for _ in range(times):
        x = (small() - 5).as_subclass(cls)
        assert op(x) is x
        assert torch.equal(x.as_subclass(torch.Tensor), torch.relu(small() - 5))


@pytest.mark.parametrize("cls", [Plain, Quiet], ids=lambda c: c.__name__)
def test_a_subclass_written_in_place_has_no_silent_gradient(cls):
    op = ReLUFwdOp(inplace=True)
    leaf = (small() - 5).as_subclass(cls).requires_grad_()
    with pytest.raises(SignatureError, match="leaf that requires grad"):
        op(leaf)
    x = leaf * 1
    x = x if type(x) is cls else x.as_subclass(cls)
    assert op(x) is x
    with pytest.raises(NotImplementedError, match="ReLUFwdOp has no gradient"):
        x.sum().backward()


def test_a_subclass_as_out_is_itself_the_result():
    with served("BufferFwdOp") as op:
        for _ in range(2):
            out = torch.zeros(3, 4).as_subclass(Plain)
            assert op(small(), out=out) is out


def test_a_subclass_is_refused_like_any_tensor(warmed):
    with pytest.raises(SignatureError, match=r"x has 1 axis"):
        warmed(torch.ones(3).as_subclass(Plain))


def test_a_wrapper_subclass_sees_the_operator_and_computes(warmed):
    Wrapper.seen.clear()
    y = warmed(Wrapper(small()))
    assert type(y) is Wrapper
    assert torch.equal(y.inner, small() * 2)
    assert Wrapper.seen == [torch.ops.tileops_external.probe_fwd_raw.default]


def test_a_wrapper_subclass_may_be_an_optional_input():
    op = RMSNormFwdOp((4,))
    y = op(small(), Wrapper(torch.full((4,), 2.0)))
    assert torch.equal(y.inner, op(small(), torch.full((4,), 2.0)))


def test_a_wrapper_subclass_is_written_in_place():
    op = ReLUFwdOp(inplace=True)
    x = Wrapper(small() - 5)
    assert op(x) is x
    assert torch.equal(x.inner, torch.relu(small() - 5))


def test_a_wrapper_subclass_is_checked_like_any(warmed):
    with pytest.raises(SignatureError, match=r"x has 1 axis"):
        warmed(Wrapper(torch.ones(3)))


def test_a_subclass_that_handles_the_op_itself_does():
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if isinstance(func, GELUFwdOp):
                return "own"
            return super().__torch_function__(func, types, args, kwargs or {})

    assert GELUFwdOp()(small().as_subclass(Own)) == "own"


def test_an_uninitialized_parameter_is_refused():
    op = AddFwdOp()
    lazy = torch.nn.UninitializedParameter()
    with pytest.raises(ValueError, match="uninitialized"):
        op(lazy, lazy)


def zeros(*shape):
    """What autograd has for a tangent that is zero: it has no memory, and its address is 0."""
    return torch._efficientzerotensor(shape)


def test_a_zero_tensor_of_autograd_works():
    op = AddFwdOp()
    for _ in range(2):
        assert torch.equal(op(small(), zeros(3, 4)), small())


@pytest.mark.parametrize("warmed", [False, True])
def test_a_kernel_reads_zeros_where_a_zero_tensor_of_autograd_came(warmed):
    """A kernel that reads memory by its address would end the process."""
    seen = []

    def kernel(x):
        seen.append((x.data_ptr() != 0, bool((x == 0).all())))
        return x * 2

    with served(build=lambda *specs: kernel) as op:
        if warmed:
            op(small())
        assert torch.equal(op(zeros(3, 4)), torch.zeros(3, 4))
        assert seen[-1] == (True, True)
        assert torch.equal(op(small()), small() * 2)


@pytest.mark.parametrize("warmed", [False, True])
def test_a_zero_tensor_of_autograd_is_read_beside_what_is_written(warmed):
    read = []

    def kernel(state, x):
        read.append(x.data_ptr())
        state.add_(x)

    with served("AccumulateFwdOp", lambda *specs: kernel) as op:
        state = small()
        if warmed:
            op(state.clone(), small())
        op(state, zeros(3, 4))
        assert torch.equal(state, small())
        assert read[-1] != 0


@pytest.mark.parametrize("warmed", [False, True])
def test_a_zero_tensor_of_autograd_is_not_written(warmed):
    with served("AccumulateFwdOp") as op:
        if warmed:
            op(small(), small())
        with pytest.raises(SignatureError, match=r"state is written.*no memory.*clone"):
            op(zeros(3, 4), small())


@pytest.mark.filterwarnings("ignore")
def test_an_implicit_axis_warns_at_every_new_kind_of_call():
    op = SoftmaxFwdOp()
    with pytest.warns(UserWarning, match="dim"):
        op(small())


def test_a_target_and_its_class_survive_all_of_it():
    with target(lambda x: faulty.KERNELS["ProbeFwdOp"]()):
        op = op_class("ProbeFwdOp")(target="acme")
        with torch.no_grad(), Counting():
            op(small())
        with FakeTensorMode():
            op(torch.ones(3, 4))
        op(torch.ones(3, 4, device="meta"))
        op(small().as_subclass(Plain))
        assert op.serving_target == "acme"
        assert len(op._binding) == 1
