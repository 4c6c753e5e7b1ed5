"""Write the checks of one signature: parameters once, tensors per call.

``construct(*parameters)`` checks what reads parameters alone and returns the *statics*: the
parameters and the lets they decide. ``check(statics, *inputs)`` checks a call and returns its
*facts*. Both take facts and never an op, and ``check`` reads of a tensor only device, dtype,
shape and contiguity, so a stand-in serves as well as a tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from tileops_core.plan.devices import undecided_device
from tileops_core.plan.emit_expr import has
from tileops_core.plan.emit_tensor import TensorEmitter, label_of, tuple_text
from tileops_core.plan.sites import explained
from tileops_core.plan.source import SourceWriter
from tileops_core.signature.model import Input, Rule, Signature
from tileops_core.signature.primitives import PRIMITIVES
from tileops_core.signature.steps import LetStep, OpenRun, Solution, SolveAxis, TensorStep
from tileops_core.spec.expressions import Call, Expr, free_names


def static_names(signature: Signature, solution: Solution) -> tuple[str, ...]:
    """What ``construct`` returns: parameters, what those that are tensors settle, and the lets
    that parameters decide.
    """
    lets = (let.name for let in signature.lets if let.phase == "construction")
    settled = dict.fromkeys(_settled(solution.construction))
    return (*(p.name for p in signature.params), *settled, *lets)


def fact_names(signature: Signature, solution: Solution) -> tuple[str, ...]:
    """What ``check`` returns: the device, presence of optional inputs, indices, lets."""
    settled = dict.fromkeys(_settled(solution.steps))
    optional = (has(t.name) for t in signature.inputs if t.optional is not False)
    return ("_device", *optional, *settled)


def _settled(steps: Iterable[TensorStep | LetStep]) -> Iterator[str]:
    """The names that steps give values."""
    for step in steps:
        if isinstance(step, LetStep):
            yield step.let.name
            continue
        if step.binds_dtype is not None and not step.dtype_known:
            yield step.binds_dtype
        for case in step.cases:
            yield from (a.name for a in case.steps if isinstance(a, SolveAxis | OpenRun))


class CheckEmitter(TensorEmitter):
    """Writes ``construct`` and ``check``."""

    def __init__(
        self,
        signature: Signature,
        solution: Solution,
        writer: SourceWriter,
        *,
        left_to_run: bool = False,
    ) -> None:
        super().__init__(signature, writer, left_to_run=left_to_run)
        self.solution = solution
        self.statics = static_names(signature, solution)
        self.facts = fact_names(signature, solution)

    def emit(self) -> None:
        """Write both functions."""
        self._emit_construct()
        self.writer.line("")
        self.emit_check()

    # -- pieces ---------------------------------------------------------------------------

    def _rule(self, rule: Rule) -> None:
        site = self.site("", rule.text, rule.span)
        self.evaluates(site, rule.expr)
        with self.writer.block(f"if {self.refusing(f'not {self.expressions.write(rule.expr)}')}:"):
            self._explain(rule.expr, site)
            self.writer.line(f"raise {site}.rule({self.values(rule.expr)})")

    def _explain(self, expr: Expr, site: str) -> None:
        """Let the predicates of a failed rule say what is wrong, where they can."""
        for node in expr.walk():
            if not isinstance(node, Call) or node.function == "present":
                continue
            explain = PRIMITIVES[node.function].explain
            if explain is None:
                continue
            name = self.writer.use("_why_" + node.function.replace(".", "_"), explain)
            arguments = ", ".join(self.expressions.write(a) for a in node.args)
            self.writer.use("_explained", explained)
            self.writer.line(f"_why = _explained(lambda: {name}({arguments}))")
            with self.writer.block("if _why is not None:"):
                self.writer.line(f"raise {site}.failed(_why, {self.values(expr)})")

    # -- construct ------------------------------------------------------------------------

    def _emit_construct(self) -> None:
        w = self.writer
        arguments = ", ".join(p.name for p in self.signature.params)
        with w.block(f"def construct({arguments}):"):
            self._emit_constants()
            rules = [r for r in self.signature.rules if r.phase == "construction"]
            lets = [let for let in self.signature.lets if let.phase == "construction"]
            if rules or lets:
                with w.block("try:"):
                    # A let may stand on what a rule guarantees, and a rule may read a let, so
                    # each rule comes as soon as what it reads is there.
                    pending = list(rules)
                    made = {p.name for p in self.signature.params}
                    self._ready_rules(pending, made)
                    for let in lets:
                        site = self.site(let.name, f"let {let.name}", let.span)
                        self.evaluates(site, let.expr)
                        w.line(f"{let.name} = {self.expressions.write(let.expr)}")
                        made.add(let.name)
                        self._ready_rules(pending, made)
                    assert not pending, pending
                self.rescue()
            w.line(f"return {tuple_text(self.statics)}")

    def _emit_constants(self) -> None:
        """Read the parameters that are tensors, as far as no call is needed for it."""
        w, steps = self.writer, self.solution.construction
        for name in dict.fromkeys(_settled(steps)):
            if name in self.solution.perhaps:
                w.line(f"{name} = None")
        if not steps:
            return
        with w.block("try:"):
            for step in steps:
                self._constant(step)
        self.rescue()

    def _constant(self, step: TensorStep) -> None:
        if step.tensor.optional is False:
            self.tensor(step)
            return
        with self.writer.block(f"if {step.tensor.name} is not None:"):
            self.tensor(step)

    def _ready_rules(self, pending: list[Rule], made: set[str]) -> None:
        for rule in list(pending):
            read = {n for n in free_names(rule.expr) if n in self.expressions.kinds}
            if read <= made:
                self._rule(rule)
                pending.remove(rule)

    # -- check ----------------------------------------------------------------------------

    def emit_check(self) -> None:
        """Write ``check``; where a length is not known, the one that leaves it to the run."""
        w = self.writer
        inputs = [t.name for t in self.signature.inputs]
        with w.block(f"def check({', '.join(['_static', *inputs])}):"):
            if self.statics:
                w.line(f"{tuple_text(self.statics)} = _static")
            for tensor in self.signature.inputs:
                if tensor.optional is not False:
                    w.line(f"{has(tensor.name)} = {tensor.name} is not None")
            for name in self.facts:
                if name in self.solution.perhaps and name not in self.statics:
                    w.line(f"{name} = None")
            with w.block("try:"):
                self._conditions(after_solving=False)
                self._device()
                for step in self.solution.steps:
                    if isinstance(step, LetStep):
                        site = self.site(step.let.name, f"let {step.let.name}", step.let.span)
                        self.evaluates(site, step.let.expr)
                        w.line(f"{step.let.name} = {self.expressions.write(step.let.expr)}")
                    elif step.dtype_known:
                        self._constant(step)
                    elif step.tensor.optional is False:
                        self.tensor(step)
                    else:
                        with w.block(f"if {has(step.tensor.name)}:"):
                            self.tensor(step)
                self._conditions(after_solving=True)
                w.line(f"return {tuple_text(self.facts)}")
            self.rescue()
            self.leave_to_run("check", ["_static", *inputs])

    def leave_to_run(self, function: str, arguments: list[str]) -> None:
        """Write the way out of a ``try`` where torch does not have the number of a length.

        A composite op has none: in a graph it is no node, which could check its call at the run.
        """
        if self.left_to_run or self.signature.composition is not None:
            return
        with self.writer.block("except RuntimeError:"):
            self.writer.line("pass")  # what is refused there is not told as a second error
        self.writer.line(f"return _left_to_run[{function!r}]({', '.join(arguments)})")

    def _conditions(self, *, after_solving: bool) -> None:
        """Presence and refinements, each as soon as what it reads is there."""
        for tensor in self.signature.inputs:
            if isinstance(tensor.optional, Expr) and (
                self._reads_facts(tensor.optional) == after_solving
            ):
                self._presence(tensor)
        for rule in self.signature.rules:
            if rule.phase != "construction" and self._reads_facts(rule.expr) == after_solving:
                self._rule(rule)

    def _reads_facts(self, expr: Expr) -> bool:
        """Whether the expression reads something that only the tensors settle."""
        return any(name in self.facts for name in free_names(expr))

    def _presence(self, tensor: Input) -> None:
        assert isinstance(tensor.optional, Expr)
        text = self.expressions.write(tensor.optional)
        site = self.site(tensor.name, _condition_text(tensor), tensor.span)
        self.evaluates(site, tensor.optional)
        with self.writer.block(f"if {has(tensor.name)} != bool({text}):"):
            values = self.values(tensor.optional)
            self.writer.line(f"raise {site}.presence({has(tensor.name)}, {values})")

    def _device(self) -> None:
        w = self.writer
        undecided = undecided_device(self.signature)
        first = None
        if undecided is not None:
            w.line(f"_device = {undecided.write(w)}")
        else:
            first = next(t for t in self.signature.inputs if t.optional is False and not t.on_cpu)
            w.line(f"_device = {first.name}.device")
        for tensor in self.signature.inputs:
            if tensor is first:
                continue
            site = self.site(tensor.name, tensor.shape_text, tensor.span)
            there = f"{has(tensor.name)} and " if tensor.optional is not False else ""
            if tensor.on_cpu:
                w.use("_cpu", torch.device("cpu"))
            expected = "_cpu" if tensor.on_cpu else "_device"
            named = "" if tensor.on_cpu else (first.name if first else "another input")
            with w.block(f"if {there}{tensor.name}.device != {expected}:"):
                w.line(f"raise {site}.device({tensor.name}.device, {expected}, {named!r})")


def _condition_text(tensor: Input) -> str:
    assert isinstance(tensor.optional, Expr)
    return label_of(tensor.optional)
