"""The code of an op class's call: of an op of its own, or of one that is made of others."""

from __future__ import annotations

from types import FunctionType

import torch

from tileops_core.call import inside, stages, torch_private
from tileops_core.call.emit_call import CallEmitter
from tileops_core.plan.model import Plan
from tileops_core.plan.source import compile_source


def emit(plan: Plan) -> tuple[FunctionType, FunctionType, str]:
    """``__call__`` and node body of an op class, and their source."""
    return (CompositeEmitter if plan.composite else CallEmitter)(plan).emit()


class CompositeEmitter(CallEmitter):
    """Writes a composite's ``__call__``, which opens a frame, and its node body.

    Traced, a composite is its ``forward`` and runs no check: its sub-ops are what the graph shows.
    One that a target serves whole is no code to be traced, and stands between the graphs.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.writer.use("_tracing", torch.compiler.is_dynamo_compiling)
        self.writer.use("_composite", inside.composite)
        self.writer.use("_filed", stages.filed)

    def _record(self) -> str:
        given = ", ".join(f"{name!r}: {name}" for name in self.plan.metadata)
        return f"_filed(self, _route.record, {{{given}}})"

    def _forward(self) -> None:
        w = self.writer
        arguments = [f"{t.name}={t.name}" if t.kw_only else t.name for t in self.signature.inputs]
        plain = ", ".join(arguments)
        if self.takes_out:
            with w.block("if out is not None:"):
                w.line(f"return self.forward({', '.join([*arguments, 'out=out'])})")
        w.line(f"return self.forward({plain})")

    def emit(self) -> tuple[FunctionType, FunctionType, str]:
        """``__call__``, the node body, and their source."""
        w = self.writer
        with w.block(f"def __call__({self._arguments()}):"):
            w.line(f'"""Call {self.plan.op}; see the class."""')
            with w.block("if _tracing() and self._binding.builder is None:"):
                self._forward()
            w.line(f"return _composite(self, {self._rest()})")
        w.line("")
        with w.block(f"def node({', '.join(['self', *self._names])}):"):
            self._body()
        functions = compile_source(w, f"<tileops call {self.plan.op}>")
        call, node = functions["__call__"], functions["node"]
        call.__qualname__ = node.__qualname__ = self.plan.op
        # Dynamo would import a module of this name, to look the globals up there.
        del call.__globals__["__name__"]
        return call, torch_private.not_traced(node), w.text()
