"""The ``tileops`` command: one module per subcommand, imported when that one is asked for."""

from __future__ import annotations

import click

from tileops_core.cli.group import CommandGroup

COMMANDS = {
    "doctor": ("tileops_core.cli.doctor:doctor", "What is installed, what it claims, what failed."),
    "ops": ("tileops_core.cli.ops:ops", "The support matrix: op by target, on this machine."),
    "show": ("tileops_core.cli.show:show", "One op: its contract, and who serves it here."),
    "explain": (
        "tileops_core.cli.explain:command",
        "One call: who would serve it and why, and why not the others.",
    ),
    "bench": (
        "tileops_core.cli.bench:bench",
        "What an op's workloads take here, beside what they take at least.",
    ),
    "check-backend": (
        "tileops_core.cli.check_backend:check_backend",
        "Whether a backend computes what the manifest says: the conformance suite.",
    ),
    "new-backend": (
        "tileops_core.cli.new_backend:new_backend",
        "Write the project of a backend, which passes the conformance suite.",
    ),
    "validate": (
        "tileops_core.cli.validate:validate",
        "Every fault of a manifest, and of the code behind it.",
    ),
}


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"tileops {version('tileops-core')}")
    context.exit()


@click.group(
    cls=CommandGroup,
    commands_at=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def tileops() -> None:
    """Operators for LLM inference: what is installed, who serves which op, and why."""


def main() -> None:
    """Entry point of the console script and of ``python -m tileops_core``."""
    tileops(prog_name="tileops")
