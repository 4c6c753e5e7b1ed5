"""Torch's internal answers and the public ones that stand in where they are gone."""

from __future__ import annotations

import importlib.util

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from tileops_core.call import torch_private

INTERNAL = (
    (torch._C, "_len_torch_dispatch_stack"),
    (torch._C, "_is_tracing"),
    (torch._C, "_is_any_autocast_enabled"),
    (torch._C._autograd, "_profiler_enabled"),
    (torch.autograd.profiler, "_is_profiler_enabled"),
    (torch._C._autograd, "_get_creation_meta"),
    (torch._C._functorch, "peek_interpreter_stack"),
    (torch._C._functorch, "is_functorch_wrapped_tensor"),
    (torch._C._functorch, "get_unwrapped"),
    (torch._functorch.autograd_function, "custom_function_call_vmap_helper"),
    (torch.compiler, "is_dynamo_compiling"),
)


def without_internals():
    """The module as it is on a torch that has none of the internal names."""
    patch = pytest.MonkeyPatch()
    with patch.context() as names:
        for holder, name in INTERNAL:
            names.delattr(holder, name, raising=False)
        spec = importlib.util.spec_from_file_location("bare_torch_private", torch_private.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


BOTH = [
    pytest.param(torch_private, id="internal"),
    pytest.param(without_internals(), id="public"),
]


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("private", BOTH)
def test_dispatch_modes_are_seen(private):
    assert not private.dispatch_modes()
    with Mode():
        assert private.dispatch_modes()
    assert not private.dispatch_modes()


@pytest.mark.parametrize("private", BOTH)
def test_autocast_is_seen(private):
    assert not private.autocast_on()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert private.autocast_on()
    assert not private.autocast_on()


@pytest.mark.parametrize("gone", [(), ("_PreserveDispatchKeyGuard",)], ids=["internal", "public"])
def test_a_tangent_is_seen(monkeypatch, gone):
    for name in gone:
        monkeypatch.delattr(torch._C, name)
    with forward_ad.dual_level():
        assert torch_private.has_tangent(forward_ad.make_dual(torch.ones(2), torch.ones(2)))
        assert not torch_private.has_tangent(torch.ones(2))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("private", BOTH)
def test_jit_tracing_is_seen(private):
    seen = []
    torch.jit.trace(lambda x: seen.append(private.jit_tracing()) or x + 1, (torch.ones(2),))
    assert seen[0]
    assert not private.jit_tracing()


def test_a_profiler_is_seen():
    assert not torch_private.profiling()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert torch_private.profiling()
    with torch.autograd.profiler.profile():
        assert torch_private.profiling()
    assert not torch_private.profiling()


def test_without_the_internal_name_no_profiler_is_seen():
    """It costs the op's range in a profile, and nothing else."""
    assert not without_internals().profiling()


@pytest.mark.parametrize(
    "recording",
    [
        lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        lambda: torch.autograd.profiler.profile(),
    ],
    ids=["torch.profiler", "torch.autograd.profiler"],
)
def test_a_profiler_raises_the_flag_that_calls_look_at(recording):
    assert not torch_private.profiler._is_profiler_enabled
    with recording():
        assert torch_private.profiler._is_profiler_enabled
    assert not torch_private.profiler._is_profiler_enabled


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_the_plain_apply_is_autograd_s():
    x = torch.ones(2, requires_grad=True)
    torch_private.plain_apply(Doubled)(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_where_torch_has_no_plain_apply_the_public_one_is_taken(monkeypatch):
    class Bare:
        """Stands where torch's base of all functions is."""

    monkeypatch.setattr(torch.autograd, "Function", Bare)

    class Function(Bare):
        apply = "the public one"

    assert torch_private.plain_apply(Function) == "the public one"


def test_transforms_and_their_tensors_are_seen():
    seen = []

    def f(x):
        inside = torch_private.functorch_level() is not None
        seen.append((inside, torch_private.is_functorch_tensor(x)))
        with torch_private.outside_transforms():
            seen.append((torch_private.functorch_level() is not None, None))
        return x * 2

    torch.func.vmap(f)(torch.ones(2, 3))
    assert seen == [(True, True), (False, None)]
    assert torch_private.functorch_level() is None
    assert not torch_private.is_functorch_tensor(torch.ones(2))


def test_zero_tensors_of_autograd_are_told_from_those_without_elements():
    assert torch_private.is_zero_tensor(torch._efficientzerotensor((3,)))
    with pytest.raises(RuntimeError, match="no memory"):
        torch_private.pointer_of_none(torch._efficientzerotensor((3,)))
    assert torch_private.pointer_of_none(torch.empty(0)) != torch.empty(0).data_ptr()


@pytest.mark.parametrize("private", BOTH)
def test_tensors_in_one_storage_are_told(private):
    x = torch.ones(2, 3)
    assert private.share_storage(x[0], x[1:])
    assert not private.share_storage(x, x.clone())


def test_tensors_of_transforms_in_one_storage_are_told():
    seen = []

    def f(x):
        seen.extend(torch_private.share_storage(x, other) for other in (x[1:], x + 1))
        return x

    torch.func.vmap(torch.func.vmap(f))(torch.ones(2, 3, 4))
    assert seen == [True, False]


def test_where_torch_unwraps_nothing_their_storage_is_not_known():
    seen = []
    private = without_internals()
    torch.func.vmap(lambda x: seen.append(private.share_storage(x, x)) or x)(torch.ones(2, 3))
    assert seen == [False]


def test_a_forward_mode_level_is_seen():
    assert torch_private.forward_ad._current_level < 0
    with forward_ad.dual_level():
        assert torch_private.forward_ad._current_level >= 0


def test_functionalizing_is_seen():
    seen = []

    def f(x):
        seen.append(torch_private.functionalizing())
        return x * 2

    torch.func.functionalize(f)(torch.ones(2))
    torch.func.vmap(f)(torch.ones(2))
    assert seen == [True, False]
    assert not torch_private.functionalizing()


@pytest.mark.parametrize("private", BOTH)
def test_dynamo_takes_its_own_reading_for_a_constant(private):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: x + 1 if private.compiling() else x, backend="eager", fullgraph=True
    )
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert not private.compiling()
    torch._dynamo.reset()


RULES = [
    pytest.param(lambda: torch_private, id="internal"),
    pytest.param(lambda: without_helper(), id="public"),
]


def without_helper():
    patched = without_internals()
    patched._vmap_helper = lambda: None
    return patched


@pytest.mark.parametrize("private", RULES)
def test_an_operator_gets_a_rule_for_vmap(private, request):
    name = f"scaled_{request.node.callspec.id}"
    library = torch.library.Library("tileops_private_test", "FRAGMENT")
    library.define(f"{name}(str key, Tensor x) -> Tensor")
    library.impl(name, lambda key, x: x * 2, "CompositeExplicitAutograd")
    operator = getattr(torch.ops.tileops_private_test, name).default
    seen = []

    def rule(info, in_dims, key, x):
        seen.append((info.batch_size, in_dims, key))
        return operator(key, x), in_dims[1]

    private().add_vmap_rule(library, f"tileops_private_test::{name}", rule, lambda: operator)
    x = torch.ones(3, 2)
    assert torch.equal(torch.func.vmap(lambda row: operator("k", row), in_dims=1)(x), x.t() * 2)
    assert seen == [(2, (None, 1), "k")]


def test_operators_are_forgotten_while_somebody_holds_their_handle():
    library = torch.library.Library("tileops_private_test", "FRAGMENT")
    library.define("forgotten(Tensor x) -> Tensor")
    assert hasattr(torch.ops.tileops_private_test, "forgotten")
    torch_private.forget_operators(library)
    again = torch.library.Library("tileops_private_test", "FRAGMENT")
    again.define("forgotten(Tensor x, Tensor y) -> Tensor")
    torch_private.forget_operators(again)
    torch_private.forget_operators(object())


def test_what_fx_traces_is_told_from_tensors():
    seen = []

    class Module(torch.nn.Module):
        def forward(self, x):
            seen.append(torch_private.has_fx_proxy((None, x)))
            return x

    torch.fx.symbolic_trace(Module())
    assert seen == [True]
    assert not torch_private.has_fx_proxy((None, torch.ones(2)))


def test_symbolic_tracing_is_seen():
    seen = []

    class Module(torch.nn.Module):
        def forward(self, x):
            seen.append(torch_private.fx_trace._is_fx_tracing_flag)
            return x

    torch.fx.symbolic_trace(Module())
    assert seen == [True]
    assert not torch_private.fx_trace._is_fx_tracing_flag


def test_a_recorded_graph_is_seen():
    seen = []
    make_fx(lambda x: seen.append(torch_private.graph_is_recorded()) or x + 1)(torch.ones(2))
    assert seen == [True]
    assert not torch_private.graph_is_recorded()


def test_an_active_fake_mode_is_found_under_others():
    assert torch_private.active_fake_mode() is None
    with FakeTensorMode() as mode, Mode():
        assert torch_private.active_fake_mode() is mode


def test_fake_tensors_are_told_from_real_ones():
    assert torch_private.is_fake(FakeTensorMode().from_tensor(torch.ones(2)))
    assert not torch_private.is_fake(torch.ones(2))


@pytest.mark.parametrize("private", BOTH)
def test_a_view_that_autograd_can_follow_is_plain(private):
    x = torch.ones(2, 2, requires_grad=True) * 1
    assert private.is_plain_view(x[0])


def test_a_view_that_autograd_cannot_follow_is_not_plain():
    x = torch.ones(2, 2, requires_grad=True) * 1
    assert not torch_private.is_plain_view(x.unbind()[0])
    with torch.no_grad():
        view = x[0]
    assert not torch_private.is_plain_view(view)


def test_what_is_made_in_ordinary_state_can_be_kept():
    with torch.inference_mode(), FakeTensorMode(), torch_private.ordinary_state():
        x = torch.ones(2)
    assert type(x) is torch.Tensor
    assert not x.is_inference()
    assert not x.requires_grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("private", BOTH)
def test_a_function_that_is_not_traced_breaks_the_graph_and_hides_what_it_calls(private):
    compiling, graphs = [], []

    def inner(x):
        compiling.append(torch.compiler.is_compiling())
        return x + 1

    @private.not_traced
    def outer(x):
        return inner(x)

    def backend(graph, inputs):
        graphs.append(len(inputs))
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: outer(x * 2) * 3, backend=backend)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 9.0))
    assert compiling == [False]
    assert graphs == 2 * [1]
    torch._dynamo.reset()


def test_new_tensors_are_fake_on_any_device():
    with torch_private.fake_tensors():
        made = torch.ones(2, 3, device="cuda:0") * 2
    assert torch_private.is_fake(made)
    assert (made.device, made.shape) == (torch.device("cuda:0"), (2, 3))


ASK = {
    "a number": lambda x: int(x.sum()),
    "a condition": lambda x: bool((x > 0).all()),
    "a shape": lambda x: x.nonzero(),
    "a list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("what", ASK)
def test_what_only_values_could_answer_is_known_by_its_error(what):
    with torch_private.fake_tensors():
        x = torch.ones(3)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever torch raises
            ASK[what](x)
    assert torch_private.needs_data(caught.value)


def test_other_errors_are_others():
    assert not torch_private.needs_data(ValueError())
    with torch_private.fake_tensors(), pytest.raises(RuntimeError) as caught:
        torch.ones(3) + torch.ones(4)
    assert not torch_private.needs_data(caught.value)
