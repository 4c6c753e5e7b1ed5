"""Write the checks of one signature: parameters once, tensors per call.

``construct(*parameters)`` checks what reads parameters alone and returns the *statics*: the
parameters and the lets they decide. ``check(statics, *inputs)`` checks a call and returns its
*facts*. Both take facts and never an op, and ``check`` reads of a tensor only device, dtype,
shape and contiguity, so a stand-in serves as well as a tensor.
"""

from __future__ import annotations

import torch

from tileops_core.errors import SignatureError
from tileops_core.plan.emit_expr import ExpressionWriter, dtype_named, has
from tileops_core.plan.sites import Site, explained
from tileops_core.plan.source import SourceWriter
from tileops_core.signature.kinds import DeviceKind, DTypeKind, TensorKind
from tileops_core.signature.model import Input, Rule, Signature
from tileops_core.signature.primitives import PRIMITIVES, PrimitiveError
from tileops_core.signature.steps import (
    AxisStep,
    CaseSteps,
    CheckAxis,
    CheckRun,
    LetStep,
    OpenRun,
    Place,
    Solution,
    SolveAxis,
    TensorStep,
)
from tileops_core.spans import Span
from tileops_core.spec.expressions import Binary, Call, Const, Expr, Index, Name, Splice, free_names

_REFUSALS = (PrimitiveError, ZeroDivisionError, IndexError, OverflowError)


def static_names(signature: Signature) -> tuple[str, ...]:
    """What ``construct`` returns: parameters, then the lets they decide."""
    lets = (let.name for let in signature.lets if let.phase == "construction")
    return (*(p.name for p in signature.params), *lets)


def fact_names(signature: Signature, solution: Solution) -> tuple[str, ...]:
    """What ``check`` returns: the device, presence of optional inputs, indices, lets."""
    settled: dict[str, None] = {}
    for step in solution.steps:
        if isinstance(step, LetStep):
            settled[step.let.name] = None
            continue
        if step.binds_dtype is not None:
            settled[step.binds_dtype] = None
        for case in step.cases:
            for axis in case.steps:
                if isinstance(axis, SolveAxis | OpenRun):
                    settled[axis.name] = None
    optional = (has(t.name) for t in signature.inputs if t.optional is not False)
    return ("_device", *optional, *settled)


