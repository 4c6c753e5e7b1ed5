"""``tileops ops``: who serves which op on this machine."""

from __future__ import annotations

from typing import Any

import click

from tileops_core.backend.registry import REGISTRY
from tileops_core.cli import completion
from tileops_core.cli.group import one_of
from tileops_core.cli.output import Page, json_option, print_json
from tileops_core.cli.survey import NOBODY, Entry, Survey, tell_failures
from tileops_core.spec.reader import SPEC_ONLY, STATUSES


@click.command()
@click.option(
    "--family",
    metavar="F",
    shell_complete=completion.families,
    help="Only ops of this family.",
)
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    help="Only ops that have a class, or only those that have none yet.",
)
@click.option(
    "--target",
    metavar="T",
    shell_complete=completion.targets,
    help="Only this target's column.",
)
@json_option
def ops(family: str | None, status: str | None, target: str | None, as_json: bool) -> None:
    """Print the support matrix: op by target, on this machine.

    A cell holds the device types here that the target is for; "by name" where it claims none of
    them and runs if it is named; "-" where naming it is an error. An op that is spec-only has a
    contract and no class yet.
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
        if family in (None, entry.family) and status in (None, entry.status)
    ]
    tell_failures(seen)
    if as_json:
        print_json(rows)
        return
    waiting = [row for row in rows if row["status"] == SPEC_ONLY]
    defaults = [f"default on {device}" for device in seen.devices] if target is None else []
    page = Page()
    page.table(
        ["family", "op", *(["status"] if waiting else []), *defaults, *names],
        [
            [
                row["family"],
                row["op"],
                *([row["status"]] if waiting else []),
                *(_defaults(row) if target is None else ()),
                *map(cell, row["targets"].values()),
            ]
            for row in rows
        ],
    )
    if not rows:
        page.line("no op is of this family and this status")
    if waiting:
        page.line()
        page.line(
            f"{len(rows) - len(waiting)} of {len(rows)} ops have a class; of the others there is "
            "the contract, which `tileops show OP` prints"
        )
    if target is not None:
        served = [row["op"] for row in rows if row["targets"][target] is not None]
        page.line(f"{target} serves {len(served)} of {len(rows)}: {', '.join(served) or 'none'}")


def _defaults(row: dict[str, Any]) -> list[str]:
    """Who serves an op by default on each device; nobody can call one that has no class."""
    idle = row["status"] == SPEC_ONLY
    return ["-" if idle and who == NOBODY else who for who in row["default"].values()]


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
