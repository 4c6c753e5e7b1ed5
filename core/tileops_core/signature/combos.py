"""``dtype_combos``: which dtypes of several indices and parameters go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops_core.signature.kinds import DTypeKind, Kind
from tileops_core.signature.model import DTypeCombos
from tileops_core.signature.problems import Problems
from tileops_core.signature.types import misfit
from tileops_core.spec.entries import ComboEntry
from tileops_core.suggest import did_you_mean, listed


def build_combos(
    rows: tuple[ComboEntry, ...],
    indices: Mapping[str, Kind | None],
    params: Mapping[str, Kind | None],
    problems: Problems,
) -> DTypeCombos | None:
    """The rows as one table; None when there are none, or the first names nothing that is known.

    Args:
        rows: The rows as they are written.
        indices: The kinds of the signature's indices.
        params: The kinds of its parameters.
        problems: Receives what is wrong with the rows.
    """
    if not rows:
        return None
    declared = {**indices, **params}
    kinds = {name: kind for name, kind in declared.items() if isinstance(kind, DTypeKind)}
    names = tuple(rows[0].dtypes)
    if not set(names) <= kinds.keys() or len(names) < 2 or not set(names) & indices.keys():
        unknown = next((name for name in names if name not in kinds), "")
        problems.add(
            "dtype-combos",
            f"dtype_combos names {unknown!r}, which is no dtype{did_you_mean(unknown, kinds)}"
            if unknown
            else "dtype_combos relates two dtypes or more, at least one of them an index",
            rows[0].span,
            f"the dtypes here are {listed(kinds)}",
        )
        return None
    found: dict[tuple[Any, ...], str] = {}
    for row in rows:
        if row.dtypes.keys() != set(names):
            problems.add(
                "dtype-combos",
                f"this row names {listed(row.dtypes)}, the first names {listed(names)}",
                row.span,
            )
            continue
        misfits = [
            (name, written, why)
            for name, written in row.dtypes.items()
            if (why := misfit(written.value, kinds[name]))
        ]
        for name, written, why in misfits:
            problems.add("dtype-combos", f"dtype_combos: {name}: {why}", written.span)
        if misfits:
            continue
        values = tuple(row.dtypes[name].value for name in names)
        if values in found:
            problems.add("dtype-combos", f"this row stands {found[values]} already", row.span)
        found.setdefault(values, row.span.where)
    if len(found) == len(rows):  # else what is missing may stand in a row that is wrong
        _check_members(names, kinds, found, rows, problems)
    return DTypeCombos(names, tuple(found), rows[0].span) if found else None


def _check_members(
    names: tuple[str, ...],
    kinds: Mapping[str, DTypeKind],
    found: Mapping[tuple[Any, ...], str],
    rows: tuple[ComboEntry, ...],
    problems: Problems,
) -> None:
    """Note dtypes that a name may have by its kind and has in no row."""
    for at, name in enumerate(names):
        there = {values[at] for values in found}
        missing = [member for member in kinds[name].members or () if member not in there]
        if missing:
            problems.add(
                "dtype-combos",
                f"no row of dtype_combos has {name}: {missing[0]}",
                rows[0].span,
                f"add the row, or take {missing[0]} out of the kind of {name}",
            )
