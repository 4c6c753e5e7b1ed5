"""Write what stands between an op and its operators, once per op class.

``traced`` is what a graph records of a call: it chooses the operator by what the call writes and
leaves out, calls it with the instance's key, and returns what the op returns. Dynamo reads it, so
it touches nothing of the instance but the key and the parameters that choose the operator.

``run_<i>`` is what the operator does with real tensors: find the op of the key, and run its node.
``autograd_<i>`` asks before that whether somebody wants a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from tileops_core.call import checking, modes, torch_private
from tileops_core.call.callers import CALLERS
from tileops_core.call.graph_grad import under_autograd
from tileops_core.call.torch_operators import Bound
from tileops_core.plan.emit_expr import ExpressionWriter, has
from tileops_core.plan.reads import exprs_behind
from tileops_core.plan.source import SourceWriter
from tileops_core.signature.model import Input
from tileops_core.signature.operators import Operator
from tileops_core.spec.expressions import Expr, free_names


class Hosts(NamedTuple):
    """Whom keys stand for: a table of those that are known, and what finds any."""

    table: Mapping[str, Any]
    find: Callable[[str], Any]


class OperatorEmitter:
    """Writes ``traced``, and two kernels for each operator.

    Args:
        bound: the op's operators.
        hosts: whom keys stand for.
        writer: where the node body is written too.
    """

    def __init__(self, bound: Sequence[Bound], hosts: Hosts, writer: SourceWriter) -> None:
        self.bound = bound
        self.plan = bound[0].plan
        self.signature = self.plan.signature
        self.writer = w = writer
        self.expressions = ExpressionWriter(self.signature, w)
        self.takes_out = self.signature.out_buffer is not None
        w.use("_Tensor", torch.Tensor)
        w.use("_Parameter", torch.nn.Parameter)
        w.use("_callers", CALLERS)
        w.use("_hosts", hosts.table)
        w.use("_op_for", hosts.find)
        w.use("_grad_on", torch.is_grad_enabled)
        w.use("_autocast", torch_private.autocast_on)
        w.use("_watching", checking.WATCHING)
        w.use("_forward_ad", torch_private.forward_ad)
        w.use("_odd", modes.odd_node)
        w.use("_under_autograd", under_autograd)
        for i, one in enumerate(bound):
            w.use(f"_bound_{i}", one)
            w.use(f"_operator_{i}", one.torch)

    def emit_kernels(self, body: Callable[[], None]) -> None:
        """Write two kernels for each operator; ``body`` writes that of the node."""
        for i, bound in enumerate(self.bound):
            self.writer.line("")
            self._run(i, bound, body)
            self.writer.line("")
            self._autograd(i, bound)

    @property
    def _names(self) -> list[str]:
        return [t.name for t in self.signature.inputs]

    # -- what graphs record ---------------------------------------------------------------

    def emit_traced(self) -> None:
        """Write ``traced``."""
        w = self.writer
        names = [*self._names, *(["out"] if self.takes_out else [])]
        with w.block(f"def traced(self, {', '.join(names)}):"):
            if len(self.bound) == 1:
                self.call(self.bound[0])
                return
            effects = self._effects()
            for bound in self.bound:
                tests = [
                    name if present else f"not {name}"
                    for name, present in self._expected(bound.branch, effects)
                ]
                with w.block(f"if {' and '.join(tests)}:"):
                    self.call(bound)
            w.use("_check", self.plan.check)
            w.line(f"_check(self._construction.statics, {', '.join(self._names)})")
            w.line('raise AssertionError("the call was checked, and no operator stands for it")')

    def call(self, bound: Bound) -> None:
        """Write a call of one operator, and return what the op returns."""
        w, branch = self.writer, bound.branch
        arguments = ["self._key", *self._names, *(["out"] if branch.out else [])]
        overload = self.writer.use(f"_overload_{self.bound.index(bound)}", bound.torch.overload)
        call = f"{overload}({', '.join(arguments)})"
        outputs = self.signature.outputs
        if len(bound.fresh) == len(outputs) > 0:
            w.line(f"return {call}")
            return
        w.line(f"_new = {call}" if bound.fresh else call)
        new = ["_new"] if len(bound.fresh) == 1 else [f"_new[{i}]" for i in range(len(bound.fresh))]
        found = iter(new)
        results = []
        for i, output in enumerate(outputs):
            if i in bound.fresh:
                results.append(next(found))
            elif output.name in branch.without:
                results.append("None")
            else:
                results.append("out" if branch.out and output.buffer else str(output.alias))
        w.line(f"return {', '.join(results) or 'None'}")

    def _effects(self) -> dict[str, str]:
        """Write what decides the branch; gives the local that says whether an effect occurs.

        Keys are names of inputs and outputs, and ``out``.
        """
        found: dict[str, str] = {}
        mutated = [t for t in self.signature.inputs if t.mutated is not False]
        conditional = [t for t in mutated if t.mutated is not True or t.optional is not False]
        nullable = [o for o in self.signature.outputs if o.nullable is not None]
        conditions = [t.mutated for t in conditional if isinstance(t.mutated, Expr)]
        self._locals([*conditions, *(o.nullable for o in nullable if o.nullable is not None)])
        for tensor in conditional:
            found[tensor.name] = self._effect(f"_writes_{tensor.name}", self._written(tensor))
        for output in nullable:
            assert output.nullable is not None
            text = f"bool({self.expressions.write(output.nullable)})"
            found[output.name] = self._effect(f"_without_{output.name}", text)
        if self.takes_out:
            found["out"] = self._effect("_has_out", "out is not None")
        return found

    def _effect(self, name: str, text: str) -> str:
        self.writer.line(f"{name} = {text}")
        return name

    def _written(self, tensor: Input) -> str:
        tests = []
        if tensor.optional is not False:
            tests.append(f"{tensor.name} is not None")
        if isinstance(tensor.mutated, Expr):
            tests.append(f"bool({self.expressions.write(tensor.mutated)})")
        return " and ".join(tests)

    def _locals(self, conditions: list[Expr]) -> None:
        """Write what the conditions read: presence, parameters, quantities."""
        w = self.writer
        exprs = [each for c in conditions for each in exprs_behind(self.signature, c)]
        read = {name for expr in exprs for name in free_names(expr)}
        for tensor in self.signature.inputs:
            if tensor.name in read and tensor.optional is not False:
                w.line(f"{has(tensor.name)} = {tensor.name} is not None")
        params = {p.name for p in self.signature.params}
        for name in sorted(read & params):
            w.line(f"{name} = self.{name}")
        for let in self.signature.lets:
            if let.name in read:
                w.line(f"{let.name} = {self.expressions.write(let.expr)}")

    @staticmethod
    def _expected(branch: Operator, effects: dict[str, str]) -> list[tuple[str, bool]]:
        occurring = {*branch.written, *branch.without, *(["out"] if branch.out else [])}
        return [(local, name in occurring) for name, local in effects.items()]

    # -- what operators do ----------------------------------------------------------------

    def _arguments(self, bound: Bound) -> str:
        return ", ".join(["_key", *self._names, *(["out"] if bound.branch.out else [])])

    def _inputs(self) -> str:
        return "(" + "".join(f"{name}, " for name in self._names) + ")"

    def _run(self, number: int, bound: Bound, body: Callable[[], None]) -> None:
        w, branch = self.writer, bound.branch
        outputs = self.signature.outputs
        with w.block(f"def run_{number}({self._arguments(bound)}):"):
            w.line("self = None if _callers else _hosts.get(_key)")
            with w.block("if self is None:"):
                w.line("self = _op_for(_key)")
            tests = ["_grad_on()", "_autocast()", "_watching", "_forward_ad._current_level >= 0"]
            tests += [self._odd(t.name, t.name in branch.written) for t in self.signature.inputs]
            tests += [self._odd("out", True)] if branch.out else []
            out = "out" if branch.out else "None"
            with w.block(f"if {' or '.join(tests)}:"):
                w.line(f"_result = _odd(self, {self._inputs()}, {out})")
                self._fresh(bound)
            if self.takes_out and not branch.out:
                w.line("out = None")
            if len(bound.fresh) == len(outputs):
                # Not a call of the node: while a graph runs, calls in Python cost twice as much.
                body()
                return
            given = [*self._names, *(["out"] if self.takes_out else [])]
            w.line(f"_result = node(self, {', '.join(given)})")
            self._fresh(bound)

    def _fresh(self, bound: Bound) -> None:
        """Return those of the op's results that the operator makes."""
        fresh, outputs = bound.fresh, self.signature.outputs
        if not fresh:
            self.writer.line("return None")
        elif len(fresh) == len(outputs):
            self.writer.line("return _result")
        else:
            self.writer.line(f"return {', '.join(f'_result[{i}]' for i in fresh)}")

    def _odd(self, name: str, there: bool) -> str:
        """A test that is true for a tensor that is none of torch's own classes."""
        test = f"type({name}) is not _Tensor and type({name}) is not _Parameter"
        optional = {t.name for t in self.signature.inputs if t.optional is not False}
        return test if there or name not in optional else f"{name} is not None and {test}"

    def _autograd(self, number: int, bound: Bound) -> None:
        w, out = self.writer, ["out"] if bound.branch.out else []
        wants = [f"{n} is not None and {n}.requires_grad" for n in self._names]
        wants += ["out.requires_grad" for _ in out]
        with w.block(f"def autograd_{number}({self._arguments(bound)}):"):
            tests = f"_grad_on() and ({' or '.join(wants)})"
            with w.block(f"if _forward_ad._current_level >= 0 or {tests}:"):
                rest = f"{self._inputs()}, {'out' if out else 'None'}"
                w.line(f"return _under_autograd(_bound_{number}, _key, {rest})")
            w.line(f"return _operator_{number}.raw({self._arguments(bound)})")
