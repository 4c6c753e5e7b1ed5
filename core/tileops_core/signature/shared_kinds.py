"""The kinds of the types that entries share, checked when the first entry names one."""

from __future__ import annotations

from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.kinds import AdtKind, Constructor, Kind, OpaqueKind
from tileops_core.signature.problems import Problem, Problems
from tileops_core.signature.types import TypeTextError, field_kind
from tileops_core.spec.entries import ConstructorEntry, SharedTypeEntry
from tileops_core.spec.shared_types import SharedTypes

_TAKEN = frozenset({"kind", "value"})


class SharedKindsOf:
    """The kinds of shared types for one entry; calling it with a name gives the kind.

    Args:
        types: The manifest's shared types.
        problems: Receives what is wrong with those that the entry names.
    """

    def __init__(self, types: SharedTypes, problems: Problems) -> None:
        self._types = types
        self._problems = problems
        self.used: dict[str, AdtKind | OpaqueKind] = {}

    def __call__(self, name: str) -> Kind | None:
        """The kind of a shared type, or None when there is none of that name."""
        if name in self.used:
            return self.used[name]
        entry = self._types.get(name)
        if entry is None:
            return None
        kind, found = kind_of(entry)
        for problem in found:
            self._problems.add(problem.code, problem.message, problem.span, problem.hint)
        self.used[name] = kind
        return kind


def kind_of(entry: SharedTypeEntry) -> tuple[AdtKind | OpaqueKind, tuple[Problem, ...]]:
    """The kind of a shared type, and what is wrong with its declaration."""
    problems = Problems(entry.problems)
    if entry.opaque is not None:
        return OpaqueKind(entry.name, entry.opaque.value), tuple(problems)
    forms = tuple(_constructor(entry.name, form, problems) for form in entry.constructors)
    classes: dict[str, str] = {}
    for form in entry.constructors:
        path = form.python.value if form.python else ""
        if path in classes:
            problems.add(
                "wrong-value",
                f"{entry.name}: {form.name} has the Python class of {classes[path]}, which tells "
                "its values apart",
                form.span,
            )
        classes.setdefault(path, form.name)
    return AdtKind(entry.name, forms), tuple(problems)


def _constructor(sum_name: str, entry: ConstructorEntry, problems: Problems) -> Constructor:
    fields: dict[str, Kind] = {}
    for name, text in entry.fields:
        if name in _TAKEN:
            problems.add("bad-name", f"{sum_name}: {name!r} has a meaning of its own", text.span)
        try:
            fields[name] = field_kind(text.value)
        except TypeTextError as error:
            message, hint = error.told(f"{name} is of type {text.value!r}")
            problems.add("unknown-type", f"{sum_name}.{entry.name}: {message}", text.span, hint)
    checker = Checker(Scope(dict(fields), problems))
    for rule in entry.invariant:
        if rule.expr is not None:
            checker.boolean(rule.expr)
    return Constructor(
        entry.name,
        entry.python.value if entry.python else "",
        tuple(fields.items()),
        tuple((rule.text, rule.expr) for rule in entry.invariant if rule.expr is not None),
    )
