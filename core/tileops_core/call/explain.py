"""Who would serve a call and why, and why not the others; nothing is built and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch

from tileops_core.backend.order import backend_order
from tileops_core.backend.targets import Builtin
from tileops_core.call import dry
from tileops_core.call.binding import Entered, enter, leave
from tileops_core.call.compose import Tensors, effects_of
from tileops_core.call.frames import aside
from tileops_core.call.pipeline import is_empty_write, unserved
from tileops_core.call.resolve import select
from tileops_core.call.state import CalledOp
from tileops_core.errors import TileOpsError
from tileops_core.kernels.call_spec import CallSpec
from tileops_core.kernels.dispatch import Decision, decide
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.tensor_spec import TensorSpec


@attrs.define
class Told:
    """What is known of one call.

    Attributes:
        op: the instance.
        record: what the call would leave.
        stage: where a composite holds the op.
        target: who serves it; None where nobody has to, or nobody does.
        builder: the backend that builds for that target, if one does.
        reasons: how it came to this target, a sentence each.
        decisions: which kernel type each question of the op's leads to.
        complete: the op's body was seen to its end.
        error: why it would fail.
        inner: the calls of the op's sub-ops.
    """

    op: Any
    record: SignatureCall
    stage: str | None = None
    target: str | Builtin | None = None
    builder: str | None = None
    reasons: tuple[str, ...] = ()
    decisions: list[Decision] = attrs.field(factory=list)
    complete: bool = True
    error: str | None = None
    inner: list[Told] = attrs.field(factory=list)


def explain(op: Any, specs: Sequence[Any], facts: Mapping[str, int] | None = None) -> Told:
    """Find out who would serve a call.

    Args:
        op: the instance; who serves it stays open.
        specs: a :class:`TensorSpec` per input in order, None for an absent one.
        facts: facts of the call's device, to ask about one that is not here.

    Raises:
        SignatureError: such a call would be refused.
    """
    explaining = Explaining(facts or {})
    with dry.stand_ins(op, dry.check_specs(op._plan, specs)) as inputs:
        explaining.call(op, inputs, None)
    return explaining.first


class Explaining:
    """Tells in place of calling."""

    def __init__(self, facts: Mapping[str, int]) -> None:
        self._facts = facts
        self._told: list[Told] = []
        self._backend: list[str | None] = []
        self.first: Told

    def kernel_for(self, op: CalledOp, entered: Entered, interface: str, call: CallSpec) -> Any:
        """Keep the decision; what stands for the kernel does not run."""
        with aside():
            self._decide(op, interface, call)
        return dry.unrunnable

    def call(self, op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> Any:
        """Tell of a call; its result has no data."""
        plan, statics = op._plan, op._construction.statics
        facts = plan.check(statics, *inputs)
        outputs = plan.outputs(statics, facts)
        effects = effects_of(plan, plan.written(statics, facts), out is not None)
        specs = tuple(None if x is None else TensorSpec.of(x) for x in inputs)
        told = Told(op, SignatureCall(plan, statics, specs, out is not None, Served(None)))
        if self._told:
            outer = self._told[-1]
            outer.inner.append(told)
            told.stage = outer.op._running.delegates.stage_of(op)
        else:
            self.first = told
        if facts[0].type == "meta" or is_empty_write(op, outputs, effects, inputs):
            told.reasons = ("there is no data to compute, so nobody has to run",)
        else:
            self._told.append(told)
            self._backend.append(None)
            with dry.within(op, self) as frame:
                try:
                    self._serve(op, told, facts[0], specs, frame, inputs, out)
                except TileOpsError as error:
                    told.error = str(error)
                finally:
                    self._told.pop()
                    self._backend.pop()
        return unserved(facts[0], outputs, effects, inputs, out) if self._told else None

    def _serve(
        self,
        op: CalledOp,
        told: Told,
        device: torch.device,
        specs: tuple[TensorSpec | None, ...],
        frame: Any,
        inputs: Tensors,
        out: torch.Tensor | None,
    ) -> None:
        entered = Entered(dry=self)
        try:
            enter(op, entered)
            with aside():
                selection = select(op, device)
            told.target, told.reasons = selection.name, selection.reasons
            if selection.builder is not None:
                told.builder = selection.builder.backend
                return
            self._backend[-1] = selection.backend
            if op._writes_call_spec:
                ((interface, _),) = op._construction.installed.interfaces.items()
                with aside():
                    self._decide(op, interface, op.call_spec(*specs))
            else:
                told.complete = dry.run_body(op, frame, entered.binding, inputs, out)
        finally:
            leave(op, entered, succeeded=False)

    def _decide(self, op: CalledOp, interface: str, call: CallSpec) -> None:
        name = op._plan.op
        call = call.stating(**self._facts) if self._facts else call
        decision = decide(
            op._construction.installed,
            name,
            interface,
            call,
            backend=self._backend[-1],
            order=backend_order(name),
        )
        self._told[-1].decisions.append(decision)
        decision.require()
