"""What a validation found, and how much it looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from tileops_core.spans import Span
from tileops_core.spec.problems import Problem


@attrs.frozen(order=False)
class Finding:
    """One fault of a manifest, or of the code that stands behind an entry.

    Args:
        code: its stable code; ``tileops validate --explain CODE`` and the docs say what it means.
        message: what is wrong, one sentence.
        op: the entry at fault; ``""`` when a file is.
        span: where: file, line, column, and the text.
        hint: what to write instead; ``""`` where nothing follows from the fault.
    """

    code: str
    message: str
    op: str
    span: Span
    hint: str = ""

    @classmethod
    def of(cls, problem: Problem, op: str = "") -> Finding:
        """A problem of the language, as a finding about an entry."""
        return cls(problem.code, problem.message, op, problem.span, problem.hint)

    @property
    def place(self) -> str:
        """``norm.yaml:12:9``, or of an entry given in Python the path of keys."""
        return self.span.place

    def as_dict(self) -> dict[str, Any]:
        """Everything about the finding, as plain data.

        Line and column are None of a file as a whole, and of an entry given in Python, which has
        ``keys`` instead. Of a very long line ``text`` is the part around the place.
        """
        in_a_line = self.span.line > 0 and not self.span.keys
        return {
            "code": self.code,
            "message": self.message,
            "op": self.op,
            "path": self.span.path,
            "line": self.span.line if in_a_line else None,
            "column": self.span.column if in_a_line else None,
            "length": self.span.length,
            "keys": self.span.keys or None,
            "text": self.span.excerpt()[0],
            "snippet": self.span.snippet(),
            "hint": self.hint,
        }


@attrs.define
class Counts:
    """How much was declared, and how much of it was checked.

    ``rules`` are refinements and the predicates of metadata tensors. One is checked when at least
    one workload row gave it a truth value; whatever keeps it from being checked is a finding.
    ``not_evaluated`` are parts of expressions that no row evaluates, nor any call made for them;
    the report's notes name them.
    """

    files: int = 0
    types: int = 0
    entries: int = 0
    rules: int = 0
    rules_checked: int = 0
    branches: int = 0
    cases: int = 0
    classes: int = 0
    not_evaluated: int = 0

    def add(self, other: Counts) -> None:
        """Add another count to this one."""
        for field in attrs.fields(Counts):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@attrs.frozen
class Report:
    """The findings of one validation, in the order of the files, and its counts."""

    findings: tuple[Finding, ...]
    counts: Counts
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether something was found."""
        return bool(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def codes(self) -> frozenset[str]:
        """The codes of all findings."""
        return frozenset(finding.code for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "findings": [finding.as_dict() for finding in self.findings],
            "counts": attrs.asdict(self.counts),
            "notes": list(self.notes),
        }


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by file, then by place, each once."""
    unique = {(f.code, f.message, f.op, f.place): f for f in findings}
    return tuple(
        sorted(unique.values(), key=lambda f: (f.span.path, f.span.line, f.span.column, f.code))
    )
