"""What the kernels' times come to: tables on the terminal, and `KERNELS.md` for the repository."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from benchmarks.kernel_cases import DTYPES
from benchmarks.kernel_times import Times
from benchmarks.report import figure, geometric_mean

KERNELS = Path(__file__).with_name("KERNELS.md")
GOAL = 1.5
"""Geometric mean of torch's time over ours: workload rows, one thread, float32 and float16."""
GOAL_DTYPES = ("float32", "float16")
FLOOR = 0.95
"""No case that default dispatch gives to TileLang may be below it."""
SURELY = 1.05
"""From here on a kernel that does not serve by default would have won."""

HEADINGS = (
    "call",
    "dtype",
    "shape",
    "threads",
    "served by",
    "through op us",
    "ours us",
    "torch us",
    "reference us",
    "torch / ours",
    "reference / ours",
    "GB/s",
    "of a copy",
)
NUMBERS_FROM = 5
INTRODUCTION = """\
# Kernels

TileLang's kernels on the CPU against torch. Written by `python -m benchmarks.kernels` (part of
`nox -s bench`); a change by hand is lost in the next run.

Every case is measured on the same tensors, in turns in a random order, results allocated by all:
`ours` is TileLang's kernel, `torch` what somebody who has only torch writes, `reference` the
kernel that serves where TileLang's does not; `through op` is ours called through the op, whose
checks and record are measured by themselves in `RESULTS.md`. A figure is the lower quartile of
many, microseconds per call. A `step` is a workload row with the few tokens of a step of decoding.
`served by` is what the op chooses when no target is named. `GB/s` is what ours reads and writes,
`of a copy` its share of what a copy of a large tensor reaches: a case that fits in the caches has
more than all of it, and fresh memory for a large result costs time that the copy does not spend.
"""


def given(found: Iterable[Times]) -> list[Times]:
    """The cases that default dispatch gives to TileLang."""
    return [times for times in found if times.is_ours and times.over_torch is not None]


def mean_over_torch(found: Iterable[Times]) -> float | None:
    """The geometric mean of torch's time over ours, over the cases given to TileLang."""
    return geometric_mean(ratio for times in given(found) if (ratio := times.over_torch))


def smallest(found: Iterable[Times]) -> Times | None:
    """The case given to TileLang that fares worst against torch."""
    return min(given(found), key=lambda times: times.over_torch or 0, default=None)


def losses(found: Iterable[Times]) -> list[Times]:
    """The cases where torch or the reference is faster than ours, whoever serves; worst first."""
    lost = [times for times in found if times.over_best is not None and times.over_best < 1]
    return sorted(lost, key=lambda times: times.over_best or 0)


def given_away(found: Iterable[Times]) -> list[Times]:
    """The cases where ours is surely faster than both, and does not serve."""
    return [
        times
        for times in found
        if not times.is_ours and times.over_best is not None and times.over_best >= SURELY
    ]


def by_subject(found: Iterable[Times]) -> dict[str, list[Times]]:
    """The times by their subject's title, in the order found."""
    groups: dict[str, list[Times]] = {}
    for times in found:
        groups.setdefault(times.case.subject.title, []).append(times)
    return groups


def name_of(times: Times) -> str:
    """One case in a few words."""
    case = times.case
    return f"{case.subject.title}, {call_of(times)}, {case.dtype}, {in_words(times.threads)}"


def in_words(threads: int) -> str:
    """How many threads."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def call_of(times: Times) -> str:
    """The workload row, or what was made of it."""
    case = times.case
    return f"{case.label}, step" if case.kind == "decode" else case.label


def shape_of(times: Times) -> str:
    """The first input's shape."""
    return "x".join(map(str, next(iter(times.case.shapes.values())))) or "scalar"


def cells(times: Times, copy: Mapping[int, float]) -> list[str]:
    """A line of a table, under `HEADINGS`."""
    bandwidth = times.bandwidth
    share = bandwidth / copy[times.threads] if bandwidth else None
    return [
        call_of(times),
        times.case.dtype,
        shape_of(times),
        str(times.threads),
        times.served_by,
        microseconds(times.through_op),
        microseconds(times.ours),
        microseconds(times.torch),
        microseconds(times.general),
        ratio(times.over_torch),
        ratio(times.over_general),
        ratio(bandwidth and bandwidth / 1e9),
        f"{share:.0%}" if share else "-",
    ]


def microseconds(seconds: float | None) -> str:
    """A time in a table without units."""
    return "-" if seconds is None else figure(seconds * 1e6)


def ratio(value: float | None) -> str:
    """A ratio, with two digits behind the point while they mean something."""
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def copies(copy: Mapping[int, float]) -> str:
    """What a copy of a large tensor reaches, in words."""
    found = [f"{speed / 1e9:.1f} GB/s at {in_words(number)}" for number, speed in copy.items()]
    return f"{', '.join(found)}, read and written, of a large tensor"


MEAN_HEADINGS = ("op", "cases given to TileLang", *DTYPES, "all", "smallest")


def means(found: Sequence[Times]) -> list[list[str]]:
    """Per subject and for all: geometric means of torch / ours by dtype, one thread."""
    one = [times for times in found if times.threads == 1]
    return [_means(title, group) for title, group in [*by_subject(one).items(), ("All", one)]]


