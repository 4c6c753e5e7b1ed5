"""How commands print: tables for a person, JSON for a program."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tileops_core.cli.streams import write

Command = TypeVar("Command", bound=Callable[..., Any])

_UNSEEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What moves the cursor, ends a line or turns text around: no part of a line that is shown."""

_IN_WORDS = (("∀", "forall"), ("∈", "in"), ("→", "->"), ("×", "x"))


def json_option(command: Command) -> Command:
    """Give a command the flag ``--json``, as parameter ``as_json``."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
    return option(command)


def print_json(data: object) -> None:
    """Print plain data as JSON."""
    write(json.dumps(data, indent=2, default=str) + "\n")


class Page:
    """What a command prints for a person, top to bottom.

    In a terminal, colors and lines as wide as the window; elsewhere plain text whose lines are as
    long as they are, so that ``grep`` finds a whole row.
    """

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._encoding = sys.stdout.encoding or "utf-8"
        # Not the standard output itself, because rich has its own ways with a pipe that is closed.
        self._drawn = io.StringIO()
        self._console = Console(
            file=self._drawn,
            highlight=False,
            markup=False,
            emoji=False,
            force_terminal=self._terminal,
            color_system="auto" if self._terminal else None,
            width=None if self._terminal else 100_000,
        )

    def heading(self, text: str) -> None:
        """A line above a block, with an empty line before it."""
        self.line()
        self.line(text, style="bold")

    def line(self, text: str | Text = "", style: str = "") -> None:
        """One line of text."""
        if isinstance(text, str):
            text = Text(self.encodable(text), style=style)
        else:
            text = Text(self.encodable(text.plain, keep_length=True), text.style, spans=text.spans)
        if self._terminal:
            self.show(text)
        else:
            write(f"{text.plain}\n")

    def show(self, renderable: Any) -> None:
        """Anything that rich can draw."""
        write(self._draw(renderable, soft_wrap=isinstance(renderable, Text)))

    def table(self, columns: list[str], rows: list[list[str]]) -> None:
        """Rows below column names; nothing at all when there is no row."""
        if not rows:
            return
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for column in columns:
            # The first column holds the name that somebody may want to copy.
            no_wrap = column == columns[0]
            table.add_column(Text(self.encodable(column)), overflow="fold", no_wrap=no_wrap)
        for row in rows:
            table.add_row(*(Text(self.encodable(cell)) for cell in row))
        # rich fills the last column up, which nobody wants in a file.
        for line in self._draw(table).splitlines():
            write(f"{line.rstrip()}\n")

    def _draw(self, renderable: Any, *, soft_wrap: bool = False) -> str:
        self._console.print(renderable, soft_wrap=soft_wrap)
        text = self._drawn.getvalue()
        self._drawn.seek(0)
        self._drawn.truncate()
        return text

    def encodable(self, text: str, *, keep_length: bool = False) -> str:
        """The text without what is no part of a line, in words where the encoding lacks its signs.

        Args:
            text: The text.
            keep_length: Put one character in the place of one, for what stands below another line.
        """
        text = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)
        try:
            text.encode(self._encoding)
        except (UnicodeEncodeError, LookupError):
            for sign, words in () if keep_length else _IN_WORDS:
                text = text.replace(sign, words)
            with suppress(LookupError):
                return text.encode(self._encoding, "replace").decode(self._encoding)
            return text.encode("ascii", "replace").decode()
        return text
