"""What happens while dynamo reads a composite op's call, before and after it reads the body.

The graph will show the sub-ops only. So the composite's own checks are made here, on the tensors
that stand for the call's and its result (the comparisons become guards of the graph), and the
sub-ops that the body is going to ask for are held, because dynamo cannot read how an op comes to
be.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from tileops_core.backend.targets import BUILTIN
from tileops_core.call import dry, torch_private
from tileops_core.call.admit import admit
from tileops_core.call.binding import Entered
from tileops_core.call.compose import Tensors, effects_of
from tileops_core.call.frames import Frame, top
from tileops_core.call.pipeline import unserved
from tileops_core.call.results import verify_without_data
from tileops_core.call.routes import Blamed
from tileops_core.call.stages import not_held
from tileops_core.call.state import CalledOp
from tileops_core.call.writes import check_out
from tileops_core.errors import TileOpsError
from tileops_core.kernels.call_spec import CallSpec
from tileops_core.tensor_spec import TensorSpec


def before_body(context: Any) -> None:
    """Check a call that dynamo reads, and hold its sub-ops.

    Args:
        context: dynamo's view of the frame of ``traced``, the generated function.

    Raises:
        TorchRuntimeError: dynamo's error, with the words of ours: the call is refused.
        RestartAnalysis: dynamo's: it may have looked at what was held before. It starts anew.
    """
    if not torch_private.is_readable(context):
        return
    op: CalledOp = torch_private.read_local(context, "self")
    names = [t.name for t in op._plan.signature.inputs]
    inputs = tuple(torch_private.read_local(context, name) for name in names)
    takes_out = op._plan.signature.out_buffer is not None
    out = torch_private.read_local(context, "out") if takes_out else None
    try:
        _check(op, inputs, out)
        if _hold(op, inputs, out):
            # Who is held for the call is part of what dynamo guards, and equal ops share a graph.
            for equal in _equals(op):
                _hold(equal, inputs, out)
            torch_private.read_again(f"{op._plan.op} holds what it did not hold before")
    except TileOpsError as error:
        torch_private.refuse_graph(error)


def checked(self: CalledOp, inputs: Tensors, out: torch.Tensor | None, result: Any) -> Any:
    """The result of a body, which is checked while dynamo reads this."""
    torch_private.while_read(_after_body)
    return result


def _after_body(context: Any) -> None:
    """Check what the body returned.

    Args:
        context: dynamo's view of the frame of :func:`checked`.

    Raises:
        TorchRuntimeError: dynamo's error, with the words of ours: the result is refused.
    """
    if not torch_private.is_readable(context):
        return
    op, inputs, out, result = (
        torch_private.read_local(context, name) for name in ("self", "inputs", "out", "result")
    )
    plan, statics = op._plan, op._construction.statics
    facts = plan.check(statics, *inputs)
    expected = plan.outputs(statics, facts)
    effects = effects_of(plan, plan.written(statics, facts), out is not None)
    kept = [
        None if alias is None else out if alias == "out" else inputs[int(alias)]
        for alias in effects.aliases
    ]
    target = op._construction.target
    blamed = Blamed(str(BUILTIN if target is None else target))
    try:
        verify_without_data(plan, blamed, facts[0], expected, inputs, kept, result)
    except TileOpsError as error:
        torch_private.refuse_graph(error)


def _equals(op: CalledOp) -> list[CalledOp]:
    """The other living ops with the same key."""
    equals = getattr(op._construction.anchor, "equals", None) or {}
    return [equal for equal in list(equals.values()) if equal is not op]


def _check(op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> None:
    plan, statics = op._plan, op._construction.statics
    admit(plan, inputs, out)
    facts = plan.check(statics, *inputs)
    if out is not None:
        check_out(plan, plan.outputs(statics, facts), facts, out)


def _hold(op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> bool:
    """Hold what a call's body will ask for, and tell whether any of it is new to dynamo.

    A body that needs data holds what it does before that.

    Raises:
        TileOpsError: the body calls an op that it does not hold.
    """
    specs = [_spec(x) for x in (*inputs, out)]
    if any(spec is None for spec, x in zip(specs, (*inputs, out), strict=True) if x is not None):
        return _link(op)
    # Whatever else fails, dynamo meets it next, in the body, and tells it with the line.
    holding = Holding()
    with suppress(Exception), torch_private.ordinary_state(), dry.stand_ins(op, specs) as given:
        holding.call(op, given[:-1], given[-1])
    if holding.refused is not None:
        raise holding.refused
    return _link(op)


def _spec(tensor: torch.Tensor | None) -> TensorSpec | None:
    """The type of a tensor as it is in the call that dynamo has at hand; asks for no guard."""
    if tensor is None:
        return None
    sizes = [torch_private.size_at_hand(size) for size in tensor.shape]
    known = tuple(size for size in sizes if size is not None)
    return TensorSpec(tensor.device, tensor.dtype, known) if len(known) == len(sizes) else None


def _link(op: Any) -> bool:
    held: Sequence[Any] = op.held_delegates()
    new: list[bool] = [op._running.delegates.link(), *map(_link, held)]
    return any(new)


class Holding:
    """Runs the bodies of composites for what they hold; selects and builds nothing.

    Attributes:
        refused: the error of a body that has called an op which it does not hold.
    """

    def __init__(self) -> None:
        self.refused: TileOpsError | None = None

    def call(self, op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> Any:
        """Hold what a composite's body asks for; the result has no data."""
        body = top()
        if body is not None and body.dry is self and body.collecting:
            holder = body.op
            if holder._running.delegates.stage_of(op) is None:
                self.refused = not_held(holder, op)
                raise self.refused
        with dry.within(op, self) as frame:
            return self._hold(op, frame, inputs, out)

    def kernel_for(self, op: CalledOp, entered: Entered, interface: str, call: CallSpec) -> Any:
        """Stands for the kernel."""
        return dry.unrunnable

    def _hold(self, op: CalledOp, frame: Frame, inputs: Tensors, out: torch.Tensor | None) -> Any:
        plan, statics = op._plan, op._construction.statics
        facts = plan.check(statics, *inputs)
        outputs = plan.outputs(statics, facts)
        effects = effects_of(plan, plan.written(statics, facts), out is not None)
        if plan.composite and op._binding.builder is None and not _runs_strangers_code(op):
            dry.run_body(op, frame, op._binding, inputs, out)
        return unserved(facts[0], outputs, effects, inputs, out)


def _runs_strangers_code(op: Any) -> bool:
    """Whether the body calls objects given at construction that are no ops.

    They may talk to other processes, which do not expect a call that is none.
    """
    given = [getattr(op, name) for name in op.injected_parameters]
    return any(value is not None and not hasattr(value, "held_delegates") for value in given)
