"""``tileops ops``: who serves which op on this machine."""

from __future__ import annotations

from typing import Any

import click

from tileops_core.backend.registry import REGISTRY
from tileops_core.cli.group import one_of
from tileops_core.cli.output import Page, json_option, print_json
from tileops_core.cli.survey import Entry, Survey, tell_failures


@click.command()
@click.option("--family", metavar="F", help="Only ops of this family.")
@click.option("--target", metavar="T", help="Only this target's column.")
@json_option
def ops(family: str | None, target: str | None, as_json: bool) -> None:
    """Print the support matrix: op by target, on this machine.

    A cell holds the device types here that the target is for; "by name" where it claims none of
    them and runs if it is named; "-" where naming it is an error.
    """
    seen = Survey()
    if family is not None:
        one_of("family", family, sorted({entry.family for entry in seen.entries.values()}))
    names = list(REGISTRY.target_names())
    if target is not None:
        one_of("target", target, names)
        names = [target]
    rows = [
        _row(seen, entry, names)
        for entry in seen.entries.values()
        if family is None or entry.family == family
    ]
    tell_failures(seen)
    if as_json:
        print_json(rows)
        return
    defaults = [f"default on {device}" for device in seen.devices] if target is None else []
    page = Page()
    page.table(
        ["family", "op", *defaults, *names],
        [
            [
                row["family"],
                row["op"],
                *(row["default"].values() if target is None else ()),
                *map(cell, row["targets"].values()),
            ]
            for row in rows
        ],
    )


def _row(seen: Survey, entry: Entry, names: list[str]) -> dict[str, Any]:
    return {
        "op": entry.op,
        "family": entry.family,
        "status": entry.status,
        "default": {str(device): seen.by_default(entry.op, device) for device in seen.devices},
        "targets": {name: seen.serves(entry.op, name) for name in names},
    }


def cell(served: list[str] | None) -> str:
    """Where a target serves an op, as one cell of a table."""
    if served is None:
        return "-"
    return " ".join(served) or "by name"
