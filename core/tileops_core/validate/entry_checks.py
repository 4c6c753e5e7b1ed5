"""All that can be said of one entry without running code."""

from __future__ import annotations

import attrs

from tileops_core.errors import ManifestError
from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import Problem, Problems
from tileops_core.signature.solving import solve
from tileops_core.signature.workload import Tried
from tileops_core.spec.entries import Spec
from tileops_core.spec.names import is_dotted
from tileops_core.spec.shared_types import SharedTypes
from tileops_core.validate.branch_checks import check_branches
from tileops_core.validate.idle_checks import check_constants, check_idle
from tileops_core.validate.reduce import reduced
from tileops_core.validate.report import Counts
from tileops_core.validate.row_checks import check_rows
from tileops_core.validate.value_checks import check_values


@attrs.frozen
class Checked:
    """One entry after its static checks; ``signature`` is None where it cannot be built.

    ``notes`` name what was not evaluated; ``rows`` are the cases that the entry accepts, None where
    what was tried is less than the entry.
    """

    spec: Spec
    signature: Signature | None
    problems: tuple[Problem, ...]
    counts: Counts
    notes: tuple[str, ...] = ()
    rows: tuple[Tried, ...] | None = None


def check_entry(spec: Spec, types: SharedTypes | None = None) -> Checked:
    """Check one entry statically.

    A declaration that is wrong is reported and left out, with what reads it, so that the rest is
    still checked; where the rest cannot stand without it, the entry's own problems are all.

    Args:
        spec: The entry.
        types: The types that it shares with others; None for the installed manifest's.
    """
    counts = Counts(entries=1, rules=rules_in(spec))
    signature, problems = build(spec, types)
    _check_ref_api(spec, problems)
    if signature is not None:
        checked = check_constants(signature, problems)
        check_idle(checked, spec, types, problems)
        rows = _check(checked, problems, counts)
        notes = check_values(checked, [row.instance for row in rows], problems, counts)
        whole = rows if checked is signature else None
        return Checked(spec, signature, tuple(problems), counts, notes, whole)
    kept = reduced(spec, types, tuple(problems))
    if kept is not None:
        more = Problems()
        left = check_constants(kept.signature, more)
        rows = _check(left, more, counts)
        # What was dropped may be what reaches.
        check_values(left, [row.instance for row in rows], more, Counts())
        for problem in more:
            if kept.stands(problem):
                problems.add(problem.code, problem.message, problem.span, problem.hint)
    return Checked(spec, None, tuple(problems), counts)


def build(spec: Spec, types: SharedTypes | None) -> tuple[Signature | None, Problems]:
    """The entry's signature, or None and its problems."""
    try:
        return build_signature(spec, types), Problems()
    except ManifestError as error:
        return None, Problems(error.problems)


def rules_in(spec: Spec) -> int:
    """How many conditions the entry states: refinements, the table of dtypes that go together, and
    predicates of metadata tensors.
    """
    predicates = sum(len(item.requires) for item in spec.inputs)
    return len(spec.rules) + bool(spec.dtype_combos) + predicates


def _check_ref_api(spec: Spec, problems: Problems) -> None:
    name = spec.ref_api
    if name is not None and not is_dotted(name):
        problems.add(
            "ref-api",
            f"ref_api {name!r} is no dotted name",
            spec.span,
            "name a module and what is in it, as in torch.nn.functional.gelu",
        )


def _check(signature: Signature, problems: Problems, counts: Counts) -> tuple[Tried, ...]:
    """Check branches and rows; gives the cases of the rows that are accepted."""
    solution = solve(signature)
    for problem in solution.unsolved:
        problems.add(problem.code, problem.message, problem.span, problem.hint)
    if not solution.unsolved:
        counts.branches += check_branches(signature, solution, problems)
    return check_rows(signature, problems, counts)