def _means(title: str, found: Sequence[Times]) -> list[str]:
    groups = [[times for times in found if times.case.dtype == dtype] for dtype in DTYPES]
    worst = smallest(found)
    return [
        title,
        f"{len(given(found))} of {len(found)}",
        *(ratio(mean_over_torch(group)) for group in [*groups, found]),
        ratio(worst and worst.over_torch),
    ]


def verdicts(found: Sequence[Times]) -> list[str]:
    """The goals, and what became of them."""
    one = [times for times in found if times.threads == 1]
    rows = [t for t in one if t.case.kind == "workload" and t.case.dtype in GOAL_DTYPES]
    sentences = []
    mean, worst = mean_over_torch(rows), smallest(one)
    if mean is not None:
        sentences.append(
            f"Workload rows in {' and '.join(GOAL_DTYPES)} that default dispatch gives to "
            f"TileLang, one thread: geometric mean of torch / ours {mean:.2f}, goal {GOAL:g}: "
            f"{'kept' if mean >= GOAL else 'missed'}."
        )
    if worst is not None and worst.over_torch is not None:
        below = sum((times.over_torch or 0) < FLOOR for times in given(one))
        sentences.append(
            f"Smallest torch / ours of what default dispatch gives to TileLang, one thread: "
            f"{worst.over_torch:.2f} ({name_of(worst)}), goal {FLOOR:g}: "
            f"{'missed' if below else 'kept'}; {below} of {len(given(one))} are below it."
        )
    return sentences


def lists(found: Sequence[Times]) -> dict[str, list[str]]:
    """What somebody who decides about `defers` reads: lists of cases by their heading."""
    chosen: list[tuple[str, Callable[[Iterable[Times]], list[Times]]]] = [
        ("TileLang loses to torch or to the reference", losses),
        ("TileLang would win and does not serve", given_away),
    ]
    return {
        f"{heading}: {title}": [_sentence(times) for times in cases]
        for heading, pick in chosen
        for title, group in by_subject(found).items()
        if (cases := pick(group))
    }


def _sentence(times: Times) -> str:
    return (
        f"{call_of(times)}, {times.case.dtype}, {shape_of(times)}, {in_words(times.threads)}: "
        f"torch / ours "
        f"{ratio(times.over_torch)}, reference / ours {ratio(times.over_general)}, "
        f"served by {times.served_by}"
    )


def table(found: Sequence[Times], copy: Mapping[int, float]) -> Table:
    """One subject's cases for the terminal."""
    made = Table(title=found[0].case.subject.title, title_justify="left", header_style="bold")
    for number, heading in enumerate(HEADINGS):
        justify: Literal["left", "right"] = "right" if number >= NUMBERS_FROM else "left"
        made.add_column(heading, justify=justify, no_wrap=number == 0)
    for times in found:
        lost = times.over_best is not None and times.over_best < 1
        made.add_row(*cells(times, copy), style="red" if lost and times.is_ours else "")
    return made


def show_summary(found: Sequence[Times], console: Console) -> None:
    """Print the means, the goals and the lists."""
    made = Table(
        title="Geometric mean of torch / ours, one thread, where default dispatch takes TileLang",
        title_justify="left",
        header_style="bold",
    )
    for number, heading in enumerate(MEAN_HEADINGS):
        made.add_column(heading, justify="right" if number else "left")
    for line in means(found):
        made.add_row(*line)
    console.print(made)
    for heading, sentences in lists(found).items():
        console.print(f"{heading}:", markup=False, highlight=False)
        for sentence in sentences:
            console.print(f"  {sentence}", markup=False, highlight=False)
    for sentence in verdicts(found):
        console.print(sentence, markup=False, highlight=False)


def markdown(found: Sequence[Times], copy: Mapping[int, float], facts: Mapping[str, str]) -> str:
    """The committed file.

    Args:
        found: What was measured.
        copy: Bytes per second of a large copy, by number of threads.
        facts: The machine and the versions, by name.

    Returns:
        The text of `KERNELS.md`.
    """
    text = [INTRODUCTION, *(f"- {name}: {value}" for name, value in facts.items())]
    text += ["", "## Against torch", ""]
    text += ["Geometric means of torch / ours at one thread, over the cases that default dispatch"]
    text += ["gives to TileLang.", "", *_markdown_table(MEAN_HEADINGS, means(found), 1)]
    text += [line for sentence in verdicts(found) for line in ("", sentence)]
    for heading, sentences in lists(found).items():
        text += ["", f"### {heading}", "", *(f"- {sentence}" for sentence in sentences)]
    for title, group in by_subject(found).items():
        lines = [cells(times, copy) for times in group]
        text += ["", f"## {title}", "", *_markdown_table(HEADINGS, lines, NUMBERS_FROM)]
    return "\n".join(text) + "\n"


def _markdown_table(
    headings: Sequence[str], lines: Iterable[Sequence[str]], numbers_from: int
) -> list[str]:
    marks = ["--:" if number >= numbers_from else "---" for number in range(len(headings))]
    return ["| " + " | ".join(line) + " |" for line in (headings, marks, *lines)]
