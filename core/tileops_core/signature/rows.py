"""Workload rows against the signature: names, kinds, dtypes, labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.kinds import DTypeKind, Kind, SeqKind
from tileops_core.signature.metadata import ROW_FUNCTIONS
from tileops_core.signature.model import REQUIRED, IndexDecl, Input, Param, Workload
from tileops_core.signature.problems import Problems
from tileops_core.signature.rules import names_in
from tileops_core.signature.types import misfit
from tileops_core.signature.values import LISTS
from tileops_core.spec.entries import RowEntry, Written
from tileops_core.spec.grammar import GrammarError, parse_expression
from tileops_core.spec.problems import first_strays
from tileops_core.suggest import did_you_mean, listed

_LABEL = re.compile(r"[A-Za-z0-9._-]{1,24}", re.ASCII)


def build_rows(
    rows: Iterable[RowEntry],
    indices: tuple[IndexDecl, ...],
    params: tuple[Param, ...],
    inputs: tuple[Input, ...],
    broken: frozenset[str],
    problems: Problems,
) -> tuple[Workload, ...]:
    """The rows as workloads. Whether a row fits its branch is found out by instantiating it.

    Args:
        rows: The rows as they are written.
        indices: The signature's indices.
        params: Its parameters.
        inputs: Its inputs.
        broken: Names whose declarations are wrong, so that nothing can be said of their values.
        problems: Receives what is wrong with the rows.
    """
    builder = _Rows(indices, params, inputs, broken, problems)
    return tuple(builder.row(row) for row in rows)


class _Rows:
    def __init__(
        self,
        indices: tuple[IndexDecl, ...],
        params: tuple[Param, ...],
        inputs: tuple[Input, ...],
        broken: frozenset[str],
        problems: Problems,
    ) -> None:
        self.broken = broken
        self.params = {param.name: param.kind for param in params if param.tensor is None}
        self.required = [
            param.name
            for param in params
            if param.default is REQUIRED and param.name in self.params.keys() - broken
        ]
        self.lengths: dict[str, Kind] = {}
        self.dtypes: dict[str, Kind] = {}
        for index in indices:
            into = self.dtypes if isinstance(index.kind, DTypeKind) else self.lengths
            into[index.name] = index.kind
        self.kinds = {**self.params, **self.lengths}
        tensors = (*(param.tensor for param in params if param.tensor), *inputs)
        self.choices = [item.name for item in tensors if item.optional is True]
        self.problems = problems

    def row(self, row: RowEntry) -> Workload:
        """One row."""
        label = row.label.value
        if (label or row.whole) and not _LABEL.fullmatch(label):
            self.problems.add(
                "row",
                f"{label!r} is no label",
                row.label.span,
                "1 to 24 letters, digits, dots, dashes and underscores",
            )
        values = self._lists(row.values, label)
        small = self._lists(row.small or {}, f"{label}: small")
        self._check(values, self.kinds, label)
        self._check(small, self.kinds, f"{label}: small")
        self._check_small(small, row, values)
        if row.whole:
            self._check_absences(row, label)
        self._check_some(row.some, label)
        for case in row.dtype_cases:
            self._check(case, self.dtypes, f"{label}: dtype_cases")
        self._check_repetitions(row.dtype_cases, label)
        return Workload(
            label=label,
            params=_only(values, self.params),
            some=tuple(name.value for name in row.some),
            indices=_only(values, self.lengths),
            dtype_cases=tuple(_only(case, self.dtypes) for case in row.dtype_cases) or ({},),
            small=_only(small, self.kinds) if row.small is not None else None,
            span=row.span,
        )

    def _check_absences(self, row: RowEntry, label: str) -> None:
        for name in self.required:
            if name not in row.values:
                self.problems.add("row", f"{label} has no {name}, which has no default", row.span)
        if self.dtypes and not row.dtype_cases:
            self.problems.add(
                "row",
                f"{label} has no dtype_cases",
                row.span,
                f"write dtype_cases: [{{{next(iter(self.dtypes))}: ...}}]",
            )

    def _check_some(self, some: tuple[Written, ...], label: str) -> None:
        seen: set[str] = set()
        for name in some:
            if name.value not in self.choices and name.value not in self.broken:
                self.problems.add(
                    "row",
                    f"{label}: some names {name.value!r}, which is no tensor with optional: true"
                    f"{did_you_mean(name.value, self.choices)}",
                    name.span,
                )
            elif name.value in seen:
                self.problems.add("row", f"{label}: some names {name.value} twice", name.span)
            seen.add(name.value)

    def _check_repetitions(self, cases: tuple[Mapping[str, Written], ...], label: str) -> None:
        seen: set[frozenset[tuple[str, str]]] = set()
        for case in cases:
            found = frozenset((name, str(written.value)) for name, written in case.items())
            if found in seen and case:
                shown = ", ".join(f"{name}: {written.value}" for name, written in case.items())
                span = next(iter(case.values())).span
                self.problems.add("row", f"{label}: dtype_cases has {{{shown}}} twice", span)
            seen.add(found)

    def _check_small(
        self, small: Mapping[str, Written], row: RowEntry, values: Mapping[str, Written]
    ) -> None:
        """A parameter that the row leaves out has its default, which small sizes may change."""
        for name, written in small.items():
            if row.whole and name in self.lengths.keys() - values.keys() - self.broken:
                self.problems.add(
                    "row",
                    f"{row.label.value}: small gives {name}, which the row itself does not give",
                    written.span,
                    "a row gives what its small sizes change",
                )

    def _lists(self, values: Mapping[str, Written], what: str) -> dict[str, Written]:
        """The values, lists that are written as calls replaced by what those give."""
        return {
            name: self._list(name, written, what)
            if isinstance(self.lengths.get(name), SeqKind) and isinstance(written.value, str)
            else written
            for name, written in values.items()
        }

    def _list(self, name: str, written: Written, what: str) -> Written:
        span = written.span
        quoted = span.text[span.column - 1 : span.column] in ("'", '"')
        try:
            expr = parse_expression(written.value, span.at(int(quoted)).at)
        except GrammarError as error:
            message = f"{what}: {name}: {error.message}"
            self.problems.add(error.code, message, error.span, error.hint)
            return Written((), span)
        names = sorted(names_in(expr))
        if names:
            self.problems.add(
                "row",
                f"{what}: {name}: {names[0]} stands as an argument, and those in rows are numbers",
                span,
                "write the number itself",
            )
            return Written((), span)
        noun = f"a list of ints, as in {' or '.join(f'{f}(...)' for f in LISTS)},"
        checker = Checker(Scope({}, self.problems, functions=ROW_FUNCTIONS))
        if checker.expect(expr, lambda kind: isinstance(kind, SeqKind), noun) is None:
            return Written((), span)
        try:
            return Written(evaluate(expr, {}), span)
        except (ValueError, ArithmeticError) as error:
            self.problems.add("row", f"{what}: {name}: {error}", span)
            return Written((), span)

    def _check(self, values: Mapping[str, Written], kinds: Mapping[str, Kind], what: str) -> None:
        strays = [(n, w) for n, w in values.items() if n not in kinds and n not in self.broken]
        for (name, written), more in first_strays(strays):
            message = f"{name!r} is nothing that a row gives here{did_you_mean(name, kinds)}"
            if more:
                message = f"{more} more names are nothing that a row gives here"
            hint = f"known are {listed(kinds)}"
            self.problems.add("row", f"{what}: {message}", written.span, hint)
        for name, written in values.items():
            known = name in kinds and name not in self.broken
            if known and (why := misfit(written.value, kinds[name])):
                self.problems.add("row", f"{what}: {name}: {why}", written.span)


def _only(values: Mapping[str, Written], kinds: Mapping[str, Kind]) -> Mapping[str, Any]:
    return {name: w.value for name, w in values.items() if name in kinds}
