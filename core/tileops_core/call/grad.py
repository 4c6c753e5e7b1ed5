"""Calls whose result would need a gradient: the forward works, the backward says why it cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tileops_core.call import torch_private
from tileops_core.call.compose import Tensors
from tileops_core.call.state import CalledOp
from tileops_core.call.writes import check_view, check_written
from tileops_core.errors import SignatureError
from tileops_core.plan.model import Plan
from tileops_core.spec.catalogue import known_ops


def refuse(op: str) -> NotImplementedError:
    """The error of a backward: the library has no gradient for a forward op."""
    backward_op = op.replace("FwdOp", "BwdOp")
    hint = (
        f"compute it with {backward_op}"
        if backward_op != op and backward_op in known_ops()
        else "call the op under torch.no_grad() or on detached inputs, or use the torch "
        "function that it stands for"
    )
    return NotImplementedError(
        f"{op} has no gradient: it computes a forward pass for inference; {hint}"
    )


class NoBackward(torch.autograd.Function):
    """Runs a call below autograd; its outputs require grad, and their backward raises."""

    @staticmethod
    def forward(ctx: Any, name: str, run: Callable[[], Any], *tensors: Any) -> Any:
        """Run the call; ``tensors`` only tell autograd what the new outputs depend on."""
        ctx.op = name
        return _marked(ctx, run())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Refuse."""
        raise refuse(ctx.op)


class NodeBelow(NoBackward):
    """Runs the node of an op that writes nothing below autograd."""

    @staticmethod
    def forward(ctx: Any, op: CalledOp, *inputs: Any) -> Any:  # type: ignore[override]
        """Run the node."""
        ctx.op = op._plan.op
        return _marked(ctx, op._node(*inputs))


class Written(torch.autograd.Function):
    """Tells autograd that a call wrote a tensor, so that its backward raises too.

    One node for each: autograd follows a write into a view only where it is a node's one output.
    """

    @staticmethod
    def forward(ctx: Any, name: str, tensor: torch.Tensor, *tensors: Any) -> torch.Tensor:
        """Mark ``tensor``, which was written already; it now depends on ``tensors``."""
        ctx.op = name
        ctx.mark_dirty(tensor)
        return tensor

    backward = NoBackward.backward


def _marked(ctx: Any, result: Any) -> Any:
    """A call's result; what of it can have no gradient is said to be so."""
    if isinstance(result, tuple):
        result = parts = tuple(map(_own, result))
    else:
        result = _own(result)
        parts = (result,)
    fixed = [r for r in parts if isinstance(r, torch.Tensor) and not _differentiable(r)]
    if fixed:
        ctx.mark_non_differentiable(*fixed)
    return result


def _own(value: Any) -> Any:
    """A result that is no view for autograd, which forbids to change one that came this way.

    A kernel may return a view of memory that it made itself: for the caller it is a new tensor.
    """
    return value.detach() if isinstance(value, torch.Tensor) and value._is_view() else value


def _differentiable(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


class _PerThread(threading.local):
    told: bool = False


_THREAD = _PerThread()


@contextmanager
def told() -> Iterator[None]:
    """Inside, autograd knows of the call already, whatever grad mode says."""
    before, _THREAD.told = _THREAD.told, True
    try:
        yield
    finally:
        _THREAD.told = before


def needs_grad(tensors: Tensors) -> bool:
    """Whether autograd would want to know of a call with these tensors."""
    return (
        torch.is_grad_enabled()
        and any(t is not None and t.requires_grad for t in tensors)
        and not _THREAD.told
    )


def no_out(plan: Plan) -> SignatureError:
    """The error of ``out=`` beside an input that requires grad."""
    return SignatureError(
        f"{plan.op}: out= does not work with inputs that require grad; call under "
        "torch.no_grad(), or without out=",
        op=plan.op,
        tensor="out",
    )


def refuse_tangents(op: str, tensors: Tensors) -> None:
    """Refuse tensors that carry a forward-mode tangent: a kernel would drop it without a word.

    Raises:
        SignatureError: one does.
    """
    if torch_private.forward_ad._current_level >= 0 and any(
        t is not None and torch_private.has_tangent(t) for t in tensors
    ):
        raise SignatureError(
            f"{op}: cannot be called with forward-mode tangents (torch.func.jvp, "
            "torch.autograd.forward_ad), which a kernel would drop; unpack the dual tensors first, "
            "or use the torch function that the op stands for",
            op=op,
        )


def run_node(op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> Any:
    """Run the generated body on plain tensors, without asking whether they are."""
    if op._plan.signature.out_buffer is None:
        return op._node(*inputs)
    return op._node(*inputs, out)


def node_with_grad(op: CalledOp, inputs: Tensors, out: torch.Tensor | None = None) -> Any:
    """Run a call that is plain but for an input that requires grad."""
    return run_with_grad(op, lambda: run_node(op, inputs, out), inputs, out)


_apply_below = torch_private.plain_apply(NodeBelow)


def pure_with_grad(op: CalledOp, inputs: Tensors) -> Any:
    """The same for an op that never writes."""
    for tensor in inputs:
        if tensor is not None and torch_private.is_functorch_tensor(tensor):
            return NodeBelow.apply(op, *inputs)  # type: ignore[no-untyped-call]
    return _apply_below(op, *inputs)


def run_with_grad(
    op: CalledOp, run: Callable[[], Any], inputs: Tensors, out: torch.Tensor | None
) -> Any:
    """Run a call of which autograd has to know.

    Raises:
        SignatureError: ``out`` was given, or a leaf that requires grad would be written.
    """
    plan = op._plan
    if out is not None:
        raise no_out(plan)
    if not plan.may_write:
        return NoBackward.apply(plan.op, run, *inputs)  # type: ignore[no-untyped-call]
    statics = op._construction.statics
    names = plan.written(statics, plan.check(statics, *inputs))
    written = [
        (t.name, x)
        for t, x in zip(plan.signature.inputs, inputs, strict=True)
        if t.name in names and x is not None
    ]
    check_written(plan, written, [])
    for name, tensor in written:
        check_view(plan, name, tensor)
    return _run_writing(plan, run, [x for _, x in written], inputs)


def _run_writing(
    plan: Plan, run: Callable[[], Any], written: Sequence[torch.Tensor], inputs: Tensors
) -> Any:
    """Run a call that writes inputs; they and its new outputs get the history of a call."""
    depends = [x for x in inputs if x is not None and x.requires_grad]
    outputs: tuple[Any, ...] = ()

    def is_written(tensor: object) -> bool:
        return any(tensor is w for w in written)

    def run_for_new() -> tuple[Any, ...]:
        nonlocal outputs
        result = run()
        outputs = result if isinstance(result, tuple) else (result,)
        return tuple(r for r in outputs if r is not None and not is_written(r))

    new = iter(NoBackward.apply(plan.op, run_for_new, *inputs))  # type: ignore[no-untyped-call]
    results = tuple(r if r is None or is_written(r) else next(new) for r in outputs)
    for tensor in filter(_differentiable, written):
        Written.apply(plan.op, tensor, *depends)  # type: ignore[no-untyped-call]
    return results[0] if len(results) == 1 else results
