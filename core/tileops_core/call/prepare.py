"""Select and build what a call needs, without making it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tileops_core.backend.targets import check_target
from tileops_core.call import dry
from tileops_core.call.binding import Entered, enter, leave
from tileops_core.call.compose import Tensors, effects_of
from tileops_core.call.emit_key import key_function
from tileops_core.call.frames import aside
from tileops_core.call.pipeline import (
    check_first,
    is_empty_write,
    make_route,
    served_by,
    unserved,
)
from tileops_core.call.presence import check_device_is_there
from tileops_core.call.resolve import choose_target, entry_for, resolve
from tileops_core.call.state import CalledOp
from tileops_core.call.writes import check_out
from tileops_core.kernels.call_spec import CallSpec
from tileops_core.kernels.tuning import is_pending
from tileops_core.record.signature_call import SignatureCall
from tileops_core.tensor_spec import TensorSpec


def prepare(op: CalledOp, specs: Sequence[Any]) -> None:
    """Prepare an op for calls with such tensors, all of them dense.

    Args:
        op: the instance.
        specs: a :class:`TensorSpec` per input in order, None for an absent one.

    Raises:
        SignatureError: a call with such tensors would be refused.
        BackendError: nobody serves it, or it cannot be built.
        TileOpsError: the op's body needs data to say what it needs.
    """
    checked = dry.check_specs(op._plan, specs)
    preparing = Preparing()
    with dry.stand_ins(op, checked) as inputs, dry.within(op, preparing):
        preparing.prepare(op, inputs, None)


class Preparing:
    """Builds in place of calling."""

    def call(self, op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> Any:
        """Prepare a sub-op; its result has no data."""
        with dry.within(op, self):
            return self.prepare(op, inputs, out, result=True)

    def kernel_for(self, op: CalledOp, entered: Entered, interface: str, call: CallSpec) -> Any:
        """Build the kernel; what stands for it does not run."""
        with aside():
            entered.chosen[interface], _ = entry_for(op, entered.binding, interface, call)
        return dry.unrunnable

    def prepare(
        self, op: CalledOp, inputs: Tensors, out: torch.Tensor | None, *, result: bool = False
    ) -> Any:
        """Check a call, choose who serves it, build, and keep the route that it will take."""
        plan, statics = op._plan, op._construction.statics
        facts = plan.check(statics, *inputs)
        outputs = plan.outputs(statics, facts)
        effects = effects_of(plan, plan.written(statics, facts), out is not None)
        if out is not None:
            check_out(plan, outputs, facts, out)

        def without_data() -> Any:
            return unserved(facts[0], outputs, effects, inputs, out) if result else None

        if facts[0].type == "meta" or is_empty_write(op, outputs, effects, inputs):
            check_target(plan.op, op._construction.target)
            return without_data()
        buffers = () if plan.signature.out_buffer is None else (out,)
        key = key_function(plan)(op, *inputs, *buffers)
        if op._binding.young.get(key) or op._binding.promote(key):
            return without_data()
        specs = tuple(None if x is None else TensorSpec.of(x) for x in inputs)
        entered = Entered(dry=self)
        try:
            enter(op, entered)
            check_device_is_there(op, facts[0], inputs)
            with aside():  # a builder may call ops, which then run
                choose_target(op, entered.binding, facts[0])
                server = resolve(op, entered, facts[0], specs)
            record = SignatureCall(plan, statics, specs, out is not None, server.credit.served)
            route = make_route(op, server, record, facts, outputs, effects, inputs)
            # A body that stopped at a kernel has not said what else it asks for; what a kernel
            # that is to be tuned computes with is not decided. Both are left to the call.
            lasts = not is_pending(server.holds)
            if server.is_body:
                frame = dry.frame_of(op)
                lasts &= dry.run_body(op, frame, entered.binding, inputs, out)
                route.record = SignatureCall(
                    plan, statics, specs, out is not None, served_by(entered)
                )
            if lasts:
                check_first(plan, route)
                entered.binding.keep(key, route)
        except BaseException:
            leave(op, entered, succeeded=False)
            raise
        leave(op, entered, succeeded=True)
        return without_data()
