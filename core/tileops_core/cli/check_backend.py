"""``tileops check-backend``: whether a backend computes what the manifest says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from tileops_core.cli import completion
from tileops_core.cli.output import Page, json_option, print_json
from tileops_core.cli.survey import Survey, tell_failures
from tileops_core.conformance.outcomes import FAILED, XPASSED, Result
from tileops_core.conformance.report import Report, form_of, matrix, report_of
from tileops_core.conformance.suite import Request, Suite, run
from tileops_core.conformance.xfails import Xfails

MOST = 20
"""How many failures of one op a person is shown; a report has all of them."""


@click.command("check-backend")
@click.argument("target", shell_complete=completion.targets)
@click.option(
    "--op",
    "ops",
    metavar="OP",
    multiple=True,
    shell_complete=completion.ops,
    help="Only this op, by its name or as module:Class; repeatable.",
)
@click.option(
    "--family",
    "families",
    metavar="F",
    multiple=True,
    shell_complete=completion.families,
    help="Only ops of this family.",
)
@click.option("--device", metavar="D", default="cpu", show_default=True, help="Where to run.")
@click.option("--seed", metavar="N", default=0, show_default=True, help="Decides all chance.")
@click.option("--elements", metavar="N", type=int, help="Elements of a workload's tensors at most.")
@click.option(
    "--xfails",
    metavar="FILE",
    type=click.Path(),
    help="Checks that are expected to fail, one a line.",
)
@click.option(
    "--report",
    "reports",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Write a report: .json, .html or .txt; repeatable.",
)
@click.option("--quick", is_flag=True, help="Leave out what takes long (leaks).")
@json_option
def check_backend(
    target: str,
    ops: tuple[str, ...],
    families: tuple[str, ...],
    device: str,
    seed: int,
    elements: int | None,
    xfails: str | None,
    reports: tuple[str, ...],
    quick: bool,
    as_json: bool,
) -> int:
    """Run the conformance suite on TARGET, a target's name or a backend's.

    For every op that it serves on the device, every call that the manifest says to try is compared
    with an oracle, and what holds of calls altogether is looked at. The exit status is 1 when
    something failed that nobody expects to, or when there was nothing to check.
    """
    seen = Survey()  # loads the backends without a warning
    try:
        for path in reports:
            form_of(path)
        expected = Xfails.read(xfails) if xfails else Xfails()
        suite = Suite(Request(target, device, ops, families, seed, elements, not quick))
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    except OSError as error:
        message = f"{xfails} cannot be read: {error.strerror}"
        raise click.UsageError(message, click.get_current_context()) from None
    checks = list(suite.checks())
    tell_failures(seen)
    with _progress(target, len(checks), as_json) as told:
        results = run(checks, told, expected.judge)
    report = report_of(suite, results, expected)
    for path in reports:
        report.write(path)
    if as_json:
        print_json(report.as_dict())
    else:
        _print(report, reports)
    return int(not report.passed)


@contextmanager
def _progress(target: str, count: int, as_json: bool) -> Iterator[Callable[[Result], None]]:
    """A bar on stderr for a person who waits, with failures above it as they come."""
    if as_json or sys.stderr is None or not sys.stderr.isatty():
        yield lambda result: None
        return
    columns = (
        TextColumn(target),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=count)

        def told(result: Result) -> None:
            bar.update(task, advance=1, description=f"{result.op} {result.column}")
            if result.outcome == FAILED:
                bar.console.print(Text(f"failed: {result.id}", style="red"))

        yield told


def _print(report: Report, reports: tuple[str, ...]) -> None:
    page = Page()
    by_op: dict[str, list[Result]] = {}
    for result in report.results:
        if result.outcome in (FAILED, XPASSED):
            by_op.setdefault(result.op, []).append(result)
    for line in matrix(report.results, tuple(report.columns)):
        page.line(line)
    for op, wrong in by_op.items():
        page.heading(op)
        for result in wrong[:MOST]:
            page.line(f"  {result.outcome}: {result.id}")
            page.line(f"    {result.message}")
        if len(wrong) > MOST:
            page.line(f"  {len(wrong) - MOST} more; --report FILE.html has all of them")
    page.line()
    for note in report.notes:
        page.line(f"note: {note}")
    for path in reports:
        page.line(f"report: {path}")
    page.line(report.sentence(), style="bold green" if report.passed else "bold red")
