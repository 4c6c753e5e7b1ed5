"""Whether every workload row is a call that the entry accepts, and every condition is tried."""

from __future__ import annotations

from collections.abc import Iterator

from tileops_core.signature.instance import Instance, RowFault
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import Problems
from tileops_core.signature.workload import Tried, check_workloads, try_rows
from tileops_core.spans import Span
from tileops_core.validate.report import Counts


def check_rows(signature: Signature, problems: Problems, counts: Counts) -> tuple[Tried, ...]:
    """Instantiate every row, and evaluate every condition on what comes of it.

    Args:
        signature: The entry.
        problems: Receives what is wrong.
        counts: Cases, and conditions that got a truth value, are added here.

    Returns:
        The cases of the rows, those that the entry accepts.
    """
    rows = try_rows(signature)
    for problem in check_workloads(signature, rows):
        problems.add(problem.code, problem.message, problem.span, problem.hint)
    accepted = tuple(tried for tried in rows if tried.stands)
    conditions = {key: (text, span) for key, text, span in _conditions(signature)}
    tried: set[tuple[str, int]] = set()
    for case in accepted:
        if len(tried) < len(conditions):
            tried.update(_tried(signature, case.instance, tried))
    counts.cases += len(accepted)
    counts.rules_checked += len(tried)
    for key, (text, span) in conditions.items():
        if key not in tried and len(accepted) == len(rows):
            problems.add(
                "rule-unchecked",
                f"no row gives {text} a value",
                span,
                "add a row of the branch that it is about",
            )
    return accepted


def _conditions(signature: Signature) -> Iterator[tuple[tuple[str, int], str, Span]]:
    """Every condition that the entry states: whose, its number there, its text and place."""
    for number, rule in enumerate(signature.rules):
        yield ("", number), rule.text, rule.span
    for item in signature.inputs:
        for number, requirement in enumerate(item.requires):
            yield (item.name, number), f"{item.name}: {requirement.text}", requirement.span


def _tried(
    signature: Signature, instance: Instance, known: set[tuple[str, int]]
) -> list[tuple[str, int]]:
    """The conditions, but those that are known already, that a case gives a truth value."""
    found = []
    for number, rule in enumerate(signature.rules):
        if ("", number) in known:
            continue
        try:
            if isinstance(instance.value(rule.expr), bool):
                found.append(("", number))
        except RowFault:
            continue
    for item in signature.inputs:
        # The row's own check has made these values, and asked each predicate about them.
        if item.values is not None and instance.inputs[item.name] is not None:
            found += [(item.name, number) for number in range(len(item.requires))]
    return found
