"""Whether the code generated from an entry does on its rows what the entry says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tileops_core.errors import ManifestError, SignatureError
from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.plan.model import OutputFacts, Plan, Statics
from tileops_core.plan.sites import dtype_text
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.signature.branches import TooManyBranches
from tileops_core.signature.kinds import DTypeKind, MaybeKind
from tileops_core.signature.model import Signature, Workload
from tileops_core.signature.operators import Operator, has_boundary, operators
from tileops_core.signature.problems import Problem, Problems
from tileops_core.signature.workload import Tried, WorkloadCase, try_rows
from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr, Name
from tileops_core.tensor_spec import TensorSpec
from tileops_core.validate.cost_checks import check_cost
from tileops_core.validate.symbols import shared

_NOBODY = Served(None)


def check_plan(
    signature: Signature,
    problems: Problems,
    *,
    rows: Sequence[Tried] | None = None,
    installed: bool,
) -> None:
    """Generate the entry's functions and run them on every case of every row.

    Args:
        signature: The entry, with nothing unsolved.
        problems: Receives what is wrong.
        rows: The cases that passed their own checks, None for all; without any, only generation is
            tried.
        installed: Whether the entry came with a distribution; only then the cost function that it
            names is run.
    """
    try:
        plan = build_plan(signature)
    except ManifestError as error:
        for problem in error.problems:
            problems.add(problem.code, problem.message, problem.span, problem.hint)
        return
    rows = try_rows(signature) if rows is None else rows
    if not rows:
        return
    checker = _Checker(plan, problems, installed)
    for tried in rows:
        checker.check(tried)
    checker.costs()
    checker.symbols()


class _Checker:
    def __init__(self, plan: Plan, problems: Problems, installed: bool) -> None:
        self.plan = plan
        self.installed = installed
        self.signature = plan.signature
        self.problems = problems
        self.operators = _operators(plan.signature)
        self.dtypes_decide = _dtypes_decide(plan.signature)
        self.sequences = {i.name for i in self.signature.indices if i.row_only}
        self.branches: dict[Any, tuple[Workload, WorkloadCase]] = {}
        self.costly: dict[tuple[str, Span], list[Problem]] = {}

    def check(self, tried: Tried) -> None:
        """Run a case: its indices come back, its effects are a branch, its cost is a count."""
        row, case = tried.row, tried.case
        try:
            statics, specs = call_of(self.plan, case)
            facts = self.plan.check(statics, *specs)
            results = self.plan.outputs(statics, facts)
        except SignatureError as error:
            self._note("row", f"{case.case_id}: the generated checks refuse it: {error}", row)
            return
        found = dict(zip(self.plan.static_names, statics, strict=True))
        found |= zip(self.plan.fact_names, facts, strict=True)
        self._compare(row, case, found)
        self._compare_outputs(row, case, results)
        # For cost functions alone: those of great rows are great, and formulas read none.
        metadata = tried.metadata() if self._runs_cost_function() else None
        record = SignatureCall(self.plan, statics, specs, False, _NOBODY, metadata=metadata)
        self._effects(row, case, record, results)
        if self._costs(case, record, found):
            self._keep(row, case, results)

    def _note(self, code: str, message: str, row: Workload, hint: str = "") -> None:
        self.problems.add(code, message, row.span, hint)

    def _compare(self, row: Workload, case: WorkloadCase, found: Mapping[str, Any]) -> None:
        """What the tensors settle is what the row gave."""
        for name, value in case.indices.items():
            if name in self.sequences:
                continue
            settled = _as_written(found.get(name))
            settled = tuple(settled) if isinstance(settled, (tuple, list)) else settled
            if settled != (tuple(value) if isinstance(value, (tuple, list)) else value):
                self._note(
                    "row-inference",
                    f"{case.case_id}: the row gives {name} = {value}, its tensors say {settled}",
                    row,
                    f"write {name} once as a plain axis",
                )

    def _compare_outputs(
        self, row: Workload, case: WorkloadCase, results: tuple[OutputFacts, ...]
    ) -> None:
        """The generated code gives the outputs that the entry's expressions give."""
        for output, result in zip(self.signature.outputs, results, strict=True):
            due = case.outputs[output.name]
            found = result and (str(result[1]).removeprefix("torch."), tuple(result[0]))
            if found != due:
                self._note(
                    "row-inference",
                    f"{case.case_id}: the entry says {output.name} is {due}, the generated code "
                    f"{found}",
                    row,
                )

    def _effects(
        self,
        row: Workload,
        case: WorkloadCase,
        record: SignatureCall,
        results: tuple[OutputFacts, ...],
    ) -> None:
        """Writes, absent outputs and counts of reads and writes are those of one operator."""
        written = record.written
        outputs = zip(self.signature.outputs, results, strict=True)
        without = tuple(output.name for output, result in outputs if result is None)
        branch = [o for o in self.operators if (o.written, o.without) == (written, without)]
        if has_boundary(self.signature) and not branch:
            self._note(
                "effect-branch",
                f"{case.case_id} writes {', '.join(written) or 'nothing'} and leaves out "
                f"{', '.join(without) or 'nothing'}, which is none of the entry's effect branches",
                row,
            )
        self._traffic(row, case, record)

    def _traffic(self, row: Workload, case: WorkloadCase, record: SignatureCall) -> None:
        """A tensor is read and written as often as its effects say."""
        due = {name: (1, 0) for name, facts in case.tensors.items() if facts is not None}
        for item in self.signature.inputs:
            if case.inputs[item.name] is not None:
                writes = item.name in record.written
                due[item.name] = (int(not (item.write_only and writes)), int(writes))
        for output in self.signature.outputs:
            if case.outputs[output.name] is not None and output.alias not in record.written:
                due[output.name] = (0, 1)
        counted = {name: (t.reads, t.writes) for name, t in record.traffic.items()}
        if counted != due:
            self._note(
                "effect-branch",
                f"{case.case_id}: reads and writes are counted as {counted}, the entry says {due}",
                row,
            )

    def _runs_cost_function(self) -> bool:
        """Whether the entry states its cost by a function that may be run."""
        roofline = self.signature.roofline
        return roofline is not None and roofline.func is not None and self.installed

    def _costs(self, case: WorkloadCase, record: SignatureCall, values: Mapping[str, Any]) -> bool:
        """Whether the roofline gives a cost, as far as it may be asked."""
        roofline = self.signature.roofline
        if roofline is None or (roofline.func is not None and not self._runs_cost_function()):
            return True
        names = {name: _as_written(value) for name, value in values.items()}
        names |= {**case.tensors, **case.inputs, **case.outputs}
        found = Problems()
        stands = check_cost(self.signature, roofline, record, names, case.case_id, found)
        for problem in found:
            # One formula or function is at fault in all the cases that it fails in.
            self.costly.setdefault((problem.code, problem.span), []).append(problem)
        return stands

    def costs(self) -> None:
        """Tell what is wrong with costs, each fault once."""
        for first, *more in self.costly.values():
            plural = "case" if len(more) == 1 else "cases"
            also = f", and {len(more)} {plural} more" if more else ""
            self.problems.add(first.code, f"{first.message}{also}", first.span, first.hint)

    # -- symbolic lengths -----------------------------------------------------------------

    def _keep(self, row: Workload, case: WorkloadCase, results: tuple[OutputFacts, ...]) -> None:
        """Remember one case per branch, of lengths that tracing leaves open (not 0 or 1)."""
        given = [facts for facts in case.inputs.values() if facts is not None]
        if all(length > 1 for _, shape in given for length in shape):
            discrete = tuple(
                value if isinstance(value, (bool, str)) else value is None
                for value in case.params.values()
            )
            there = tuple(
                facts and (facts[0] if self.dtypes_decide else True)
                for facts in case.inputs.values()
            )
            ranks = tuple(len(shape) for _, shape in given)
            self.branches.setdefault((discrete, there, ranks), (row, case))

    def symbols(self) -> None:
        """Checks, outputs and costs of an op with a compile boundary take symbolic lengths."""
        if not has_boundary(self.signature):
            return
        for row, case in self.branches.values():
            statics, specs = call_of(self.plan, case)
            try:
                with shared().of_call() as symbol:
                    self._trace(statics, _with_symbols(specs, symbol))
            except Exception as error:  # whatever torch raises for what a symbol cannot do
                self._note(
                    "symbolic",
                    f"{case.case_id}: with symbolic lengths: {type(error).__name__}: {error}",
                    row,
                    "let no expression need the number behind a length",
                )

    def _trace(self, statics: Statics, tensors: list[TensorSpec | None]) -> None:
        facts = self.plan.check(statics, *tensors)
        self.plan.outputs(statics, facts)
        for cost in (self.plan.flops, self.plan.moved):
            if cost is not None:
                cost(statics, facts, _sizes(self.signature, tensors))


