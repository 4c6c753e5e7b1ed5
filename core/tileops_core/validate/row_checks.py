"""Whether every workload row is a call that the entry accepts, and every refinement is tried."""

from __future__ import annotations

from typing import Any

from tileops_core.errors import ManifestError
from tileops_core.signature.branches import Branches
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.model import Signature, Workload
from tileops_core.signature.primitives import PrimitiveError
from tileops_core.signature.problems import Problems
from tileops_core.signature.workload import WorkloadCase, check_workloads, instantiate
from tileops_core.validate.report import Counts


def check_rows(signature: Signature, problems: Problems, counts: Counts) -> None:
    """Instantiate every row, and evaluate every refinement on what comes of it.

    Args:
        signature: The entry.
        problems: Receives what is wrong.
        counts: Cases, and refinements that got a truth value, are added here.
    """
    found = list(check_workloads(signature))
    for problem in found:
        problems.add(problem.code, problem.message, problem.span, problem.hint)
    branches = Branches(signature)
    tried: set[int] = set()
    for row in signature.workloads:
        for case in _cases(signature, row):
            counts.cases += 1
            tried |= _tried(signature, branches, case)
    counts.rules_checked += len(tried)
    for number, rule in enumerate(signature.rules):
        if number not in tried and not found:
            problems.add("rule-unchecked", f"no row gave {rule.text} a value", rule.span)


def _cases(signature: Signature, row: Workload) -> list[WorkloadCase]:
    made = []
    for dtype_case in row.dtype_cases:
        for small in (False, True) if row.small else (False,):
            try:
                made.append(instantiate(signature, row, dtype_case, small=small))
            except ManifestError:
                continue  # check_workloads said so, in the words of the row
    return made


def _tried(signature: Signature, branches: Branches, case: WorkloadCase) -> set[int]:
    """The numbers of the refinements that the case gives a truth value."""
    values = _values_of(signature, branches, case)
    tried = set()
    for number, rule in enumerate(signature.rules):
        try:
            holds = evaluate(rule.expr, values)
        except (PrimitiveError, ArithmeticError, LookupError):
            continue
        if isinstance(holds, bool):
            tried.add(number)
    return tried


def _values_of(signature: Signature, branches: Branches, case: WorkloadCase) -> dict[str, Any]:
    """What the names of a case stand for; a ``let`` that its branch cannot compute is left out."""
    values: dict[str, Any] = {**case.params, **case.inputs, **case.indices}
    given: dict[Any, Any] = {**case.params, **case.indices}
    for name, facts in case.inputs.items():
        given[f"present({name})"] = facts is not None
    indices = {index.name for index in signature.indices}
    for let in signature.lets:
        if not branches.reads(let.expr, given) & indices - values.keys():
            values[let.name] = given[let.name] = evaluate(let.expr, values)
    return values
