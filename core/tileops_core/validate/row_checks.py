"""Whether every workload row is a call that the entry accepts, and every condition is tried."""

from __future__ import annotations

from collections.abc import Iterator

from tileops_core.signature.instance import Instance, RowFault
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import Problems
from tileops_core.signature.workload import check_workloads
from tileops_core.spans import Span
from tileops_core.validate.report import Counts


def check_rows(signature: Signature, problems: Problems, counts: Counts) -> tuple[Instance, ...]:
    """Instantiate every row, and evaluate every condition on what comes of it.

    Args:
        signature: The entry.
        problems: Receives what is wrong.
        counts: Cases, and conditions that got a truth value, are added here.

    Returns:
        The calls of the rows that are accepted.
    """
    for problem in check_workloads(signature):
        problems.add(problem.code, problem.message, problem.span, problem.hint)
    tried: set[tuple[str, int]] = set()
    whole, accepted = True, []
    for instance in _instances(signature):
        if instance is None:
            whole = False
            continue
        counts.cases += 1
        accepted.append(instance)
        tried |= set(_tried(signature, instance))
    counts.rules_checked += len(tried)
    for key, text, span in _conditions(signature):
        if key not in tried and whole:
            problems.add(
                "rule-unchecked",
                f"no row gives {text} a value",
                span,
                "add a row of the branch that it is about",
            )
    return tuple(accepted)


def _instances(signature: Signature) -> Iterator[Instance | None]:
    """Every case of every row; None for one that is no call, of which the row's check tells."""
    for row in signature.workloads:
        for small in (False, True) if row.small else (False,):
            for dtype_case in row.dtype_cases:
                instance = Instance.of_row(signature, row, dtype_case, small=small)
                try:
                    instance.check()
                except RowFault:
                    yield None
                else:
                    yield instance


def _conditions(signature: Signature) -> Iterator[tuple[tuple[str, int], str, Span]]:
    """Every condition that the entry states: whose, its number there, its text and place."""
    for number, rule in enumerate(signature.rules):
        yield ("", number), rule.text, rule.span
    for item in signature.inputs:
        for number, requirement in enumerate(item.requires):
            yield (item.name, number), f"{item.name}: {requirement.text}", requirement.span


def _tried(signature: Signature, instance: Instance) -> Iterator[tuple[str, int]]:
    """The conditions that a case gives a truth value."""
    for number, rule in enumerate(signature.rules):
        try:
            if isinstance(instance.value(rule.expr), bool):
                yield "", number
        except RowFault:
            continue
    for item in signature.inputs:
        # The row's own check has made these values, and asked each predicate about them.
        if item.values is not None and instance.inputs[item.name] is not None:
            yield from ((item.name, number) for number in range(len(item.requires)))
