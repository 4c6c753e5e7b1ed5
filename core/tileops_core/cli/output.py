"""How commands print: tables for a person, JSON for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Give a command the flag ``--json``, as parameter ``as_json``."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
    return option(command)


def print_json(data: object) -> None:
    """Print plain data as JSON."""
    click.echo(json.dumps(data, indent=2, default=str))


class Page:
    """What a command prints for a person, top to bottom.

    In a terminal, colors and lines as wide as the window; elsewhere plain text whose lines are as
    long as they are, so that ``grep`` finds a whole row.
    """

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        self.console = Console(
            file=sys.stdout,
            highlight=False,
            markup=False,
            emoji=False,
            force_terminal=None if terminal else False,
            color_system="auto" if terminal else None,
            width=None if terminal else 100_000,
        )

    def heading(self, text: str) -> None:
        """A line above a block, with an empty line before it."""
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def line(self, text: str = "", style: str = "") -> None:
        """One line of text."""
        self.console.print(Text(self.encodable(text), style=style), soft_wrap=True)

    def table(self, columns: list[str], rows: list[list[str]]) -> None:
        """Rows below column names; nothing at all when there is no row."""
        if not rows:
            return
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for column in columns:
            # The first column holds the name that somebody may want to copy.
            table.add_column(column, overflow="fold", no_wrap=column == columns[0])
        for row in rows:
            table.add_row(*(Text(self.encodable(cell)) for cell in row))
        with self.console.capture() as capture:
            self.console.print(table)
        # rich fills the last column up, which nobody wants in a file.
        for line in capture.get().splitlines():
            click.echo(line.rstrip())

    def encodable(self, text: str) -> str:
        """The text, in words where the output's encoding lacks its signs."""
        try:
            text.encode(self.console.encoding)
        except (UnicodeEncodeError, LookupError):
            for sign, words in (("∀", "forall"), ("∈", "in"), ("→", "->"), ("×", "x")):
                text = text.replace(sign, words)
            return text.encode("ascii", "replace").decode()
        return text
