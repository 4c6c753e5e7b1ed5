"""The code of an op class's call: of an op of its own, or of one that is made of others."""

from __future__ import annotations

from collections.abc import Sequence

from tileops_core.call import inside, reading, stages, torch_private
from tileops_core.call.emit_call import CallCode, CallEmitter, emit_call
from tileops_core.call.emit_operator import Hosts, OperatorEmitter
from tileops_core.call.torch_operators import Bound
from tileops_core.plan.model import Plan


def emit(plan: Plan, bound: Sequence[Bound] = (), hosts: Hosts | None = None) -> CallCode:
    """The generated functions of an op class.

    Args:
        plan: the op's plan.
        bound: its operators, if it has some.
        hosts: whom their keys stand for.
    """
    return emit_call(plan, bound, hosts, CompositeEmitter(plan) if plan.composite else None)


class CompositeEmitter(CallEmitter):
    """Writes a composite's ``__call__``, which opens a frame, and its node body.

    Traced, a composite is its ``forward``: its sub-ops are what the graph shows, and its own checks
    are made while dynamo reads. One that a target serves whole is no code to be traced, and stands
    between the graphs.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.writer.use("_composite", inside.composite)
        self.writer.use("_filed", stages.filed)

    def _record(self) -> str:
        given = ", ".join(f"{name!r}: {name}" for name in self.plan.metadata)
        return f"_filed(self, _route.record, {{{given}}})"

    def emit_call(self, operators: OperatorEmitter | None = None) -> None:
        """Write ``__call__``; a composite has no operators."""
        w = self.writer
        with w.block(f"def __call__({self._arguments()}):"):
            w.line(f'"""Call {self.plan.op}; see the class."""')
            with w.block("if _compiling():"):
                w.line(f"return traced({', '.join(['self', *self._names])})")
            w.line(f"return _composite(self, {self._rest()})")

    def emit_untraced(self) -> None:
        """Write what dynamo reads: the body, unless somebody serves the composite whole."""
        w = self.writer
        plain = [f"{t.name}={t.name}" if t.kw_only else t.name for t in self.signature.inputs]
        reads = torch_private.can_read_ahead()
        with w.block(f"def traced({', '.join(['self', *self._names])}):"):
            # Not of the binding: as long as that is the unbound one, which composites share, dynamo
            # guards that they do, and an eager call would make every graph a new one.
            with w.block("if self._running.whole:"):
                w.line(f"return _composite(self, {self._rest()})")
            if reads:
                w.use("_before", reading.before_body)
                w.use("_checked", reading.checked)
                w.use("_while_read", torch_private.while_read)
                w.line("_while_read(_before)")
            call = f"_result = self.forward({', '.join(plain)})"
            if self.takes_out:
                with w.block("if out is None:"):
                    w.line(call)
                with w.block("else:"):
                    w.line(f"_result = self.forward({', '.join([*plain, 'out=out'])})")
            else:
                w.line(call)
            # By a call, so that all it looks at is still there if the body breaks the graph.
            out = "out" if self.takes_out else "None"
            result = f"_checked(self, {self._inputs()}, {out}, _result)" if reads else "_result"
            w.line(f"return {result}")