class CheckEmitter:
    """Writes ``construct`` and ``check``; collects the sites that their errors speak from."""

    def __init__(self, signature: Signature, solution: Solution, writer: SourceWriter) -> None:
        self.signature = signature
        self.solution = solution
        self.writer = writer
        self.expressions = ExpressionWriter(signature, writer)
        self.sites: list[Site] = []
        self.statics = static_names(signature)
        self.facts = fact_names(signature, solution)
        writer.use("_sites", self.sites)
        writer.use("_refusals", _REFUSALS)
        writer.use("_SignatureError", SignatureError)
        writer.use("_inf", float("inf"))

    def emit(self) -> None:
        """Write both functions."""
        self._emit_construct()
        self.writer.line("")
        self._emit_check()

    # -- pieces ---------------------------------------------------------------------------

    def site(self, name: str, declared: str, span: Span) -> str:
        """Source of a new site."""
        self.sites.append(Site(self.signature.op, name, declared, span))
        return f"_sites[{len(self.sites) - 1}]"

    def evaluates(self, site: str, *exprs: Expr) -> None:
        """Note where we are before something that may refuse its values."""
        if may_refuse(*exprs):
            self.writer.line(f"_at = {site}")

    def _values(self, expr: Expr) -> str:
        """A dict display of what a condition read, for its error."""
        seen: dict[str, str] = {}
        for node in expr.walk():
            if isinstance(node, Call) and node.function == "present":
                subject = node.args[0]
                if isinstance(subject, Name) and isinstance(
                    self.expressions.kinds.get(subject.id), TensorKind
                ):
                    seen[f"present({subject.id})"] = self.expressions.write(node)
        for name in free_names(expr):
            kind = self.expressions.kinds.get(name)
            if kind is not None and not isinstance(kind, TensorKind):
                seen[name] = name
        return "{" + ", ".join(f"{key!r}: {value}" for key, value in seen.items()) + "}"

    def _rule(self, rule: Rule) -> None:
        site = self.site("", rule.text, rule.span)
        self.evaluates(site, rule.expr)
        with self.writer.block(f"if not {self.expressions.write(rule.expr)}:"):
            self._explain(rule.expr, site)
            self.writer.line(f"raise {site}.rule({self._values(rule.expr)})")

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
                self.writer.line(f"raise {site}.failed(_why, {self._values(expr)})")

    def rescue(self) -> None:
        """Close a ``try``: a primitive's refusal becomes the error of the site noted last."""
        # First, because an axis that is not there is an IndexError too.
        with self.writer.block("except _SignatureError:"):
            self.writer.line("raise")
        with self.writer.block("except _refusals as _error:"):
            self.writer.line("raise _at.failed(_error) from None")

    # -- construct ------------------------------------------------------------------------

    def _emit_construct(self) -> None:
        w = self.writer
        arguments = ", ".join(p.name for p in self.signature.params)
        with w.block(f"def construct({arguments}):"):
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
            w.line(f"return {_tuple(self.statics)}")

    def _ready_rules(self, pending: list[Rule], made: set[str]) -> None:
        for rule in list(pending):
            read = {n for n in free_names(rule.expr) if n in self.expressions.kinds}
            if read <= made:
                self._rule(rule)
                pending.remove(rule)

    # -- check ----------------------------------------------------------------------------

    def _emit_check(self) -> None:
        w = self.writer
        inputs = [t.name for t in self.signature.inputs]
        with w.block(f"def check({', '.join(['_static', *inputs])}):"):
            if self.statics:
                w.line(f"{_tuple(self.statics)} = _static")
            for tensor in self.signature.inputs:
                if tensor.optional is not False:
                    w.line(f"{has(tensor.name)} = {tensor.name} is not None")
            for name in self.facts:
                if name in self.solution.perhaps:
                    w.line(f"{name} = None")
            with w.block("try:"):
                self._conditions(after_solving=False)
                self._device()
                for step in self.solution.steps:
                    if isinstance(step, LetStep):
                        site = self.site(step.let.name, f"let {step.let.name}", step.let.span)
                        self.evaluates(site, step.let.expr)
                        w.line(f"{step.let.name} = {self.expressions.write(step.let.expr)}")
                    elif step.tensor.optional is False:
                        self._tensor(step)
                    else:
                        with w.block(f"if {has(step.tensor.name)}:"):
                            self._tensor(step)
                self._conditions(after_solving=True)
            self.rescue()
            w.line(f"return {_tuple(self.facts)}")

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
            values = self._values(tensor.optional)
            self.writer.line(f"raise {site}.presence({has(tensor.name)}, {values})")

    def _device(self) -> None:
        w = self.writer
        undecided = undecided_device(self.signature)
        first = None
        if undecided is not None:
            w.use("_default_device", default_device)
            tensors, parameter = undecided
            w.line(f"_device = _default_device({', '.join([str(parameter), *tensors])})")
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

    # -- one tensor -----------------------------------------------------------------------

    def _tensor(self, step: TensorStep) -> None:
        w, tensor = self.writer, step.tensor
        self._dtype(step)
        if tensor.contiguous:
            site = self.site(tensor.name, tensor.shape_text, tensor.span)
            with w.block(f"if not {tensor.name}.is_contiguous():"):
                w.line(f"raise {site}.contiguous()")
        site = self.site(tensor.name, tensor.shape_text, tensor.shape_span)
        w.line(f"_s = {tensor.name}.shape")
        if len(step.cases) == 1 and step.cases[0].case.when is None:
            self._case(step.cases[0], site)
            return
        for i, case in enumerate(step.cases):
            when = "True" if case.case.when is None else self.expressions.write(case.case.when)
            with w.block(f"{'if' if i == 0 else 'elif'} {when}:"):
                self._case(case, site)
        with w.block("else:"):
            values = self._case_values(step)
            w.line(f"raise {site}.branch({values})")

    def _case_values(self, step: TensorStep) -> str:
        for case in step.cases:
            if case.case.when is not None:
                return self._values(case.case.when)
        return "{}"

    def _dtype(self, step: TensorStep) -> None:
        w, tensor = self.writer, step.tensor
        site = self.site(tensor.name, tensor.dtype_text, tensor.dtype_span)
        if step.binds_dtype is None:
            expected = self.expressions.write(tensor.dtype)
            self.evaluates(site, tensor.dtype)
            with w.block(f"if {tensor.name}.dtype != {expected}:"):
                w.line(f"raise {site}.dtype({tensor.name}.dtype, {expected})")
            return
        name = step.binds_dtype
        kind = self.expressions.kinds[name]
        assert isinstance(kind, DTypeKind)
        if step.perhaps_dtype:
            with w.block(f"if {name} is not None and {tensor.name}.dtype != {name}:"):
                w.line(f"raise {site}.dtype({tensor.name}.dtype, {name})")
        w.line(f"{name} = {tensor.name}.dtype")
        if kind.members is not None:
            allowed = w.use(f"_dtypes_{name}", tuple(dtype_named(m) for m in kind.members))
            with w.block(f"if {name} not in {allowed}:"):
                w.line(f"raise {site}.dtype({name}, {allowed})")

    # -- one shape ------------------------------------------------------------------------

    def _case(self, case: CaseSteps, site: str) -> None:
        w = self.writer
        known = set(case.known)
        if len(case.steps) == 1 and len(case.case.axes) == 1:
            only = case.steps[0]
            if isinstance(only, CheckRun):
                run = self.expressions.write(only.run)
                self.evaluates(site, only.run)
                with w.block(f"if _s != {run}:"):
                    w.line(f"raise {site}.shape(_s, {self._expected(case, known)})")
                return
        least = _count(case.ones, case.runs, self.expressions)
        self.evaluates(site, *case.runs)
        with w.block(f"if len(_s) {'<' if case.open else '!='} {least}:"):
            w.line(f"raise {site}.rank(_s, {least}, {case.open})")
        for step in case.steps:
            self._axis(step, case, site, known)
            if isinstance(step, SolveAxis | OpenRun):
                known.add(step.name)

    def _axis(self, step: AxisStep, case: CaseSteps, site: str, known: set[str]) -> None:
        w, write = self.writer, self.expressions.write
        if isinstance(step, SolveAxis | OpenRun) and step.perhaps:
            # Its one error is that it was known already, and is another.
            known = known | {step.name}
        expected = self._expected(case, known)
        match step:
            case OpenRun(before=before, after=after, name=name, perhaps=perhaps):
                start, stop = self._edge(before), self._edge(after)
                value = f"_s[{start or ''}:{stop or ''}]" if start or stop else "_s"
                self._give(name, value, perhaps, f"{site}.shape(_s, {expected})")
            case CheckRun(place=place, run=run):
                self.evaluates(site, run)
                w.line(f"_run = {write(run)}")
                if place.from_right:
                    w.line(f"_i = {self._edge(place) or 'len(_s)'} - len(_run)")
                else:
                    w.line(f"_i = {self._steps(place)}")
                with w.block("if _s[_i : _i + len(_run)] != _run:"):
                    w.line(f"raise {site}.shape(_s, {expected})")
            case CheckAxis(place=place, axis=axis):
                at, where = self._axis_at(place)
                self.evaluates(site, axis)
                with w.block(f"if _s[{at}] != {write(axis)}:"):
                    w.line(f"raise {site}.shape(_s, {expected}, {where})")
            case SolveAxis(place=place, name=name, coefficient=1, rest=None, perhaps=perhaps):
                at, where = self._axis_at(place)
                self._give(name, f"_s[{at}]", perhaps, f"{site}.shape(_s, {expected}, {where})")
            case SolveAxis(place=place, name=name, coefficient=factor, rest=rest, perhaps=perhaps):
                at, where = self._axis_at(place)
                if rest is not None:
                    self.evaluates(site, rest)
                less = "" if rest is None else f" - {write(rest)}"
                w.line(f"_v = _s[{at}]{less}")
                whole = f" or _v % {factor} != 0" if factor > 1 else ""
                with w.block(f"if _v < 0{whole}:"):
                    text = self._shape_text(case)
                    w.line(f"raise {site}.solve(_s[{at}], {where}, {text!r})")
                value = "_v" if factor == 1 else f"_v // {factor}"
                self._give(name, value, perhaps, f"{site}.shape(_s, {expected}, {where})")

    def _give(self, name: str, value: str, perhaps: bool, error: str) -> None:
        w = self.writer
        if not perhaps:
            w.line(f"{name} = {value}")
            return
        with w.block(f"if {name} is None:"):
            w.line(f"{name} = {value}")
        with w.block(f"elif {name} != {value}:"):
            w.line(f"raise {error}")

    def _steps(self, place: Place) -> str:
        """How far from its side the place is, as source."""
        return _count(place.ones, place.runs, self.expressions)

    def _edge(self, place: Place) -> str | None:
        """The place as a slice bound, None at the shape's own edge."""
        if place.ones == 0 and not place.runs:
            return None
        return f"len(_s) - {self._steps(place)}" if place.from_right else self._steps(place)

    def _axis_at(self, place: Place) -> tuple[str, str]:
        """The index of a single axis, and the same as a non-negative number for the error."""
        steps = self._steps(place)
        if place.from_right:
            at = f"len(_s) - 1 - {steps}" if steps != "0" else "len(_s) - 1"
            return (f"-1 - {steps}" if steps != "0" else "-1"), at
        return steps, steps

    def _expected(self, case: CaseSteps, known: set[str]) -> str:
        """A tuple display of the shape due, with a name for each axis not yet known."""
        items = []
        for item in case.case.axes:
            value = item.value if isinstance(item, Splice) else item
            if any(n in self.expressions.kinds and n not in known for n in free_names(value)):
                items.append(repr(_label(item)))
            else:
                items.append(self.expressions.write(item))
        return _tuple(tuple(items))

    def _shape_text(self, case: CaseSteps) -> str:
        return "[" + ", ".join(_label(a) for a in case.case.axes) + "]"


