"""One table of all rows: on the terminal, and as Markdown for the repository."""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row, Section, Unmeasured, Value

RESULTS = Path(__file__).with_name("RESULTS.md")
PEER_SHARE_OF_ALL = 0.2
NOT_RUN = Unmeasured("not run")


@dataclass(frozen=True)
class Line:
    """A row with what was measured.

    Args:
        row: The claim.
        ours: Our figure.
        peer: The peer's figure.
    """

    row: Row
    ours: Value
    peer: Value

    @property
    def within_budget(self) -> bool | None:
        """Whether ours keeps the budget; None where there is none or no figure."""
        if isinstance(self.ours, Unmeasured) or self.row.budget is None:
            return None
        return self.ours <= self.row.budget

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's; None where that says nothing."""
        if isinstance(self.ours, Unmeasured) or isinstance(self.peer, Unmeasured):
            return None
        if not self.row.compared or self.peer <= 0:
            return None
        return self.ours / self.peer


def lines_of(sections: Iterable[Section], values: Mapping[str, Mapping[str, Value]]) -> list[Line]:
    """The table's lines in the order of the sections.

    Args:
        sections: What was asked for.
        values: Per library (`ours`, `peer`) the values by row key.

    Returns:
        One line per row; a library that was not run has a reason in place of a figure.
    """
    ours, peer = values.get("ours", {}), values.get("peer", {})
    return [
        Line(row, ours.get(row.key, NOT_RUN), peer.get(row.key, NOT_RUN))
        for section in sections
        for row in section
    ]


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """The geometric mean of what is positive; None of nothing."""
    logarithms = [math.log(ratio) for ratio in ratios if ratio > 0]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None


def figure(value: Value | None, unit: str = "") -> str:
    """A figure as the table shows it: two or three digits that mean something.

    Args:
        value: A figure, or what stands in its place.
        unit: Written after it.

    Returns:
        `-` for nothing and for what was not measured; the reason stands below the table.
    """
    if value is None or isinstance(value, Unmeasured):
        return "-"
    size = abs(value)
    digits = 0 if size >= 100 or (not unit and size == int(size)) else 1 if size >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def verdict(line: Line) -> str:
    """What the line comes to, in a word."""
    if isinstance(line.ours, Unmeasured):
        return "not measured"
    if line.within_budget is None:
        return ""
    return "kept" if line.within_budget else "missed"


def reasons(lines: Iterable[Line]) -> list[str]:
    """One sentence per distinct reason why figures are missing, ours first."""
    found: dict[str, list[str]] = {}
    for line in lines:
        for who, value in (("ours", line.ours), ("peer", line.peer)):
            if isinstance(value, Unmeasured):
                found.setdefault(f"{who}: {value.reason}", []).append(line.row.title)
    return [
        f"{reason} ({'; '.join(titles)})"
        for reason, titles in sorted(found.items(), key=lambda item: not item[0].startswith("ours"))
    ]


def summary(lines: list[Line]) -> list[str]:
    """What the whole table comes to."""
    judged = [line for line in lines if line.within_budget is not None]
    kept = sum(bool(line.within_budget) for line in judged)
    sentences = [f"Budgets kept: {kept} of {len(judged)}."]
    summed = [line for line in lines if line.row.summed and line.ratio is not None]
    for share in sorted({line.row.share for line in summed}):
        ratios = [r for line in summed if line.row.share == share and (r := line.ratio) is not None]
        mean = geometric_mean(ratios)
        if mean is None:
            continue
        small = sum(ratio <= share for ratio in ratios)
        goal = f" (goal {PEER_SHARE_OF_ALL:g})" if share == Row.share else ""
        sentences.append(
            f"At most {share:g} of the peer's: {small} of {len(ratios)} rows; geometric mean "
            f"{mean:.2f}{goal}."
        )
    return sentences


def show(lines: list[Line], title: str, console: Console) -> None:
    """Print the table, its sum, and why figures are missing."""
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("row")
    for heading in ("budget", "ours", "peer", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    section = ""
    colors = {"kept": "green", "missed": "red", "not measured": "yellow", "": "default"}
    for line in lines:
        if line.row.section != section:
            section = line.row.section
            table.add_section()
            table.add_row(f"[bold]{section}[/bold]")
        word = verdict(line)
        table.add_row(
            f"  {line.row.title}",
            figure(line.row.budget, line.row.unit),
            figure(line.ours, line.row.unit),
            figure(line.peer, line.row.unit),
            figure(line.ratio),
            f"[{colors[word]}]{word}[/]",
        )
    console.print(table)
    for sentence in [*summary(lines), *reasons(lines)]:
        console.print(sentence, markup=False, highlight=False)


def markdown(lines: list[Line], facts: Mapping[str, str]) -> str:
    """The committed table.

    Args:
        lines: What was measured.
        facts: The machine and the versions, by name.

    Returns:
        The text of `RESULTS.md`.
    """
    text = [
        "# Benchmarks",
        "",
        "Written by `python -m benchmarks` (`nox -s bench`); a change by hand is lost in the next",
        "run. Small float16 tensors on the CPU, one thread; a figure is what the library adds to",
        "the kernel, unless the row says otherwise: a median over a process, of the quietest of",
        "three processes. The ratio is ours over the peer's.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
    ]
    section = ""
    for line in lines:
        if line.row.section != section:
            section = line.row.section
            text += ["", f"## {section}", ""]
            text += [
                "| row | budget | ours | peer | ratio | |",
                "| --- | --: | --: | --: | --: | --- |",
            ]
        cells = [
            line.row.title,
            figure(line.row.budget, line.row.unit),
            figure(line.ours, line.row.unit),
            figure(line.peer, line.row.unit),
            figure(line.ratio),
            verdict(line),
        ]
        text.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    text += ["", *summary(lines)]
    missing = reasons(lines)
    if missing:
        text += ["", "Why figures are missing:", "", *(f"- {reason}" for reason in missing)]
    return "\n".join(text) + "\n"


def load() -> str:
    """How many processes want a core, as the system counts them over the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def facts(peer: str, load_at_start: str) -> dict[str, str]:
    """The machine, the versions and the date, for the table's head.

    Args:
        peer: What stands for the peer: its name and version, or why it was not measured.
        load_at_start: What `load` said before the run: above one, others were at work too.

    Returns:
        Name to value, in the order of printing.
    """
    return {**machine(load_at_start), "Peer": peer}


def machine(load_at_start: str) -> dict[str, str]:
    """The same without the peer."""
    versions = [f"{name} {_version(name)}" for name in ("tileops-core", "torch", "tilelang")]
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {
        "Date": today,
        "Machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "Load": f"{load_at_start} before the run, {load()} after it",
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "Versions": ", ".join(versions),
    }


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _processor() -> str:
    """The processor's model, as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
