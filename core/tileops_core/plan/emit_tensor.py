"""Write how one tensor is read: its dtype, its rank, and its axes, step by step."""

from __future__ import annotations

from tileops_core.errors import SignatureError
from tileops_core.plan.emit_expr import ExpressionWriter, dtype_named
from tileops_core.plan.left_to_run import differ, is_refused
from tileops_core.plan.sites import Site
from tileops_core.plan.source import SourceWriter
from tileops_core.signature.kinds import DTypeKind, TensorKind
from tileops_core.signature.model import Signature
from tileops_core.signature.primitives import PrimitiveError
from tileops_core.signature.steps import (
    AxisStep,
    CaseSteps,
    CheckAxis,
    CheckRun,
    OpenRun,
    Place,
    SolveAxis,
    TensorStep,
)
from tileops_core.spans import Span
from tileops_core.spec.expressions import Binary, Call, Const, Expr, Index, Name, Splice, free_names

_REFUSALS = (PrimitiveError, ZeroDivisionError, IndexError, OverflowError)


class TensorEmitter:
    """Writes the reading of tensors; collects the sites that errors speak from.

    Args:
        signature: the entry.
        writer: where to.
        left_to_run: whether lengths may be ones that only data tell.
    """

    def __init__(
        self, signature: Signature, writer: SourceWriter, *, left_to_run: bool = False
    ) -> None:
        self.signature = signature
        self.writer = writer
        self.left_to_run = left_to_run
        self.expressions = ExpressionWriter(signature, writer, left_to_run=left_to_run)
        self.sites: list[Site] = []
        writer.use("_sites", self.sites)
        writer.use("_refusals", _REFUSALS)
        writer.use("_SignatureError", SignatureError)
        writer.use("_inf", float("inf"))

    # -- pieces ---------------------------------------------------------------------------

    def site(self, name: str, declared: str, span: Span) -> str:
        """Source of a new site."""
        self.sites.append(Site(self.signature.op, name, declared, span))
        return f"_sites[{len(self.sites) - 1}]"

    def evaluates(self, site: str, *exprs: Expr) -> None:
        """Note where we are before something that may refuse its values."""
        if may_refuse(*exprs):
            self.writer.line(f"_at = {site}")

    def values(self, *exprs: Expr) -> str:
        """A dict display of what a condition read, for its error."""
        seen: dict[str, str] = {}
        for node in (node for expr in exprs for node in expr.walk()):
            if isinstance(node, Call) and node.function == "present":
                subject = node.args[0]
                if isinstance(subject, Name) and isinstance(
                    self.expressions.kinds.get(subject.id), TensorKind
                ):
                    seen[f"present({subject.id})"] = self.expressions.write(node)
        for name in (name for expr in exprs for name in free_names(expr)):
            kind = self.expressions.kinds.get(name)
            if kind is not None and not isinstance(kind, TensorKind):
                seen[name] = name
        return "{" + ", ".join(f"{key!r}: {value}" for key, value in seen.items()) + "}"

    def refusing(self, test: str) -> str:
        """A test of lengths that refuses a call, as source."""
        if not self.left_to_run:
            return test
        return f"{self.writer.use('_is_refused', is_refused)}(lambda: {test})"

    def differing(self, one: str, other: str) -> str:
        """A test whether runs of lengths differ, as source."""
        if not self.left_to_run:
            return f"{one} != {other}"
        return f"{self.writer.use('_differ', differ)}({one}, {other})"

    def rescue(self) -> None:
        """Close a ``try``: a primitive's refusal becomes the error of the site noted last."""
        # First, because an axis that is not there is an IndexError too.
        with self.writer.block("except _SignatureError:"):
            self.writer.line("raise")
        with self.writer.block("except _refusals as _error:"):
            self.writer.line("raise _at.failed(_error) from None")

    # -- one tensor -----------------------------------------------------------------------

    def tensor(self, step: TensorStep) -> None:
        """Write the steps of one tensor."""
        w, tensor = self.writer, step.tensor
        if not step.dtype_known:
            self._dtype(step)
        if not step.cases:
            return
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
                return self.values(case.case.when)
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
                with w.block(f"if {self.differing('_s', run)}:"):
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
                with w.block(f"if {self.differing('_s[_i : _i + len(_run)]', '_run')}:"):
                    w.line(f"raise {site}.shape(_s, {expected})")
            case CheckAxis(place=place, axis=axis):
                at, where = self._axis_at(place)
                self.evaluates(site, axis)
                with w.block(f"if {self.refusing(f'_s[{at}] != {write(axis)}')}:"):
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
                wrong = ["_v < 0", *([f"_v % {factor} != 0"] if factor > 1 else [])]
                with w.block(f"if {' or '.join(map(self.refusing, wrong))}:"):
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
        with w.block(f"elif {self.refusing(f'{name} != {value}')}:"):
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
                items.append(repr(label_of(item)))
            else:
                items.append(self.expressions.write(item))
        return tuple_text(tuple(items))

    def _shape_text(self, case: CaseSteps) -> str:
        return "[" + ", ".join(label_of(a) for a in case.case.axes) + "]"


def may_refuse(*exprs: Expr) -> bool:
    """Whether evaluating can raise: there is a primitive, a division or an index."""
    return any(_may_refuse(node) for expr in exprs for node in expr.walk())


def _may_refuse(node: Expr) -> bool:
    if isinstance(node, Call):
        return node.function not in ("present", "len", "bytes")
    if isinstance(node, Binary):
        return node.op in ("/", "//", "%", "**")
    return isinstance(node, Index)


def tuple_text(items: tuple[str, ...]) -> str:
    """Source of a tuple of names or expressions."""
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _count(ones: int, runs: tuple[Expr, ...], expressions: ExpressionWriter) -> str:
    parts = [f"len({expressions.write(run)})" for run in runs]
    if ones or not parts:
        parts.insert(0, str(ones))
    return " + ".join(parts) if len(parts) == 1 else "(" + " + ".join(parts) + ")"


def label_of(item: Expr) -> str:
    """How an axis is written, for a message."""
    if isinstance(item, Splice):
        return f"*{label_of(item.value)}"
    if isinstance(item, Name):
        return item.id
    if isinstance(item, Const):
        return str(item.value)
    text, span = item.span.text, item.span
    return text[span.column - 1 : span.column - 1 + span.length] if text else "..."
