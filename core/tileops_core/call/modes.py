"""Calls that are not plain: odd tensors, modes and transforms, autograd, autocast, checking.

Each is brought back to the ordinary road, or refused with a sentence that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from tileops_core.call import checking, torch_private
from tileops_core.call.admit import admit
from tileops_core.call.compose import Tensors
from tileops_core.call.grad import needs_grad, run_node, run_with_grad
from tileops_core.call.metadata import check_metadata
from tileops_core.call.pipeline import is_shapes_only, miss
from tileops_core.call.state import CalledOp
from tileops_core.errors import SignatureError
from tileops_core.plan.model import Plan
from tileops_core.tensor_spec import TensorSpec


def unusual(op: CalledOp, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """Run a call that the predicate of the generated code sent away.

    Args:
        op: the instance.
        inputs: whatever the caller passed, in the signature's order.
        out: the caller's buffer, if the op takes one.
    """
    plan = op._plan
    with torch_private.no_torch_function():
        admit(plan, inputs, out)
    given = tuple(x for x in (*inputs, out) if x is not None)
    if has_torch_function(given):
        positional, named = _as_called(plan, inputs, out)
        return handle_torch_function(op, given, *positional, **named)  # type: ignore[arg-type]
    _refuse_transforms(plan.op, given)
    fake_mode = _fake_mode(given)
    shapes_only = fake_mode is not None or is_shapes_only(given)
    if shapes_only and torch_private.graph_is_recorded():
        raise _refused(
            plan.op,
            "while a graph is recorded from shapes (torch.export, make_fx with fake tensors): it "
            "would hold an empty tensor in place of the result",
            "use torch.compile, or make_fx with real tensors",
        )
    replaced: list[tuple[torch.Tensor, torch.Tensor]] = []

    def taken(name: str, tensor: Any) -> Any:
        """What stands for the caller's tensor inside the call."""
        if tensor is None:
            return None
        if fake_mode is not None:
            mine = fake_mode.from_tensor(tensor)
        else:
            mine = tensor if shapes_only else _plain(plan, name, tensor)
        if mine is not tensor:
            replaced.append((mine, tensor))
        return mine

    inputs = tuple(taken(t.name, x) for t, x in zip(plan.signature.inputs, inputs, strict=True))
    out = taken("out", out)

    def run() -> Any:
        if shapes_only:
            with fake_mode or nullcontext():
                return miss(op, None, inputs, out, shapes_only=True)
        if checking.active().purity:
            return miss(op, _checked_key(inputs, out), inputs, out)
        return run_node(op, inputs, out)

    if checking.active().metadata and not shapes_only:
        check_metadata(plan, op._construction.statics, inputs)
    with _surroundings(plan.op, given):
        if needs_grad((*inputs, out)):
            result = run_with_grad(op, run, inputs, out)
        else:
            result = run()
    return _callers(result, replaced) if replaced else result


def _callers(result: Any, replaced: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """The result with the caller's own tensors where it has what stood for them."""
    if isinstance(result, tuple):
        return tuple(_callers(r, replaced) for r in result)
    return next((theirs for mine, theirs in replaced if mine is result), result)


def _as_called(plan: Plan, inputs: Tensors, out: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as a caller writes them: keyword-only ones by name."""
    pairs = list(zip(plan.signature.inputs, inputs, strict=True))
    named = {t.name: x for t, x in pairs if t.kw_only}
    if out is not None:
        named["out"] = out
    return [x for t, x in pairs if not t.kw_only], named


def _refuse_transforms(op: str, tensors: Tensors) -> None:
    """Refuse what would silently go wrong: transforms see inside a call only through torch."""
    if torch_private.functorch_level() is not None and any(
        t is not None and torch_private.is_functorch_tensor(t) for t in tensors
    ):
        raise _refused(
            op,
            "inside a torch.func transform (vmap, grad, jvp, functionalize)",
            "call it outside the transform, with the batch as an axis of its own",
        )
    if torch_private.forward_ad._current_level >= 0 and any(
        t is not None and torch_private.forward_ad.unpack_dual(t).tangent is not None
        for t in tensors
    ):
        raise _refused(
            op,
            "with forward-mode tangents, which a kernel would drop",
            "unpack the dual tensors first, or use the torch function that the op stands for",
        )
    if torch_private.jit_tracing():
        raise _refused(
            op,
            "under torch.jit.trace, which would record one kernel's work instead of the op",
            "use torch.compile",
        )


def _refused(op: str, where: str, instead: str) -> SignatureError:
    return SignatureError(f"{op}: cannot be called {where}; {instead}", op=op)


def _plain(plan: Plan, name: str, tensor: Any) -> Any:
    """The tensor as torch's own class; a subclass that takes part in dispatch is refused."""
    if tensor is None or type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return tensor
    if torch_private.is_dispatch_subclass(tensor):
        kind = type(tensor).__name__
        raise SignatureError(
            f"{plan.op}: {name} is a {kind}, whose memory a kernel cannot read; pass the plain "
            "tensor that it wraps",
            op=plan.op,
            tensor=name,
            expected="torch.Tensor",
            actual=kind,
        )
    return tensor.as_subclass(torch.Tensor)


@contextmanager
def _surroundings(op: str, tensors: Tensors) -> Iterator[None]:
    """Outside of transforms that have no part in the call, autocast off (kernels do as the
    signature says), and a range for the profiler.
    """
    with ExitStack() as stack:
        if torch_private.functorch_level() is not None:
            stack.enter_context(torch_private.outside_transforms())
        if torch_private.autocast_on():
            for kind in {t.device.type for t in tensors if t is not None}:
                if kind != "meta" and torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
        if torch_private.profiling():
            stack.enter_context(torch.autograd.profiler.record_function(op))
        yield


def _fake_mode(tensors: Tensors) -> Any:
    """The fake mode that is active or that a tensor belongs to; None if neither."""
    for tensor in tensors:
        if tensor is not None and torch_private.is_fake(tensor):
            return tensor.fake_mode  # type: ignore[attr-defined]
    return torch_private.active_fake_mode() if torch_private.dispatch_modes() else None


def _checked_key(inputs: Tensors, out: torch.Tensor | None) -> Any:
    """A key of its own, so that what a checked call builds is kept but never hit."""
    return (
        "checked",
        *(
            None if x is None else (TensorSpec.of(x), x.stride(), x.is_neg(), x.is_conj())
            for x in (*inputs, out)
        ),
    )
