"""``tileops validate``: every fault of a manifest and of the code behind it."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from tileops_core.cli import completion
from tileops_core.cli.group import one_of
from tileops_core.cli.output import Page, print_json
from tileops_core.cli.streams import write
from tileops_core.validate import Counts, Finding, Report
from tileops_core.validate import validate as find
from tileops_core.validate.codes import CODES
from tileops_core.validate.explain import explain, explain_word
from tileops_core.validate.language import topics, topics_named

FORMATS = ("human", "json", "github")
MOST = 20
"""How many findings of one file a person is shown, unless they ask for all."""


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="human",
    show_default=True,
    help="For a person, for a program, or for GitHub to show at the line.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--explain",
    "word",
    metavar="CODE|WORD",
    shell_complete=completion.words,
    help="Say what a code means, or a word of the language, and show a case.",
)
@click.option("--no-code", is_flag=True, help="Look at entries only; import no op.")
@click.option("--all", "every", is_flag=True, help=f"Show more than {MOST} findings of one file.")
def validate(
    paths: tuple[str, ...],
    form: str,
    as_json: bool,
    word: str | None,
    no_code: bool,
    every: bool,
) -> int:
    """Find every fault of manifest files, and of the classes of implemented ops.

    PATH is a spec file, or a folder of them. Without one, everything installed is checked: the
    library's manifest, and the spec files that backends name. The exit status is 1 when something
    was found, and when there was no entry to check.
    """
    for path in paths:
        if not os.path.lexists(path):
            message = f"there is no file or folder {path!r}"
            raise click.UsageError(message, click.get_current_context())
    form = "json" if as_json else form
    if word is not None:
        return _explain(word, form)
    with _progress(form) as progress:
        report = find(paths or None, code=not no_code, progress=progress)
    if form == "json":
        _print_json(report)
    elif form == "github":
        for finding in report:
            write(f"{annotation(finding)}\n")
    else:
        _print(report, every)
    return int(bool(report))


def _explain(word: str, form: str) -> int:
    one_of("code or word", word, (*CODES, *(topic.name for topic in topics())))
    text = "\n\n".join(filter(None, (explain(word) if word in CODES else "", explain_word(word))))
    if form != "json":
        page = Page()
        for line in text.splitlines():
            page.line(line)
    elif word in CODES:
        print_json({"code": word, "meaning": CODES[word], "text": text})
    else:
        print_json({"word": word, "means": list(map(attrs.asdict, topics_named(word)))})
    return 0


@contextmanager
def _progress(form: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar on stderr for a person who waits; nothing where nobody looks."""
    if form != "human" or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, op: bar.update(task, completed=done, total=total, description=op)


# -- for a person -------------------------------------------------------------------------


def _print(report: Report, every: bool) -> None:
    page = Page()
    for path, group in itertools.groupby(report, lambda finding: finding.span.path):
        findings = list(group)
        for finding in findings if every else findings[:MOST]:
            for line in lines_of(finding):
                page.line(line)
            page.line()
        if len(findings) > MOST and not every:
            more = _many(len(findings) - MOST, "more finding")
            page.line(f"{path}: {more}; --all shows all, as do --format json and github", "bold")
            page.line()
    for note in report.notes if every else report.notes[:MOST]:
        page.line(f"note: {note}")
    if len(report.notes) > MOST and not every:
        page.line(f"note: {_many(len(report.notes) - MOST, 'more note')}; --all shows all")
    page.line(summary(report), "bold red" if report else "bold green")


def lines_of(finding: Finding) -> Iterator[Text]:
    """A finding as lines: place and sentence, the text with a caret, the hint."""
    op = f"{finding.op}: " if finding.op else ""
    yield Text.assemble(
        (f"{finding.place}: ", "bold"), op, finding.message, "  ", (f"[{finding.code}]", "cyan")
    )
    snippet = finding.span.snippet().splitlines()
    for number, line in enumerate(snippet):
        yield Text(f"  {line}", style="bold red" if number else "")
    if finding.hint:
        yield Text.assemble(("  hint: ", "bold"), finding.hint)


def summary(report: Report) -> str:
    """One sentence about all of it."""
    counts = report.counts
    looked = ", ".join(
        [
            *([f"{_many(counts.types, 'shared type')}"] if counts.types else []),
            f"{_many(counts.entries, 'entry', 'entries')} in {_many(counts.files, 'file')}",
            f"{counts.rules_checked} of {_many(counts.rules, 'rule')}",
            _many(counts.branches, "branch", "branches"),
            _many(counts.cases, "case"),
            *_classes(counts),
            *_not_evaluated(counts),
        ]
    )
    if not report:
        return f"no findings: checked {looked}"
    ops = len({finding.op or finding.span.path for finding in report})
    return f"{_many(len(report), 'finding')} in {_many(ops, 'place')}: checked {looked}"


def _classes(counts: Counts) -> list[str]:
    return [_many(counts.classes, "class", "classes")] if counts.classes else []


def _not_evaluated(counts: Counts) -> list[str]:
    count = counts.not_evaluated
    return [f"{_many(count, 'expression')} not evaluated"] if count else []


def _many(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


# -- for programs -------------------------------------------------------------------------


def _print_json(report: Report) -> None:
    """The report, a finding in each line: there may be too many to hold in memory as text."""
    rest = {"counts": attrs.asdict(report.counts), "notes": list(report.notes)}
    write('{"findings": [')
    for number, finding in enumerate(report):
        write(f"{',' if number else ''}\n  {json.dumps(finding.as_dict())}")
    write(f"\n], {json.dumps(rest)[1:]}\n")


# -- for GitHub ---------------------------------------------------------------------------


def annotation(finding: Finding) -> str:
    """A finding as a workflow command, which GitHub shows at the line."""
    span = finding.span
    properties = {}
    if not span.keys:  # else it is in no file that GitHub could show
        properties["file"] = span.path
    if span.line and not span.keys:
        properties["line"] = str(span.line)
        properties["col"] = str(span.column)
        properties["endColumn"] = str(span.column + span.length)
    properties["title"] = finding.code
    op = f"{finding.op}: " if finding.op else ""
    op += f"{span.keys}: " if span.keys else ""
    hint = f"\nhint: {finding.hint}" if finding.hint else ""
    stated = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::error {stated}::{_escaped(f'{op}{finding.message}{hint}')}"


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text
