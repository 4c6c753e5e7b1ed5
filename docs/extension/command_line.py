"""The page about the command line: what every command's `--help` prints.

``python docs/extension/command_line.py`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from tileops_core.cli import COMMANDS, tileops
from tileops_core.pages.markdown import block, table

PAGE = Path(__file__).parents[1] / "command-line.md"

_HEAD = """\
# The command line

`tileops` comes with `tileops-core`; `python -m tileops_core` is the same. Where a person reads,
text comes with colors and progress; elsewhere in plain lines that `grep` finds. `--json` prints the
same facts for a program. Errors go to stderr.

What follows is each command's `--help`; `python docs/extension/command_line.py` writes this page.
"""

_STATUS = {
    "0": "all is well",
    "1": "the command found what it looks for: a backend that failed, a fault of an entry, a check "
    "that fails, a call that nobody serves; or the library raised an error, which is shown",
    "2": "misuse: one line says what of the arguments is wrong",
    "74": "the output cannot be written",
    "130": "interrupted",
    "141": "whoever read the output has stopped reading",
}


def page() -> str:
    """The text of the page."""
    rows = ([f"[`tileops {name}`](#tileops-{name})", text] for name, (_, text) in COMMANDS.items())
    lines = [
        _HEAD,
        *table(["command", "what it does"], rows),
        "",
        *table(["exit status", "what it means"], map(list, _STATUS.items())),
        *_sections(),
        "",
    ]
    return "\n".join(lines)


def _sections() -> Iterator[str]:
    context = click.Context(tileops, info_name="tileops", **tileops.context_settings)
    yield from _section("tileops", tileops, context)
    for name in tileops.list_commands(context):
        command = tileops.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield from _section(f"tileops {name}", command, inner)


def _section(title: str, command: click.Command, context: click.Context) -> Iterator[str]:
    context.terminal_width = 100
    yield from ("", f"## {title}", "", *block(command.get_help(context)))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
