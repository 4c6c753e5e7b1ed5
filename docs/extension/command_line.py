"""The page about the command line: what every command's `--help` prints.

``python docs/extension/command_line.py`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from tileops_core.cli import COMMANDS, tileops

PAGE = Path(__file__).parents[1] / "command-line.md"

_HEAD = """\
# The command line

`tileops` comes with `tileops-core`; `python -m tileops_core` is the same. This page is what each
command's `--help` prints; `python docs/extension/command_line.py` writes it.

| command | what it does |
| --- | --- |
"""

_STATUS = """
| exit status | what it means |
| --- | --- |
| 0 | all is well |
| 1 | the command has found what it looks for: a failed backend, a fault of an entry, a check that fails; or the library raised an error, which stands on stderr |
| 2 | misuse: one line on stderr says what of the arguments is wrong |
| 74 | the output cannot be written |
| 130 | interrupted |
| 141 | whoever read the output has stopped reading |

Where a person reads, text comes with colors and progress; elsewhere as plain lines that `grep` finds.
`--json` prints the same facts for a program.
"""


def page() -> str:
    """The text of the page."""
    rows = "".join(
        f"| [`tileops {name}`](#tileops-{name}) | {text} |\n"
        for name, (_, text) in COMMANDS.items()
    )
    return _HEAD + rows + _STATUS + "\n" + "\n".join(_sections()) + "\n"


def _sections() -> Iterator[str]:
    context = click.Context(tileops, info_name="tileops", **tileops.context_settings)
    yield _section("tileops", tileops, context)
    for name in tileops.list_commands(context):
        command = tileops.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield _section(f"tileops {name}", command, inner)


def _section(title: str, command: click.Command, context: click.Context) -> str:
    context.terminal_width = 100
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
