"""Calls that are not plain: odd tensors, modes and transforms, autograd, autocast, checking.

Where torch, or somebody's code inside torch, wants to see the call, it goes through the op's
operator. The rest is brought back to the ordinary road.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from tileops_core.call import checking, torch_private
from tileops_core.call.admit import admit
from tileops_core.call.callers import calling
from tileops_core.call.compose import Tensors
from tileops_core.call.grad import needs_grad, refuse_tangents, run_node, run_with_grad
from tileops_core.call.metadata import check_metadata
from tileops_core.call.pipeline import miss, remember
from tileops_core.call.resolve import select
from tileops_core.call.state import CalledOp
from tileops_core.errors import SignatureError, TileOpsError
from tileops_core.plan.model import Plan
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.tensor_spec import TensorSpec


def unusual(op: CalledOp, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """Run a call that the predicate of the generated code sent away.

    Args:
        op: the instance.
        inputs: whatever the caller passed, in the signature's order.
        out: the caller's buffer, if the op takes one.
    """
    plan = op._plan
    if torch_private.fx_trace._is_fx_tracing_flag and torch_private.has_fx_proxy((*inputs, out)):
        return _through_operator(op, inputs, out)
    with torch_private.no_torch_function():
        admit(plan, inputs, out)
    given = tuple(x for x in (*inputs, out) if x is not None)
    if has_torch_function(given):
        positional, named = _as_called(plan, inputs, out)
        return handle_torch_function(op, given, *positional, **named)  # type: ignore[arg-type]
    if _is_watched(given):
        return _watched(op, inputs, out)
    refuse_tangents(plan.op, given)
    replaced: list[tuple[torch.Tensor, torch.Tensor]] = []

    def plain(tensor: Any) -> Any:
        mine = _plain(tensor)
        if mine is not tensor:
            replaced.append((mine, tensor))
        return mine

    inputs, out = tuple(map(plain, inputs)), plain(out)

    def run() -> Any:
        return _checked(op, inputs, out)

    with _without_autocast(given):
        if needs_grad((*inputs, out)):
            result = run_with_grad(op, run, inputs, out)
        else:
            result = run()
    return _callers(result, replaced) if replaced else result


def odd_node(op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> Any:
    """Run what an operator stands for, where grad mode, autocast, checks or a subclass are on."""
    given = tuple(x for x in (*inputs, out) if x is not None)
    refuse_tangents(op._plan.op, given)

    def run() -> Any:
        return _checked(op, tuple(map(_plain, inputs)), _plain(out))

    with _without_autocast(given):
        if needs_grad((*inputs, out)):
            # Only where a graph was taken apart and calls what lies below autograd.
            return run_with_grad(op, run, inputs, out)
        with torch.no_grad():
            return run()


def _checked(op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> Any:
    """Run the node on plain tensors, with what this thread checks on top."""
    checks = checking.active()
    if checks.metadata and not _is_meta(inputs):
        check_metadata(op._plan, op._construction.statics, inputs)
    if checks.purity:
        return miss(op, _checked_key(inputs, out), tuple(inputs), out)
    return run_node(op, inputs, out)


# -- through the operator -----------------------------------------------------------------


def _is_watched(tensors: Tensors) -> bool:
    """Whether torch's dispatcher has to see the call."""
    return (
        bool(torch_private.dispatch_modes())
        or torch_private.functorch_level() is not None
        or torch_private.jit_tracing()
        or torch_private.profiling()
        or torch_private.fx_trace._is_fx_tracing_flag
        or any(t is not None and torch_private.is_dispatch_subclass(t) for t in tensors)
    )


def _watched(op: CalledOp, inputs: tuple[Any, ...], out: Any) -> Any:
    """Run the operator; real tensors in a fake mode become fake, as nobody may compute there."""
    fake = torch_private.active_fake_mode() if torch_private.dispatch_modes() else None
    if fake is None or torch_private.graph_is_recorded():
        return _through_operator(op, inputs, out)
    mine: list[Any] = [
        x if x is None or getattr(x, "fake_mode", None) is fake else fake.from_tensor(x)
        for x in (*inputs, out)
    ]
    replaced = [(m, x) for m, x in zip(mine, (*inputs, out), strict=True) if m is not x]
    return _callers(_through_operator(op, tuple(mine[:-1]), mine[-1]), replaced)


def _through_operator(op: CalledOp, inputs: tuple[Any, ...], out: Any) -> Any:
    """Run the op's operator on this instance; a call without data leaves a record too."""
    if op._plan.composite and (_is_taken_apart() or _computes_itself(op, inputs)):
        return _through_body(op, inputs, out)
    if not op.compile_op_names:
        if torch_private.active_fake_mode() is None:
            return _checked(op, inputs, out)
        if torch_private.graph_is_recorded() and not op._plan.composite:
            return _constant(op)
        return miss(op, None, inputs, out, shapes_only=True)
    with calling(op) as caller:
        rest = () if op._plan.signature.out_buffer is None else (out,)
        try:
            result = op._traced(*inputs, *rest)
        except RuntimeError as error:
            if caller.ran or not torch_private.functionalizing() or not op._plan.may_write:
                raise
            raise SignatureError(
                f"{op._plan.op}: a call that writes cannot be made inside torch.func.functionalize;"
                " call it outside, or the op that does not write",
                op=op._plan.op,
            ) from error
    if not caller.ran:
        _note_call(op, inputs, out)
    return result


