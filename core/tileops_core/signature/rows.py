"""Workload rows against the signature: names, kinds, dtypes, labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tileops_core.signature.kinds import DTypeKind, Kind
from tileops_core.signature.model import REQUIRED, IndexDecl, Input, Param, Workload
from tileops_core.signature.problems import Problems
from tileops_core.signature.types import misfit
from tileops_core.spec.entries import RowEntry, Written
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
        self.params: dict[str, Kind] = {param.name: param.kind for param in params}
        self.required = [
            param.name for param in params if param.default is REQUIRED and param.name not in broken
        ]
        self.lengths: dict[str, Kind] = {}
        self.dtypes: dict[str, Kind] = {}
        for index in indices:
            into = self.dtypes if isinstance(index.kind, DTypeKind) else self.lengths
            into[index.name] = index.kind
        self.kinds = {**self.params, **self.lengths}
        self.choices = [item.name for item in inputs if item.optional is True]
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
        self._check(row.values, self.kinds, label)
        self._check(row.small or {}, self.kinds, f"{label}: small")
        for name in self.required:
            if name not in row.values:
                self.problems.add("row", f"{label} has no {name}, which has no default", row.span)
        for some in row.some:
            if some.value not in self.choices:
                self.problems.add(
                    "row",
                    f"{label}: some names {some.value!r}, which is no input with optional: true"
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
            params=_only(row.values, self.params),
            some=tuple(name.value for name in row.some),
            indices=_only(row.values, self.lengths),
            dtype_cases=tuple(_only(case, self.dtypes) for case in row.dtype_cases) or ({},),
            small=_only(row.small, self.kinds) if row.small is not None else None,
            span=row.span,
        )

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
