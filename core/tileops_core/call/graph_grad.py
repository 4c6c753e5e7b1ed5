"""The Autograd kernels of operators: what a graph knows of gradients that do not exist.

A formula that raised here would break the tracing of the forward pass, so the backward pass calls
an operator that raises when it is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tileops_core.call import torch_private
from tileops_core.call.compose import Tensors
from tileops_core.call.grad import (
    NoBackward,
    Written,
    needs_grad,
    no_out,
    refuse_tangents,
    told,
)
from tileops_core.call.torch_operators import Bound, no_backward
from tileops_core.call.writes import check_leaf, check_view
from tileops_core.errors import SignatureError

Fact = tuple[tuple[int, ...], torch.dtype, torch.device]


def _facts(tensors: tuple[Any, ...]) -> tuple[Fact | None, ...]:
    return tuple(
        (tuple(x.shape), x.dtype, x.device) if isinstance(x, torch.Tensor) else None
        for x in tensors
    )


def _gradients(ctx: Any, grads: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
    """A gradient for each tensor that needs one; whoever runs this graph runs into an error."""
    given = [g for g in grads if g is not None]
    needed = ctx.needs_input_grad[-len(ctx.facts) :]
    return tuple(
        no_backward()(ctx.op, given, *fact) if wanted and fact is not None else None
        for wanted, fact in zip(needed, ctx.facts, strict=True)
    )


class NoBackwardInGraph(NoBackward):
    """Like its base, where a graph may record the backward."""

    @staticmethod
    def forward(ctx: Any, name: str, run: Callable[[], Any], *tensors: Any) -> Any:
        """Run the call; ``tensors`` only tell autograd what the new outputs depend on."""
        ctx.facts = _facts(tensors)
        return NoBackward.forward(ctx, name, run, *tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Call what raises."""
        return (None, None, *_gradients(ctx, grads))


class WrittenInGraph(Written):
    """Like its base, where a graph may record the backward."""

    @staticmethod
    def forward(ctx: Any, name: str, tensor: torch.Tensor, *tensors: Any) -> torch.Tensor:
        """Mark ``tensor``, which was written already; it now depends on ``tensors``."""
        ctx.facts = _facts((tensor, *tensors))
        return Written.forward(ctx, name, tensor, *tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Call what raises."""
        return (None, *_gradients(ctx, grads))


def under_autograd(bound: Bound, key: str, inputs: Tensors, out: torch.Tensor | None) -> Any:
    """Run a call of an operator that autograd, or forward-mode differentiation, may watch.

    Raises:
        SignatureError: a tensor has a tangent, a transform wants the gradient, ``out`` was given,
            or a leaf that requires grad would be written.
    """
    plan = bound.plan
    tensors = (*inputs, out)
    refuse_tangents(plan.op, tensors)
    arguments = inputs if out is None else tensors
    if not needs_grad(tensors):
        return bound.torch.raw(key, *arguments)
    if torch_private.functorch_level() is not None:
        raise SignatureError(
            f"{plan.op}: cannot be called inside a torch.func transform that wants its gradient "
            "(grad, vjp, jacrev), because it has none; detach its inputs, or use the torch "
            "function that the op stands for",
            op=plan.op,
        )
    if out is not None:
        raise no_out(plan)
    by_name = zip(plan.signature.inputs, inputs, strict=True)
    written = [(t.name, x) for t, x in by_name if t.name in bound.branch.written and x is not None]
    for name, tensor in written:
        check_leaf(plan, name, tensor)
        check_view(plan, name, tensor)

    def run() -> Any:
        # What is written without grad mode is hidden from autograd, compilers think.
        with told(), torch.enable_grad():
            return bound.torch.raw(key, *arguments)

    result = NoBackwardInGraph.apply(plan.op, run, *inputs) if bound.fresh else run()  # type: ignore[no-untyped-call]
    depends = [x for x in inputs if x is not None and x.requires_grad]
    for _, tensor in written:
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            WrittenInGraph.apply(plan.op, tensor, *depends)  # type: ignore[no-untyped-call]
    return result