def undecided_device(signature: Signature) -> tuple[list[str], str | None] | None:
    """What a call's device depends on where no required input decides it, else None.

    Returns:
        The optional inputs that decide it where they are there, and the parameter that does else.
    """
    deciding = [t for t in signature.inputs if not t.on_cpu]
    if any(t.optional is False for t in deciding):
        return None
    parameters = (p.name for p in signature.params if isinstance(p.kind, DeviceKind))
    return [t.name for t in deciding], next(parameters, None)


def default_device(stated: torch.device | None, *tensors: torch.Tensor | None) -> torch.device:
    """The device of the first tensor there is; else the one stated; else the current CUDA device,
    or the CPU where there is none.
    """
    for tensor in tensors:
        if tensor is not None:
            return tensor.device
    if stated is None:
        stated = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if stated.type == "cuda" and stated.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return stated


def may_refuse(*exprs: Expr) -> bool:
    """Whether evaluating can raise: there is a primitive, a division or an index."""
    return any(_may_refuse(node) for expr in exprs for node in expr.walk())


def _may_refuse(node: Expr) -> bool:
    if isinstance(node, Call):
        return node.function not in ("present", "len", "bytes")
    if isinstance(node, Binary):
        return node.op in ("/", "//", "%", "**")
    return isinstance(node, Index)


def _tuple(items: tuple[str, ...]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _count(ones: int, runs: tuple[Expr, ...], expressions: ExpressionWriter) -> str:
    parts = [f"len({expressions.write(run)})" for run in runs]
    if ones or not parts:
        parts.insert(0, str(ones))
    return " + ".join(parts) if len(parts) == 1 else "(" + " + ".join(parts) + ")"


def _label(item: Expr) -> str:
    """How an axis is written, for a message."""
    if isinstance(item, Splice):
        return f"*{_label(item.value)}"
    if isinstance(item, Name):
        return item.id
    if isinstance(item, Const):
        return str(item.value)
    text, span = item.span.text, item.span
    return text[span.column - 1 : span.column - 1 + span.length] if text else "..."


def _condition_text(tensor: Input) -> str:
    assert isinstance(tensor.optional, Expr)
    return _label(tensor.optional)