def _dtypes_decide(signature: Signature) -> bool:
    """Whether some expression but a tensor's dtype reads one, so that it may choose a branch."""
    tensors = (*signature.inputs, *signature.outputs)
    read: list[Any] = [rule.expr for rule in signature.rules]
    read += [let.expr for let in signature.lets]
    read += [case.when for tensor in tensors for case in tensor.shape]
    read += [part for item in signature.inputs for part in (item.optional, item.mutated)]
    read += [output.nullable for output in signature.outputs]
    if signature.roofline is not None:
        read += [signature.roofline.flops, signature.roofline.bytes]
    kinds = signature._kinds()
    names = {
        node.id
        for expr in read
        if isinstance(expr, Expr)
        for node in expr.walk()
        if isinstance(node, Name)
    }
    found = (kinds.get(name) for name in names)
    return any(isinstance(k.of if isinstance(k, MaybeKind) else k, DTypeKind) for k in found)


def _as_written(value: Any) -> Any:
    """A value as entries write it: dtypes by their short names."""
    return dtype_text(value) if isinstance(value, torch.dtype) else value


def _operators(signature: Signature) -> tuple[Operator, ...]:
    try:
        return operators(signature)
    except TooManyBranches:
        return ()  # told by the static checks


def _with_symbols(
    specs: tuple[TensorSpec | None, ...], symbol: Callable[[int], Any]
) -> list[TensorSpec | None]:
    """The tensors of a call, every length a symbol of its own."""
    return [s and TensorSpec(s.device, s.dtype, tuple(map(symbol, s.shape))) for s in specs]


def _sizes(signature: Signature, tensors: list[TensorSpec | None]) -> dict[str, Any]:
    sizes: dict[str, Any] = {output.name: 0 for output in signature.outputs}
    for item, spec in zip(signature.inputs, tensors, strict=True):
        sizes[item.name] = 0 if spec is None else spec.numel() * spec.dtype.itemsize
    return sizes
