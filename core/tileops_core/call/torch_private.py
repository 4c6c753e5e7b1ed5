"""Every torch-internal name the library leans on, each with a public fallback.

Eager calls on plain tensors skip torch's dispatcher, so they must know when something else is
watching: a dispatch mode, a functorch transform, tracing, forward-mode differentiation, a
profiler, autocast. Torch answers each question in tens of nanoseconds, but not under a public
name; where an internal name is gone, the fallback answers more slowly or more cautiously.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.autograd.forward_ad as _forward_ad
import torch.autograd.profiler as _profiler
import torch.fx._symbolic_trace as _fx_trace
from torch.utils import _python_dispatch


def _attribute(path: str) -> Any:
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _dispatch_modes_public() -> int:
    return int(_python_dispatch._get_current_dispatch_mode() is not None)


def _autocast_public() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


dispatch_modes: Callable[[], int] = _attribute("_C._len_torch_dispatch_stack") or (
    _dispatch_modes_public
)
"""How many dispatch modes are active on this thread."""

functorch_level: Callable[[], object | None] = _attribute(
    "_C._functorch.peek_interpreter_stack"
) or (lambda: None)
"""The innermost functorch transform, or None."""

jit_tracing: Callable[[], bool] = _attribute("_C._is_tracing") or (
    torch.jit.is_tracing  # type: ignore[attr-defined]
)
"""Whether ``torch.jit.trace`` is recording."""

autocast_on: Callable[[], bool] = _attribute("_C._is_any_autocast_enabled") or _autocast_public
"""Whether autocast is on for any device type."""

profiling: Callable[[], bool] = _attribute("_C._autograd._profiler_enabled") or (lambda: False)
"""Whether a profiler records this thread."""


profiler: Any = _profiler
"""Its ``_is_profiler_enabled`` is set while some thread runs one of torch's profilers. It costs
a tenth of asking :data:`profiling`, which then tells whether it is this thread."""


def is_plain_view(tensor: torch.Tensor) -> bool:
    """Whether autograd can follow a write into a view."""
    creation = _attribute("_C._autograd._get_creation_meta")
    return creation is None or creation(tensor).name == "DEFAULT"


is_functorch_tensor: Callable[[torch.Tensor], bool] = _attribute(
    "_C._functorch.is_functorch_wrapped_tensor"
) or (lambda _tensor: functorch_level() is not None)
"""Whether a tensor belongs to a functorch transform."""


def is_zero_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one of autograd's zeros, which say that they are and have no memory."""
    ask: Callable[[], bool] | None = getattr(tensor, "_is_zerotensor", None)
    return ask is not None and ask()


def pointer_of_none(tensor: torch.Tensor) -> int:
    """No address, for a tensor without elements; 0 is what torch gives for any such result.

    Raises:
        RuntimeError: one of autograd's zeros: it has elements, and nobody may read them there.
    """
    if is_zero_tensor(tensor):
        raise RuntimeError("a zero tensor of autograd has no memory")
    return -1


