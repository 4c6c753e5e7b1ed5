"""Leave out what is wrong in an entry, and what reads it, so that the rest can be checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileops_core.errors import ManifestError
from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import Problem
from tileops_core.spans import Span
from tileops_core.spec.entries import UNREADABLE, FamilyEntry, ParamEntry, Spec
from tileops_core.spec.problems import CODES as READER
from tileops_core.spec.shared_types import SharedTypes

_ROUNDS = 8
_DECLARATIONS = (
    "forall", "params", "inputs", "outputs", "types", "lets", "rules", "dtype_combos",
    "composition", "roofline", "workloads",
)  # fmt: skip
_REMOVABLE = frozenset(
    {"workloads", "rules", "lets", "outputs", "roofline", "composition", "dtype_combos"}
)
"""The declarations that an entry can stand without."""

_ROWS = frozenset({"row", "rule-unchecked"})
_BRANCHES = frozenset({"branch-unsettled", "effect-branch", "no-value"})
_REST = frozenset({"unsolved", "no-branch", "too-many-branches"})
"""Codes of later checks."""


@attrs.frozen
class Reduced:
    """What is left of an entry, and what was dropped of it."""

    signature: Signature
    dropped: frozenset[str]

    def stands(self, problem: Problem) -> bool:
        """Whether a problem of what is left is one of the whole entry too."""
        if self.dropped & {"rules", "dtype_combos"} and problem.code in _BRANCHES:
            return False  # what was left out may rule out the branch that is at fault
        if "workloads" in self.dropped and problem.code in _ROWS:
            # The row left out may be the one that passes a tensor, or tries a rule.
            return any(problem.span == row.span for row in self.signature.workloads)
        return problem.code in _ROWS | _BRANCHES | _REST


def reduced(spec: Spec, types: SharedTypes | None, problems: tuple[Problem, ...]) -> Reduced | None:
    """The entry without its wrong declarations; None where it cannot stand without them.

    Args:
        spec: The entry.
        types: The types that it shares with others; None for the installed manifest's.
        problems: All that was found in it.
    """
    spec = attrs.evolve(spec, problems=())
    dropped: set[str] = set()
    for _ in range(_ROUNDS):
        holders = _holders(spec)
        for problem in problems:
            holder = _holder(holders, problem.span)
            if holder is None:
                continue  # the entry itself, whose parts stand nevertheless
            field, item = holder
            if problem.code in READER and _is_complete(item):
                continue  # a key too many, or one that stands twice
            if field not in _REMOVABLE:
                return None
            dropped.add(field)
            spec = _without(spec, field, item)
        try:
            return Reduced(build_signature(spec, types), frozenset(dropped))
        except ManifestError as error:
            problems = error.problems
    return None


def _is_complete(item: Any) -> bool:
    """Whether all of a declaration was read that its meaning needs."""
    if isinstance(item, ParamEntry):
        written = item.default is None or item.default.value is not UNREADABLE
        return bool(item.type.value) and written and _is_complete(item.tensor)
    if isinstance(item, FamilyEntry):
        return all(case.shape is not None for case in item.cases)
    needed = ("dtype", "shape", "optional", "mutated", "expr", "flops")
    if getattr(item, "values", None) is UNREADABLE:
        return False
    return all(getattr(item, name, True) is not None for name in needed)


def _holders(spec: Spec) -> list[tuple[tuple[int, int], str, Any]]:
    """Every declaration and where it begins, in the order of the text."""
    found = []
    for field in _DECLARATIONS:
        value = getattr(spec, field)
        for item in value if isinstance(value, tuple) else [value]:
            if item is not None:
                found.append((min((s.line, s.column) for s in _spans(item)), field, item))
    return sorted(found, key=lambda holder: holder[0])


def _holder(holders: list[tuple[tuple[int, int], str, Any]], place: Span) -> tuple[str, Any] | None:
    """The last declaration that begins at or before a place."""
    before = [(f, item) for start, f, item in holders if start <= (place.line, place.column)]
    return before[-1] if before else None


def _without(spec: Spec, field: str, item: Any) -> Spec:
    value = getattr(spec, field)
    left = tuple(i for i in value if i is not item) if isinstance(value, tuple) else None
    change: dict[str, Any] = {field: left}
    return attrs.evolve(spec, **change)


def _spans(value: Any) -> set[Span]:
    """Every place that a declaration knows of its parts."""
    found: set[Span] = set()
    if isinstance(value, Span):
        found.add(value)
    elif isinstance(value, tuple):
        found = found.union(*map(_spans, value))
    elif isinstance(value, Mapping):
        found = found.union(*map(_spans, value.values()))
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            found |= _spans(getattr(value, field.name))
    return found
