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
from tileops_core.signature.types import misfit
from tileops_core.signature.values import LISTS
from tileops_core.spec.entries import RowEntry, Written
from tileops_core.spec.grammar import GrammarError, parse_expression
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
        if not _LABEL.fullmatch(label):
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
        for name in self.required:
            if name not in row.values:
                self.problems.add("row", f"{label} has no {name}, which has no default", row.span)
        for some in row.some:
            if some.value not in self.choices:
                self.problems.add(
                    "row",
                    f"{label}: some names {some.value!r}, which is no tensor with optional: true"
                    f"{did_you_mean(some.value, self.choices)}",
                    some.span,
                )
        if self.dtypes and not row.dtype_cases:
            self.problems.add(
                "row",
                f"{label} has no dtype_cases",
                row.span,
                f"write dtype_cases: [{{{next(iter(self.dtypes))}: ...}}]",
            )
        for case in row.dtype_cases:
            self._check(case, self.dtypes, f"{label}: dtype_cases")
        return Workload(
            label=label,
            params=_only(values, self.params),
            some=tuple(name.value for name in row.some),
            indices=_only(values, self.lengths),
            dtype_cases=tuple(_only(case, self.dtypes) for case in row.dtype_cases) or ({},),
            small=_only(small, self.kinds) if row.small is not None else None,
            span=row.span,
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
        for name, written in values.items():
            kind = kinds.get(name)
            if name in self.broken:
                continue
            if kind is None:
                self.problems.add(
                    "row",
                    f"{what}: {name!r} is nothing that a row gives here{did_you_mean(name, kinds)}",
                    written.span,
                    f"known are {listed(kinds)}",
                )
            elif why := misfit(written.value, kind):
                self.problems.add("row", f"{what}: {name}: {why}", written.span)


def _only(values: Mapping[str, Written], kinds: Mapping[str, Kind]) -> Mapping[str, Any]:
    return {name: w.value for name, w in values.items() if name in kinds}
