"""Rows that need a library loaded: one process per library and round, in turn.

`python -m benchmarks.workers LIBRARY MODULE... --effort NAME --out FILE` is one such process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.rows import EFFORTS, Row, Section, Unmeasured, Value, from_json, measured, to_json

ROOT = Path(__file__).resolve().parents[1]


def section_of(module: str) -> Section:
    """The rows that a module of this package states."""
    section: Section = importlib.import_module(f"benchmarks.{module}").SECTION
    return section


def run(
    modules: Sequence[str],
    environments: Mapping[str, Mapping[str, str]],
    effort: str,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, Value]]:
    """Run the modules' rows in alternating processes.

    Args:
        modules: Names of modules of this package that have a `SECTION`.
        environments: The environment variables of each library's processes, by its name.
        effort: A key of `EFFORTS`.
        progress: Is told what starts.

    Returns:
        Per library the rows' values by key; see :func:`joined`.
    """
    processes = EFFORTS[effort].processes
    found: dict[str, list[dict[str, Value]]] = {library: [] for library in environments}
    for number in range(processes):
        for library, environment in environments.items():
            progress(f"{', '.join(modules)}: {library}, process {number + 1} of {processes}")
            found[library].append(one(library, modules, environment, effort))
    rows = [row for module in modules for row in section_of(module)]
    return {
        library: {row.key: joined(row, [values[row.key] for values in per_process]) for row in rows}
        for library, per_process in found.items()
    }


def joined(row: Row, values: Sequence[Value]) -> Value:
    """The least of what processes measured; the reason, where none did.

    What neighbors take from the machine, often for longer than a process runs, only ever adds. Not
    to a ratio of two figures, whose median counts.
    """
    figures = [value for value in values if not isinstance(value, Unmeasured)]
    if not figures:
        return values[0]
    return statistics.median(figures) if row.unit == "x" else min(figures)


def one(
    library: str,
    modules: Sequence[str],
    environment: Mapping[str, str],
    effort: str,
    before: Sequence[str] = (),
) -> dict[str, Value]:
    """What one process measured; ``before`` stands before its command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "values.json"
        command = [*before, sys.executable, "-m", "benchmarks.workers"]
        process = subprocess.run(
            [*command, library, *modules, "--effort", effort, "--out", str(out)],
            env=dict(environment),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if process.returncode != 0:
            lines = process.stderr.strip().splitlines() or [f"exit {process.returncode}"]
            failed = Unmeasured(lines[-1])
            return {row.key: failed for module in modules for row in section_of(module)}
        data = json.loads(out.read_text(encoding="utf-8"))
    return {key: from_json(value) for key, value in data.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in this process and write the values."""
    import torch

    from benchmarks.given import install
    from benchmarks.libraries import LIBRARIES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("whose", choices=sorted(LIBRARIES))
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--effort", choices=sorted(EFFORTS), required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    library = LIBRARIES[options.whose]()
    install(library)
    values: dict[str, Value] = {}
    for module in options.modules:
        for row in section_of(module):
            if library.name == "peer" and row.not_at_peer:
                values[row.key] = Unmeasured(row.not_at_peer)
            else:
                values[row.key] = measured(row, library, EFFORTS[options.effort])
    data = {key: to_json(value) for key, value in values.items()}
    options.out.write_text(json.dumps(data), encoding="utf-8")


if __name__ == "__main__":
    main()