def share_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors lie in one piece of memory, told without addresses.

    A transform's tensor has no storage itself; what it wraps has.
    """
    try:
        return bool(_storage(one) == _storage(other))
    except NotImplementedError:  # of a tensor without a storage nothing is known
        return False


def _storage(tensor: torch.Tensor) -> Any:
    unwrapped = _attribute("_C._functorch.get_unwrapped")
    while unwrapped is not None and is_functorch_tensor(tensor):
        tensor = unwrapped(tensor)
    return tensor.untyped_storage()._cdata


def plain_apply(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """``function.apply`` for calls outside functorch's transforms, with none of their tensors.

    What torch does in Python before that is for transforms, and takes longer than the rest.
    """
    apply: Callable[..., Any] | None = getattr(
        super(torch.autograd.Function, function), "apply", None
    )
    return function.apply if apply is None else apply


compiling: Callable[[], bool] = getattr(
    torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling
)
"""Whether dynamo reads this code instead of running it; it takes the answer for a constant."""


def functionalizing() -> bool:
    """Whether ``torch.func.functionalize`` is the innermost transform."""
    level: Any = functorch_level()
    return level is not None and getattr(level.key(), "name", "") == "Functionalize"


forward_ad: Any = _forward_ad
"""Its ``_current_level`` is not negative inside forward-mode differentiation."""


def has_tangent(tensor: torch.Tensor) -> bool:
    """Whether a tensor carries a forward-mode tangent."""
    with _seen_by_autograd():
        return forward_ad.unpack_dual(tensor).tangent is not None


@contextmanager
def _seen_by_autograd() -> Iterator[None]:
    """A context in which autograd takes part in calls, also below it, where modes run their code.

    Only it knows of tangents; without it, to ask for one is an internal error of torch.
    """
    preserve = _attribute("_C._PreserveDispatchKeyGuard")
    exclude = _attribute("_C._dispatch_tls_set_dispatch_key_excluded")
    if preserve is None or exclude is None:
        yield
        return
    with preserve():
        for name in ("AutogradFunctionality", "AutogradOther", "ADInplaceOrView"):
            exclude(getattr(torch._C.DispatchKey, name), False)
        yield


fx_trace: Any = _fx_trace
"""Its ``_is_fx_tracing_flag`` is set while torch.fx traces symbolically."""

for _module, _name, _idle in (
    (forward_ad, "_current_level", -1),
    (fx_trace, "_is_fx_tracing_flag", False),
    (profiler, "_is_profiler_enabled", False),
):
    if not hasattr(_module, _name):  # a torch that tells it otherwise: ask the operators instead
        setattr(_module, _name, _idle)


def not_traced(function: Any, reason: str = "it runs as it is, between graphs") -> Any:
    """Make dynamo break the graph at ``function`` and run it, and what it calls, as it is.

    The mark and the strategy are what ``torch.compiler.disable`` comes to; set by hand, because
    importing dynamo takes a second. ``reason`` is what an error about a whole graph says.
    """
    frames = _attribute("_C._dynamo.eval_frame")
    action = getattr(frames, "_FrameAction", None)
    if action is not None and hasattr(frames, "set_code_exec_strategy"):
        strategy = frames._FrameExecStrategy(action.SKIP, action.SKIP)
        frames.set_code_exec_strategy(function.__code__, strategy)
    elif hasattr(frames, "set_eval_frame") and hasattr(frames, "skip_code"):
        # A torch that cannot leave out what a skipped function calls: switch dynamo off around it.
        function = _without_dynamo(function, frames.set_eval_frame)
        frames.skip_code(function.__code__)
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = reason
    return function


def _without_dynamo(function: Any, set_eval_frame: Callable[[Any], Any]) -> Any:
    @functools.wraps(function)
    def untraced(*args: Any, **named: Any) -> Any:
        before = set_eval_frame(None)
        try:
            return function(*args, **named)
        finally:
            set_eval_frame(before)

    return untraced


def can_read_ahead() -> bool:
    """Whether dynamo runs code of ours when it reads :func:`while_read`."""
    # By the file: to import it means to import dynamo.
    return any((Path(folder) / "_dynamo" / "comptime.py").exists() for folder in torch.__path__)


def while_read(function: Callable[[Any], None]) -> None:
    """Call ``function`` when dynamo reads this, with its view of the frame; do nothing else."""
    from torch._dynamo.comptime import comptime

    comptime(function)


def is_readable(context: Any) -> bool:
    """Whether dynamo's view of a frame shows objects; where not, nothing is made of it."""
    return hasattr(context.get_local("self", stacklevel=1), "_ComptimeVar__variable")


def read_local(context: Any, name: str) -> Any:
    """A local of the frame that called :func:`while_read`: the object; of a tensor, its stand-in.

    What dynamo cannot tell (an object that the compiled code makes) is stood for by an object of a
    class of the same name.
    """
    return _read(context.get_local(name, stacklevel=1)._ComptimeVar__variable)


