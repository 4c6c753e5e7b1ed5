"""TileLang's kernels on the CPU against torch: `python -m benchmarks.kernels`.

`--sweep OP` prints where on a grid of rows and columns TileLang wins, which decides what its
kernels defer.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

from benchmarks import kernel_grid
from benchmarks.kernel_cases import DTYPES, Case, grid_cases, subjects_named
from benchmarks.kernel_times import OURS, Times, measure
from tileops_core.errors import BackendError
from tileops_core.ops import RMSNormFwdOp

SWEEP_SECONDS = 0.3


def why_not() -> str | None:
    """What this machine lacks for TileLang's kernels; None where they run."""
    try:
        RMSNormFwdOp((4,), target=OURS)(torch.ones(1, 4))
    except BackendError as error:
        return str(error)
    return None


def run(
    cases: Sequence[Case], threads: Iterable[int], seconds: float, console: Console, what: str
) -> list[Times]:
    """Measure cases one after the other, with a bar that says how far."""
    return [
        times
        for case in track(cases, what, console=console, transient=True)
        for times in measure(case, threads, seconds)
    ]


def sweep(options: argparse.Namespace, threads: Sequence[int], console: Console) -> list[Times]:
    """Measure and print the grids of the subjects named."""
    everything: list[Times] = []
    for subject in subjects_named(options.sweep):
        cases = list(grid_cases(subject, dtypes=tuple(options.dtypes)))
        found = run(cases, threads, options.seconds or SWEEP_SECONDS, console, subject.title)
        for number in threads:
            kernel_grid.show([times for times in found if times.threads == number], console)
        everything += found
    return everything


def as_json(found: Sequence[Times]) -> list[dict[str, Any]]:
    """The figures for another program."""
    return [
        {
            "subject": times.case.subject.key,
            "kind": times.case.kind,
            "label": times.case.label,
            "dtype": times.case.dtype,
            "shapes": times.case.shapes,
            "threads": times.threads,
            "ours": times.ours,
            "torch": times.torch,
            "reference": times.general,
            "served_by": times.served_by,
            "moved": times.moved,
        }
        for times in found
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--sweep", nargs="+", metavar="OP", help="an op's name or key, or `all`")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--threads", nargs="+", type=int, help="1 2, or 1 with --sweep")
    parser.add_argument("--seconds", type=float, help="about how long one case may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args(arguments)

    console = Console(width=None if os.isatty(1) else 160)
    lacking = why_not()
    if lacking:
        console.print(f"Nothing to measure: {lacking}", markup=False, highlight=False)
        return
    found = sweep(options, options.threads or [1], console)
    if options.json:
        options.json.write_text(json.dumps(as_json(found), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
