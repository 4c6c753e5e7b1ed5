"""A command group that imports a subcommand when it is asked for, and fails in one line."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from tileops_core.cli.streams import (
    UNREAD,
    OutputError,
    abandon_output,
    finish_output,
    output_errors,
    prepare_output,
)
from tileops_core.errors import TileOpsError
from tileops_core.suggest import did_you_mean


class CommandGroup(click.Group):
    """Subcommands by name as ``("module:attribute", one sentence of help)``.

    A mistake of the caller's is one line on stderr and exit status 2; an error of the library's is
    its own text on stderr and exit status 1. Output that cannot be written is one line on stderr
    and exit status 74; of a pipe that nobody reads to its end nothing is said, and the exit status
    is 141, as if the signal had ended us. A command's return value, if any, is its exit status.
    """

    def __init__(
        self, *args: Any, commands_at: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.commands_at = dict(commands_at or {})

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments; help and version are printed here."""
        with output_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        with output_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands, in the order to read about them."""
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand; None for an unknown name."""
        if cmd_name not in self.commands_at:
            return None
        module, _, attribute = self.commands_at[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete the name of a subcommand without importing any."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=text)
            for name, (_, text) in self.commands_at.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand that the arguments name, guessing at a misspelled one."""
        name = args[0]
        if name not in self.commands_at and not name.startswith("-"):
            guess = did_you_mean(name, self.commands_at)
            known = ", ".join(self.commands_at)
            raise click.UsageError(f"there is no command {name!r}{guess}; there are {known}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands' help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.commands_at.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run; see the class for what becomes of errors."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            prepare_output()
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            finish_output()
        except click.exceptions.NoArgsIsHelpError as asked_nothing:
            asked_nothing.show()
            sys.exit(2)
        except click.ClickException as misuse:
            context = getattr(misuse, "ctx", None)
            path = context.command_path if context else "tileops"
            _complain(f"{path}: {_in_one_line(misuse)}", misuse.exit_code)
        except click.Abort:
            _complain("tileops: interrupted", 130)
        except OutputError as error:
            abandon_output()
            _complain("" if error.status == UNREAD else f"tileops: {error.sentence}", error.status)
        except (TileOpsError, OSError) as error:
            _complain(f"tileops: {error}", 1)
        sys.exit(status or 0)


def _in_one_line(misuse: click.ClickException) -> str:
    text = " ".join(misuse.format_message().split()).rstrip(".")
    if isinstance(misuse, click.NoSuchOption):
        # click guesses too, but in words of its own and with several lines for several guesses.
        text = f"there is no option {misuse.option_name!r}"
        close = difflib.get_close_matches(misuse.option_name, misuse.possibilities or (), n=1)
        text += f" (did you mean {close[0]!r}?)" if close else ""
    # A word of click's begins a sentence; the name of an op keeps its letters.
    named = any(letter.isupper() for letter in text.partition(" ")[0][1:])
    return text if named else text[:1].lower() + text[1:]


def _complain(text: str, status: int) -> None:
    if text:
        with suppress(OSError):  # nobody can be told that nobody can be told
            click.echo(text, err=True)
    sys.exit(status)


def one_of(what: str, word: str, known: Sequence[str]) -> None:
    """Refuse ``word`` as a misuse unless it is among ``known``.

    Raises:
        click.UsageError: with the closest known word, or all of them when none is close.
    """
    if word not in known:
        guess = did_you_mean(word, known) or f"; there are {', '.join(known) or 'none'}"
        raise click.UsageError(f"there is no {what} {word!r}{guess}", click.get_current_context())