def _read(variable: Any) -> Any:
    variable = getattr(variable, "realize", lambda: variable)()
    kind = variable.python_type()
    if issubclass(kind, torch.Tensor):
        return variable.as_proxy().node.meta["example_value"]
    items = getattr(variable, "items", None) if issubclass(kind, tuple) else None
    if isinstance(items, list | tuple):
        return tuple(map(_read, items))
    missing = object()
    value = getattr(variable, "value", missing)
    if value is not missing:
        return value
    try:
        return variable.as_python_constant()
    except Exception:
        told = f"a {kind.__name__} of the code that is compiled"
        return type(kind.__name__, (), {"__repr__": lambda _self: told})()


def refuse_graph(error: Exception) -> NoReturn:
    """Have dynamo say that it cannot compile a call, in its words for a failing operator."""
    from torch._dynamo.exc import TorchRuntimeError

    raise TorchRuntimeError(f"{type(error).__name__}: {error}") from error


def read_again(reason: str) -> None:
    """Have dynamo read the code once more from its beginning, where it can."""
    from torch._dynamo import exc

    restart = getattr(exc, "RestartAnalysis", None)
    if restart is not None:
        raise restart(restart_reason=reason)


def size_at_hand(size: Any) -> int | None:
    """What a size is in the call that is traced; nothing is tied to it.

    Of a size that only data tell, some length; equal ones have an equal length. None where torch
    does not say what the size is made of.
    """
    if isinstance(size, int):
        return size
    try:
        node = size.node
        known = getattr(node.shape_env, "backed_var_to_val", None)
        known = node.shape_env.var_to_val if known is None else known
        symbols = node.expr.free_symbols
        return int(node.expr.subs({s: known.get(s, _SOME_LENGTH) for s in symbols}))
    except Exception:
        return None


_SOME_LENGTH = 8


@contextmanager
def not_recorded_by_jit() -> Iterator[None]:
    """A context in which ``torch.jit.trace`` records nothing, and sizes are plain numbers."""
    get, put = _attribute("_C._get_tracing_state"), _attribute("_C._set_tracing_state")
    state = get() if get is not None and put is not None else None
    if state is None:
        yield
        return
    put(None)
    try:
        yield
    finally:
        put(state)


@contextmanager
def outside_transforms() -> Iterator[None]:
    """A context in which no functorch transform is active, for tensors that belong to none."""
    from torch._functorch import pyfunctorch

    clear = getattr(pyfunctorch, "temporarily_clear_interpreter_stack", None) or nullcontext
    with clear():
        yield


@contextmanager
def ordinary_state() -> Iterator[None]:
    """A context in which new tensors can be kept: no dispatch mode, inference or grad mode."""
    if torch.is_inference_mode_enabled() or dispatch_modes():
        # Whoever records a graph records a change of grad mode as well, by torch functions.
        with (
            _no_torch_function_modes(),
            torch.inference_mode(False),
            torch.no_grad(),
            _no_dispatch_modes(),
        ):
            yield
    else:
        with torch.no_grad():
            yield


def forget_operators(library: Any) -> None:
    """Take operators back from torch, which else happens when the last reference to ``library``,
    their handle, goes; the frames of an exception may hold one for long.
    """
    destroy = getattr(library, "_destroy", None)
    if destroy is not None:
        destroy()


def add_vmap_rule(
    library: Any, qualname: str, rule: Callable[..., Any], operator: Callable[[], Any]
) -> None:
    """Give an operator its rule for ``torch.vmap``.

    ``torch.library.register_vmap`` does the same, but looks the operator up first, which takes
    twenty times as long.

    Args:
        library: torch's handle of the operator.
        qualname: its namespace and name.
        rule: as ``register_vmap`` takes it.
        operator: gives the operator's overload.
    """
    helper = _vmap_helper()
    if helper is None:
        torch.library.register_vmap(qualname, rule, lib=library)
        return

    def kernel(keyset: Any, *args: Any) -> Any:
        from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

        return helper(retrieve_current_functorch_interpreter(), rule, operator(), *args)

    library.impl(qualname.split("::")[1], kernel, "FuncTorchBatched", with_keyset=True)


