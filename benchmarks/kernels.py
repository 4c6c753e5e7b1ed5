"""TileLang's kernels on the CPU against torch: `python -m benchmarks.kernels`.

Measures the manifest's workload rows, and the same rows with the few tokens of a step of decoding,
prints a table per op and writes `KERNELS.md`. `--sweep OP` prints where on a grid of rows and
columns TileLang wins, which decides what its kernels defer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

from benchmarks import kernel_grid, kernel_report, report
from benchmarks.kernel_cases import (
    DTYPES,
    SUBJECTS,
    Case,
    Subject,
    decode_cases,
    grid_cases,
    quick_cases,
    subjects_named,
    workload_cases,
)
from benchmarks.kernel_times import COPIED, OURS, Times, copy_bandwidth, measure
from tileops_core.errors import BackendError
from tileops_core.ops import RMSNormFwdOp

SECONDS = 1.5
SWEEP_SECONDS = 0.3
QUICK_SECONDS = 0.01
FEWEST = 7
QUICK_COPIED = 16 << 20


def why_not() -> str | None:
    """What this machine lacks for TileLang's kernels; None where they run."""
    try:
        RMSNormFwdOp((4,), target=OURS)(torch.ones(1, 4))
    except BackendError as error:
        return str(error)
    return None


def compiler() -> str:
    """What the kernels are compiled with, by the first line that it says of itself."""
    # Here: without that distribution this script still says what is missing.
    from tileops_tilelang.cpu import toolchain

    command = [*(toolchain.compiler() or ()), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return said.partition("\n")[0] or "unknown"


FROM_DISK = """
import time, torch
from tileops_tilelang.cpu.functions import function
for dtype in ("float32", "float16"):
    start = time.perf_counter()
    function("norm:rms_norm", dtype=dtype, weighted=True)
    print(f"{(time.perf_counter() - start) * 1e3:.1f}")
"""


def from_disk() -> str:
    """How long a new process takes to load programs that are on the disk."""
    from tileops_tilelang.cpu.functions import function

    for dtype in ("float32", "float16"):
        function("norm:rms_norm", dtype=dtype, weighted=True)
    command = [sys.executable, "-c", FROM_DISK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.split()
    return f"{first} ms for the first program of a process, {second} ms for the next"


class Runner:
    """Measures cases one after the other and shows what it found.

    Args:
        options: What the command line said.
        console: Where to show it.
    """

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options = options
        self.console = console

    def cases(self, subject: Subject) -> list[Case]:
        """What is measured of a subject, in the dtypes that were asked for."""
        kinds: list[Callable[[Subject], Any]] = [workload_cases, decode_cases]
        if self.options.sweep:
            kinds = [grid_cases]
        elif self.options.quick:
            kinds = [quick_cases]
        found = [case for kind in kinds for case in kind(subject)]
        return [case for case in found if case.dtype in self.options.dtypes]

    def measure(self, subject: Subject) -> list[Times]:
        """All of a subject's cases at every number of threads."""
        bar = track(self.cases(subject), subject.title, console=self.console, transient=True)
        options = self.options
        return [
            times
            for case in bar
            for times in measure(case, options.threads, options.seconds, options.fewest)
        ]

    def sweep(self) -> list[Times]:
        """Measure and show grids."""
        everything: list[Times] = []
        for subject in subjects_named(self.options.sweep):
            found = self.measure(subject)
            for number in self.options.threads:
                kernel_grid.show([t for t in found if t.threads == number], self.console)
            everything += found
        return everything

    def rows(self) -> list[Times]:
        """Measure and show the calls of models, and write the file."""
        at_start = report.load()
        size = QUICK_COPIED if self.options.quick else COPIED
        copy = {n: copy_bandwidth(n, self.options.seconds, size) for n in self.options.threads}
        everything: list[Times] = []
        for subject in subjects_named(self.options.only or ["all"]):
            found = self.measure(subject)
            if found:
                self.console.print(kernel_report.table(found, copy))
            everything += found
        kernel_report.show_summary(everything, self.console)
        facts = report.machine(at_start)
        facts |= {"Compiler": compiler(), "Copy": kernel_report.copies(copy)}
        facts["From the disk"] = from_disk()
        for name, value in facts.items():
            self.console.print(f"{name}: {value}", markup=False, highlight=False)
        if self.options.out:
            text = kernel_report.markdown(everything, copy, facts)
            self.options.out.write_text(text, encoding="utf-8")
            self.console.print(f"Written: {self.options.out}", highlight=False)
        return everything


def as_json(found: Sequence[Times]) -> list[dict[str, Any]]:
    """The figures for another program; times in seconds per call."""
    return [
        {
            "subject": times.case.subject.key,
            "kind": times.case.kind,
            "label": times.case.label,
            "dtype": times.case.dtype,
            "shapes": times.case.shapes,
            "threads": times.threads,
            "ours": times.ours,
            "through_op": times.through_op,
            "torch": times.torch,
            "reference": times.general,
            "served_by": times.served_by,
            "moved": times.moved,
        }
        for times in found
    ]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with what follows from it filled in."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels",
        description=__doc__,
        epilog=f"OP is an op's name, `all`, or one of {', '.join(s.key for s in SUBJECTS)}.",
    )
    parser.add_argument("--sweep", nargs="+", metavar="OP", help="grids; writes no file")
    parser.add_argument("--only", nargs="+", metavar="OP", help="writes no file, unless --out")
    parser.add_argument("--quick", action="store_true", help="few calls; no file, unless --out")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--threads", nargs="+", type=int, help="1 2 by default, 1 with --sweep")
    parser.add_argument("--seconds", type=float, help="about how long one case may take")
    parser.add_argument("--out", type=Path, metavar="FILE", help="in place of KERNELS.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args(arguments)
    try:
        subjects_named([*(options.sweep or ()), *(options.only or ())])
    except ValueError as error:
        parser.error(str(error))
    if options.threads is None:
        options.threads = [1] if options.sweep or os.cpu_count() == 1 else [1, 2]
    options.fewest = 3 if options.quick else FEWEST
    if options.seconds is None:
        quick, sweep = options.quick, options.sweep
        options.seconds = QUICK_SECONDS if quick else SWEEP_SECONDS if sweep else SECONDS
    everything = not (options.quick or options.only or options.sweep)
    if options.out is None and everything and tuple(options.dtypes) == DTYPES:
        options.out = kernel_report.KERNELS
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    console = Console(width=None if os.isatty(1) else 160)
    lacking = why_not()
    if lacking:
        console.print(f"Nothing is measured: {lacking}", markup=False, highlight=False)
        return
    runner = Runner(options, console)
    with warnings.catch_warnings():
        # A workload row leaves the axis to the op on purpose.
        warnings.filterwarnings("ignore", message=".*dim is None")
        found = runner.sweep() if options.sweep else runner.rows()
    if options.json:
        options.json.write_text(json.dumps(as_json(found), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
