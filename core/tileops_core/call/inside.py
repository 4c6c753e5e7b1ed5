"""Calls of composite ops, and all calls that are made while one runs somewhere.

A call that begins inside a composite's body is reported to it when it completes. Other threads'
calls take this way as well for the time being, and come back to the ordinary road at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import has_torch_function

from tileops_core.call import checking, modes
from tileops_core.call.admit import admit
from tileops_core.call.binding import claim, release, use
from tileops_core.call.dry import Dry
from tileops_core.call.frames import FRAMES, Frame, drop_stack, stack_of_thread, top
from tileops_core.call.grad import needs_grad, node_with_grad, run_node
from tileops_core.call.state import CalledOp
from tileops_core.call.torch_private import (
    autocast_on,
    dispatch_modes,
    forward_ad,
    functorch_level,
    fx_trace,
    jit_tracing,
    not_traced,
    profiling,
)
from tileops_core.record.table import own

Inputs = tuple[Any, ...]
_UNCHECKED = checking.Checks()


def unusual(op: CalledOp, inputs: Inputs, out: Any = None) -> Any:
    """Run a call that the predicate of the generated code sent away.

    Args:
        op: the instance.
        inputs: whatever the caller passed, in the signature's order.
        out: the caller's buffer, if the op takes one.
    """
    if not FRAMES:
        return modes.unusual(op, inputs, out)
    frame = top()
    if frame is not None and frame.dry is not None:
        return _dry(op, frame.dry, inputs, out)
    plain = _is_plain(op, inputs, out)
    if not plain and has_torch_function(_given(inputs, out)):
        # A subclass's own code comes first, and calls the op again with what it makes of it.
        return modes.unusual(op, inputs, out)
    if frame is None:
        return _held(op, inputs, out, plain)
    return _in_frame(op, inputs, out, plain)


def composite(op: CalledOp, inputs: Inputs, out: Any = None) -> Any:
    """Run a call of a composite op; the arguments are those of :func:`unusual`."""
    frame = top()
    if frame is not None and frame.dry is not None:
        return _dry(op, frame.dry, inputs, out)
    plain = _is_plain(op, inputs, out)
    if not plain and has_torch_function(_given(inputs, out)):
        return modes.unusual(op, inputs, out)
    return _in_frame(op, inputs, out, plain)


not_traced(composite)


def _dry(op: CalledOp, dry: Dry, inputs: Inputs, out: Any) -> Any:
    """Do what is done here in place of running calls."""
    admit(op._plan, inputs, out)
    return dry.call(op, inputs, out)


def _in_frame(op: CalledOp, inputs: Inputs, out: Any, plain: bool) -> Any:
    """Run a call on this thread's stack, and report it to the body that it belongs to."""
    stack = stack_of_thread()
    depth = len(stack)
    outer = stack[-1] if stack else None
    try:
        stack.append(Frame(op))
        result = _held(op, inputs, out, plain)
        if outer is not None and outer.collecting:
            outer.completed.append((op, own(op._running.last)))
        return result
    finally:
        # First, and by no call of Python's: an interrupt may come at the next one.
        del stack[depth:]
        if not depth:
            drop_stack()


def _held(op: CalledOp, inputs: Inputs, out: Any, plain: bool) -> Any:
    """Run a call; a binding that somebody may take back stays until it has ended."""
    binding = op._binding
    claimed = not binding.settled and claim(binding)
    try:
        result = _road(op, inputs, out, plain)
        used = op._binding
        if not used.settled:
            use(op, used)
        return result
    finally:
        if claimed:
            release(op, binding)


def _road(op: CalledOp, inputs: Inputs, out: Any, plain: bool) -> Any:
    if not plain:
        return modes.unusual(op, inputs, out)
    if needs_grad((*inputs, out)):
        return node_with_grad(op, inputs, out)
    return run_node(op, inputs, out)


def _is_plain(op: CalledOp, inputs: Inputs, out: Any) -> bool:
    """Whether the generated road would take the call if nobody were watching."""
    for declared, given in zip(op._plan.signature.inputs, inputs, strict=True):
        if not (_is_tensor(given) or (given is None and declared.optional is not False)):
            return False
    return not (
        (out is not None and not _is_tensor(out))
        or dispatch_modes()
        or functorch_level() is not None
        or autocast_on()
        or jit_tracing()
        or profiling()
        or fx_trace._is_fx_tracing_flag
        or forward_ad._current_level >= 0
        or checking.active() != _UNCHECKED
    )


def _is_tensor(given: object) -> bool:
    return type(given) is torch.Tensor or type(given) is torch.nn.Parameter


def _given(inputs: Inputs, out: Any) -> Inputs:
    return tuple(x for x in (*inputs, out) if x is not None)
