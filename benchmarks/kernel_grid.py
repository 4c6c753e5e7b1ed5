"""Where TileLang's kernels win: rows times columns, one table per op, dtype and rival."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.kernel_report import (
    FLOOR,
    SURELY,
    given,
    in_words,
    mean_over_torch,
    name_of,
    smallest,
)
from benchmarks.kernel_times import Times


def show(found: Sequence[Times], console: Console) -> None:
    """Print a subject's tables: how many times faster ours is than torch, and than the reference.

    Args:
        found: One subject's grid, any dtypes, one number of threads.
        console: Where to.
    """
    for dtype in dict.fromkeys(times.case.dtype for times in found):
        of_dtype = [times for times in found if times.case.dtype == dtype]
        title = f"{of_dtype[0].case.subject.title}, {dtype}, {in_words(of_dtype[0].threads)}"
        console.print(_table(of_dtype, title))
    served = given(found)
    worst = smallest(served)
    if worst is None:
        console.print("Default dispatch gives none of it to TileLang.")
        return
    below = sum((times.over_torch or 0) < FLOOR for times in served)
    slower = sum((times.over_best or 0) < 1 for times in served)
    mine = sum(not times.is_ours and (times.over_best or 0) >= SURELY for times in found)
    console.print(
        f"Default dispatch gives {len(served)} of {len(found)} to TileLang: geometric mean of "
        f"torch / ours {mean_over_torch(served):.2f}, smallest {worst.over_torch:.2f} "
        f"({name_of(worst)}); {below} below {FLOOR:g}, {slower} slower than torch or the "
        f"reference. Of the others TileLang would win {mine}.",
        highlight=False,
    )


def _table(found: Sequence[Times], title: str) -> Table:
    at = {(times.case.rows, times.case.columns): times for times in found}
    columns = sorted({column for _, column in at})
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        caption="torch / ours, reference / ours; red: we lose; *: default dispatch gives it away",
        caption_justify="left",
    )
    table.add_column("rows \\ columns", justify="right")
    for column in columns:
        table.add_column(str(column), justify="right", no_wrap=True)
    for row in sorted({row for row, _ in at}):
        table.add_row(str(row), *(_cell(at.get((row, column))) for column in columns))
    return table


def _cell(times: Times | None) -> str:
    if times is None:
        return ""
    ratios = " ".join(map(_ratio, (times.over_torch, times.over_general)))
    return ratios if times.is_ours else f"{ratios} *"


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    text = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"[red]{text}[/]" if ratio < 1 else text