def _note_call(op: CalledOp, inputs: tuple[Any, ...], out: Any) -> None:
    """Leave the record of a call that no kernel of this instance has run."""
    if all(x is None or isinstance(x, torch.Tensor) for x in inputs):
        specs = tuple(None if x is None else TensorSpec.of(x) for x in inputs)
        statics, has_out = op._construction.statics, out is not None
        remember(op, SignatureCall(op._plan, statics, specs, has_out, Served(None)), inputs)


def _constant(op: CalledOp) -> Any:
    """What an op without inputs gives, as a constant of the graph that is recorded.

    Its shape alone would become memory that nobody fills.
    """
    with torch_private.ordinary_state():
        result = _checked(op, (), None)
    lift: Any = torch.ops.aten.lift_fresh_copy.default
    return tuple(map(lift, result)) if isinstance(result, tuple) else lift(result)


def _is_taken_apart() -> bool:
    """Whether somebody records what is computed, or transforms it."""
    return (
        torch_private.graph_is_recorded()
        or torch_private.functorch_level() is not None
        or torch_private.fx_trace._is_fx_tracing_flag
        or torch_private.jit_tracing()
    )


def _computes_itself(op: CalledOp, inputs: tuple[Any, ...]) -> bool:
    """Whether a subclass among the inputs computes in its own way what a composite's body asks.

    A target that serves the composite whole gets the tensors as they are.
    """
    wrapped = [
        x
        for x in inputs
        if isinstance(x, torch.Tensor)
        and torch_private.is_dispatch_subclass(x)
        and not torch_private.is_fake(x)
    ]
    if not wrapped:
        return False
    if op._binding.target is not None:
        return op._binding.builder is None
    return select(op, wrapped[0].device).builder is None


def _through_body(op: CalledOp, inputs: tuple[Any, ...], out: Any) -> Any:
    """Run a composite's body, so that its sub-ops' operators are what is recorded or transformed.

    Raises:
        TileOpsError: a target serves the composite whole, and has no operator for it; or the body
            reads sizes, and whoever records gives none.
    """
    plan = op._plan
    if op._binding.builder is not None:
        raise TileOpsError(
            f"{plan.op}: target {op._binding.target!r} serves it whole, and a composite op has no "
            "operator that a recorded graph or a transform could hold; construct it with "
            "target='reference' or another target that leaves it to its sub-ops"
        )
    positional, named = _as_called(plan, inputs, out)
    proxies = torch_private.has_fx_proxy((*inputs, out))
    if not proxies:
        with torch_private.not_recorded_by_jit():
            plan.check(op._construction.statics, *inputs)
    try:
        result = op.forward(*positional, **named)
    except Exception as error:
        if not proxies and not torch_private.jit_tracing():
            raise
        raise _needs_sizes(plan, proxies=proxies, error=error) from error
    _note_call(op, inputs, out)
    return result


def _needs_sizes(plan: Plan, *, proxies: bool, error: BaseException) -> TileOpsError:
    tracer = "torch.fx.symbolic_trace" if proxies else "torch.jit.trace"
    stand_ins = "proxies" if proxies else "tensors"
    while isinstance(error, TileOpsError) and error.__cause__ is not None:  # of a sub-op's body
        error = error.__cause__
    return TileOpsError(
        f"{plan.op}: {tracer} runs the body of a composite op with {stand_ins} in place of "
        "sizes, and this body needs numbers; record the model with "
        f"torch.export or torch.compile ({type(error).__name__}: {error})"
    )


# -- pieces -------------------------------------------------------------------------------


def _plain(tensor: Any) -> Any:
    """The tensor as one of torch's own classes, over the same memory."""
    if tensor is None or type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return tensor
    return tensor.as_subclass(torch.Tensor)


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


@contextmanager
def _without_autocast(tensors: Tensors) -> Iterator[None]:
    """Kernels do as the signature says, whatever autocast would make of them."""
    with ExitStack() as stack:
        if torch_private.autocast_on():
            for kind in {t.device.type for t in tensors if t is not None}:
                if kind != "meta" and torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _is_meta(tensors: Tensors) -> bool:
    return any(x is not None and x.device.type == "meta" for x in tensors)


def _checked_key(inputs: Tensors, out: torch.Tensor | None) -> Any:
    """A key of its own, so that what a checked call builds is kept but never hit."""
    return (
        "checked",
        *(
            None if x is None else (TensorSpec.of(x), x.stride(), x.is_neg(), x.is_conj())
            for x in (*inputs, out)
        ),
    )
