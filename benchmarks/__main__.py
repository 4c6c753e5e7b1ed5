"""`python -m benchmarks`: measure, print one table, write `RESULTS.md`."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Sequence

from rich.console import Console

from benchmarks import cold_start, instructions, peer, report, validator, workers
from benchmarks.rows import EFFORTS, Unmeasured, Value

IN_PROCESS = ("call_overhead", "in_tree", "memory", "construction", "compiled")
MODULES = (*IN_PROCESS, "instructions", "cold_start", "validator")


def measure(
    modules: Sequence[str], environments: dict[str, dict[str, str]], effort: str, console: Console
) -> dict[str, dict[str, Value]]:
    """Run the modules over the libraries; return values by library and row."""
    values: dict[str, dict[str, Value]] = {library: {} for library in environments}
    with console.status("starting") as status:
        in_process = [module for module in modules if module in IN_PROCESS]
        if in_process:
            found = workers.run(in_process, environments, effort, status.update)
            for library, rows in found.items():
                values[library].update(rows)
        if "instructions" in modules:
            status.update("instructions, as valgrind counts them")
            for library, rows in instructions.run(environments, effort).items():
                values[library].update(rows)
        if "cold_start" in modules:
            status.update("cold start: processes in turn")
            for library, rows in cold_start.run(environments, EFFORTS[effort]).items():
                values[library].update(rows)
        if "validator" in modules:
            status.update("the validator")
            values["ours"].update(validator.run(environments["ours"], EFFORTS[effort]))
            if "peer" in values:
                absent = {row.key: Unmeasured(row.not_at_peer) for row in validator.SECTION}
                values["peer"].update(absent)
    return values


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; writes no file")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=MODULES,
        metavar="MODULE",
        default=MODULES,
        help=f"some of {', '.join(MODULES)}; writes no file",
    )
    parser.add_argument("--no-peer", action="store_true", help="ours alone; writes no file")
    options = parser.parse_args(arguments)

    console = Console()
    base = {**os.environ, "OMP_NUM_THREADS": "1"}
    environments = {"ours": base}
    peer_said = f"{peer.NAME} {peer.VERSION}, from the package index"
    no_peer = "not asked for" if options.no_peer else ""
    if not options.no_peer:
        try:
            environments["peer"] = peer.environment(peer.fetch(), base)
        except peer.NoPeerError as error:
            no_peer = str(error)
    if no_peer:
        peer_said = f"not measured: {no_peer}"
        console.print(f"The peer is {peer_said}. Ours alone:", highlight=False)

    effort = "quick" if options.quick else "full"
    load_at_start = report.load()
    values = measure(options.only, environments, effort, console)
    sections = [importlib.import_module(f"benchmarks.{name}").SECTION for name in options.only]
    lines = report.lines_of(sections, values)
    if no_peer:
        lines = [report.Line(line.row, line.ours, Unmeasured(no_peer)) for line in lines]
    report.show(lines, f"tileops ({effort})", console)
    if not options.quick and not options.no_peer and tuple(options.only) == MODULES:
        text = report.markdown(lines, report.facts(peer_said, load_at_start))
        report.RESULTS.write_text(text, encoding="utf-8")
        console.print(f"Written: {report.RESULTS}", highlight=False)


if __name__ == "__main__":
    main()
