"""Plain text as GitHub's Markdown, which MyST reads too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SIGNS = re.compile(
    r"[\\`~$]"
    r"|(?<![\s*])\*+|\*+(?![\s*])"  # stars between blanks are stars
    r"|(?<!\w)_|_(?!\w)"  # and so are lines within words
    r"|<(?=[\w/!?])|\](?=\()|&(?=#?\w+;)"
)
_START = re.compile(r"(?:[-+*>#%=:]|\d+[.)])(?=\s|$)|[>#%]|={2,}|-{2,}")


def escaped(text: str) -> str:
    """Text that reads as itself, whatever signs it holds and whatever its lines begin with."""
    return "\n".join(map(_escaped_line, text.split("\n")))


def _escaped_line(line: str) -> str:
    line = _SIGNS.sub(lambda found: "".join(f"\\{sign}" for sign in found[0]), line)
    start = _START.match(line)
    if start is None:
        return line
    at = start.end() - 1 if start[0][0].isdigit() else 0
    return f"{line[:at]}\\{line[at:]}"


def code(text: str) -> str:
    """Text as code within a line."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def block(text: str) -> list[str]:
    """Lines of code."""
    return ["```text", *text.splitlines(), "```"]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> list[str]:
    """A table.

    Args:
        columns: The names of the columns.
        rows: Their cells, as Markdown.
        numbers: How many columns, counted from the last, hold numbers.
    """
    words = len(columns) - numbers
    lines = [_row(columns), _row(["---"] * words + ["---:"] * numbers)]
    return [*lines, *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """A bar ends a cell, even within code."""
    return re.sub(r"(?<!\\)\|", r"\\|", text.replace("\n", " "))


def anchor(heading: str) -> str:
    """The part of a link that leads to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
