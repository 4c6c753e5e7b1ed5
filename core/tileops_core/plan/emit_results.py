"""Write what a signature says of results: their shapes and dtypes, what is written, the cost.

All take facts, never an op: ``outputs(statics, facts)`` gives ``(shape, dtype)`` or None per
output; ``written(statics, facts)`` the names of the inputs written; ``flops`` and ``moved``
(``statics, facts, nbytes``) the roofline's numbers, where the entry states them inline.
"""

from __future__ import annotations

import itertools

from tileops_core.plan.emit_check import CheckEmitter
from tileops_core.plan.emit_tensor import label_of, may_refuse, tuple_text
from tileops_core.plan.lengths import Lengths, first_wrong, is_no_length
from tileops_core.plan.reads import exprs_behind
from tileops_core.signature.model import Output, ShapeCase
from tileops_core.spec.expressions import Call, Expr, Name, Splice


class ResultEmitter:
    """Writes the functions that follow from a call's facts."""

    def __init__(self, checks: CheckEmitter) -> None:
        self.checks = checks
        self.signature = checks.signature
        self.writer = checks.writer
        self.write = checks.expressions.write
        self.tuple_of = checks.expressions.tuple_of
        self.statics = checks.statics
        self.facts = checks.facts
        self.lengths = Lengths(self.signature)
        self.numbers = itertools.count()

    def emit(self) -> None:
        """Write ``outputs``, ``written``, and ``flops`` and ``moved`` where stated."""
        self.emit_outputs()
        self.writer.line("")
        self._emit_written()
        roofline = self.signature.roofline
        if roofline is not None and roofline.flops is not None:
            self.writer.line("")
            self._emit_cost("flops", roofline.flops)
        if roofline is not None and roofline.bytes is not None:
            self.writer.line("")
            self._emit_cost("moved", roofline.bytes)

    def _unpack(self) -> None:
        if self.statics:
            self.writer.line(f"({', '.join(self.statics)},) = _static")
        self.writer.line(f"({', '.join(self.facts)},) = _facts")

    def emit_outputs(self) -> None:
        """Write ``outputs``; where a length is not known, the one that leaves it to the run."""
        w = self.writer
        with w.block("def outputs(_static, _facts):"):
            self._unpack()
            if not any(may_refuse(*_read(output)) for output in self.signature.outputs):
                self._return_outputs()
                return
            with w.block("try:"):
                self._return_outputs()
            self.checks.rescue()
            self.checks.leave_to_run("outputs", ["_static", "_facts"])

    def _return_outputs(self) -> None:
        w, results = self.writer, []
        for i, output in enumerate(self.signature.outputs):
            name, refusing = f"_out{i}", may_refuse(*_read(output))
            if refusing:
                site = self.checks.site(output.name, output.shape_text, output.shape_span)
                w.line(f"_at = {site}")
            facts = self._output(output, name)
            if refusing and facts != name:
                # Evaluated here, not in the return: what refuses must be what was noted last.
                w.line(f"{name} = {facts}")
                facts = name
            results.append(facts)
        w.line(f"return ({''.join(f'{r}, ' for r in results)})")

    def _output(self, output: Output, name: str) -> str:
        """Source of one output's ``(shape, dtype)``; branches are written to ``name`` first."""
        w, dtype = self.writer, self.write(output.dtype)
        first = output.shape[0]
        if output.nullable is None and len(output.shape) == 1 and first.when is None:
            return f"({self._shape(output, first)}, {dtype})"
        keyword = "if"
        if output.nullable is not None:
            with w.block(f"if {self.write(output.nullable)}:"):
                w.line(f"{name} = None")
            keyword = "elif"
        for i, case in enumerate(output.shape):
            # Cases are complete over accepted values, so the last one needs no question.
            last = i == len(output.shape) - 1
            if last and keyword == "elif":
                header = "else:"
            else:
                when = "True" if case.when is None else self.write(case.when)
                header = f"{keyword} {when}:"
            with w.block(header):
                w.line(f"{name} = ({self._shape(output, case)}, {dtype})")
            keyword = "elif"
        return name

    def _shape(self, output: Output, case: ShapeCase) -> str:
        """Source of a shape; what may give an axis no length is evaluated and asked before."""
        if not any(map(self.lengths.may_fail, case.axes)):
            return self.tuple_of(case.axes)
        site = self.checks.site(output.name, output.shape_text, output.shape_span)
        items: list[str] = []
        ones, runs = 0, ""  # how many axes come before: single ones, and those of splices
        for axis in case.axes:
            spliced = isinstance(axis, Splice)
            text = self.write(axis.value if isinstance(axis, Splice) else axis)
            if self.lengths.may_fail(axis):
                text = self._asked(axis, text, f"{ones}{runs}", site)
            items.append(f"*{text}" if spliced else text)
            ones += not spliced
            runs += f" + len({text})" if spliced else ""
        return tuple_text(tuple(items))

    def _asked(self, axis: Expr, text: str, place: str, site: str) -> str:
        """Refuse a value that is no length; gives the value's source. ``place``: its axis's."""
        w = self.writer
        if not isinstance(axis, Name):
            value = f"_n{next(self.numbers)}"
            w.line(f"{value} = {text}")
            text = value
        test, wrong = f"{w.use('_is_no_length', is_no_length)}({text})", text
        if isinstance(axis, Splice):
            w.line(f"_i = {w.use('_first_wrong', first_wrong)}({text})")
            test, wrong, place = "_i is not None", f"{text}[_i]", f"{place} + _i"
        read = self.checks.values(*exprs_behind(self.signature, axis))
        with w.block(f"if {test}:"):
            w.line(f"raise {site}.length({wrong}, {place}, {label_of(axis)!r}, {read})")
        return text

    def _emit_written(self) -> None:
        w = self.writer
        always = [t.name for t in self.signature.inputs if t.mutated is True]
        sometimes = [t for t in self.signature.inputs if isinstance(t.mutated, Expr)]
        with w.block("def written(_static, _facts):"):
            if not sometimes:
                optional = {t.name for t in self.signature.inputs if t.optional is not False}
                if not optional & set(always):
                    w.line(f"return {tuple(always)!r}")
                    return
            self._unpack()
            w.line("_names = []")
            for tensor in self.signature.inputs:
                if tensor.mutated is False:
                    continue
                tests = []
                if tensor.optional is not False:
                    tests.append(f"_has_{tensor.name}")
                if isinstance(tensor.mutated, Expr):
                    tests.append(self.write(tensor.mutated))
                with w.block(f"if {' and '.join(tests) or 'True'}:"):
                    w.line(f"_names.append({tensor.name!r})")
            w.line("return tuple(_names)")

    def _emit_cost(self, function: str, expr: Expr) -> None:
        w = self.writer
        with w.block(f"def {function}(_static, _facts, _nbytes):"):
            self._unpack()
            for name in sorted(_measured(expr)):
                w.line(f"_bytes_{name} = _nbytes[{name!r}]")
            w.line(f"return {self.write(expr)}")


def _read(output: Output) -> tuple[Expr, ...]:
    """All expressions that an output's facts come from."""
    conditions = [output.nullable, *(case.when for case in output.shape)]
    axes = [axis for case in output.shape for axis in case.axes]
    return (output.dtype, *axes, *(c for c in conditions if c is not None))


def _measured(expr: Expr) -> set[str]:
    """The tensors whose bytes an expression asks for."""
    return {
        node.args[0].id
        for node in expr.walk()
        if isinstance(node, Call) and node.function == "bytes" and isinstance(node.args[0], Name)
    }