def add_write_kernel(
    library: Any, name: str, kernel: Callable[..., Any], operator: Callable[[], Any]
) -> None:
    """Give an operator that writes its ADInplaceOrView kernel, where torch counts its writes.

    Args:
        library: torch's handle of the operator.
        name: its name, without the namespace.
        kernel: called with a function that goes on, and the operator's arguments.
        operator: gives the operator's overload.
    """
    below = _attribute("_C._AutoDispatchBelowADInplaceOrView")
    after = _attribute("_C._after_ADInplaceOrView_keyset")
    if below is None or after is None:
        return

    def counted(keyset: Any, *args: Any) -> Any:
        def go_on(*given: Any) -> Any:
            with below():
                return operator().redispatch(keyset & after, *given)

        return kernel(go_on, *args)

    library.impl(name, counted, "ADInplaceOrView", with_keyset=True)


def count_write(tensor: torch.Tensor) -> None:
    """Tell autograd that a tensor was written; one of inference mode has nothing to tell it by."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)


def is_view_in_graph(tensor: torch.Tensor) -> bool:
    """Whether a compiler makes a graph, and the tensor is part of another one of that graph."""
    functional = sys.modules.get("torch._subclasses.functional_tensor")
    kind = getattr(functional, "FunctionalTensor", None)
    if kind is None or not isinstance(tensor, kind) or not tensor._is_view():
        return False
    base = tensor._base
    sizes = (None,) if base is None else (tensor.numel(), base.numel())
    return not all(type(size) is int for size in sizes) or len({*sizes}) == 2


def _vmap_helper() -> Callable[..., Any] | None:
    module = sys.modules.get("torch._functorch.autograd_function")
    found: Callable[..., Any] | None
    found = getattr(module, "custom_function_call_vmap_helper", None)
    return found


def active_fake_mode() -> Any:
    """The innermost active fake mode, or None."""
    stack: Callable[[], list[Any]]
    stack = getattr(_python_dispatch, "_get_current_dispatch_mode_stack", list)
    fake = [mode for mode in stack() if type(mode).__name__ == "FakeTensorMode"]
    return fake[-1] if fake else None


def has_fx_proxy(values: Any) -> bool:
    """Whether some of the values stand for tensors of a graph that torch.fx traces."""
    return any(isinstance(value, torch.fx.Proxy) for value in values)


def graph_is_recorded() -> bool:
    """Whether what is computed now becomes nodes of an fx graph."""
    # Whoever records has imported it; nobody else should pay for that.
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return proxies is not None and proxies.get_proxy_mode() is not None


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor is fake (shape and dtype without data)."""
    return type(tensor) is not torch.Tensor and hasattr(tensor, "fake_mode")


@contextmanager
def fake_tensors() -> Iterator[None]:
    """A context in which new tensors are fake, on whatever device they are asked for."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def needs_data(error: BaseException) -> bool:
    """Whether something was asked of a fake tensor that only its values could answer."""
    # By name: torch has moved these classes, and has others of this kind beside them.
    return any(
        cls.__module__.startswith("torch.") and cls.__name__ in _NEED_DATA
        for cls in type(error).__mro__
    )


_NEED_DATA = frozenset(
    {
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "GuardOnDataDependentSymNode",
        "UnsupportedFakeTensorException",
    }
)


def is_dispatch_subclass(tensor: torch.Tensor) -> bool:
    """Whether the tensor's class takes part in dispatch (a wrapper), so unwrapping is unsafe."""
    own = getattr(type(tensor), "__torch_dispatch__", None)
    return own is not None and own != getattr(torch.Tensor, "__torch_dispatch__", None)


no_torch_function: Callable[[], Any] = _attribute("_C.DisableTorchFunctionSubclass") or nullcontext
"""A context in which a subclass is asked about its form without its own code running."""

_no_torch_function_modes: Callable[[], Any] = _attribute("_C.DisableTorchFunction") or nullcontext

_no_dispatch_modes: Callable[[], Any] = (
    getattr(_python_dispatch, "_disable_current_modes", None) or nullcontext
)
