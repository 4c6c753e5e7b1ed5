"""The roofline as a picture: calls by what they compute per byte, under what the device allows.

S. Williams, A. Waterman, D. Patterson: Roofline, an insightful visual performance model for
multicore architectures, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tileops_core.record.profiles import DeviceProfile

FORMATS = (".png", ".svg", ".pdf")
"""What a picture can be written as."""


def check_plot(path: Path) -> None:
    """Refuse what no picture can be written to, before anything is measured.

    Raises:
        click.UsageError: another format, a folder that is not there, or no matplotlib.
    """
    if path.suffix.lower() not in FORMATS:
        raise click.UsageError(f"--plot {path}: name a file that ends in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise click.UsageError(f"--plot {path}: there is no folder {path.absolute().parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise click.UsageError(
            "--plot needs matplotlib: pip install 'tileops-core[plot]'"
        ) from error


def points_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, float, float]]:
    """Of the rows that were timed and cost something: case, unit, operations per byte and second.

    Args:
        rows: rows of ``tileops bench``.
    """
    return [
        (row["case"], row["unit"], row["flops"] / row["bytes"], row["flops"] / row["seconds"])
        for row in rows
        if row.get("flops") and row.get("bytes") and "seconds" in row
    ]


def plot_roofline(
    path: Path, op: str, rows: Sequence[Mapping[str, Any]], profile: DeviceProfile
) -> int:
    """Write the picture; how many calls are on it.

    Args:
        path: where; its suffix says the format.
        op: for the title.
        rows: rows of ``tileops bench``.
        profile: the device that they ran on.
    """
    from matplotlib.figure import Figure

    points = points_of(rows)
    units = sorted({unit for _, unit, _, _ in points if profile.peak(unit) is not None})
    picture = Figure(figsize=(8, 5), layout="constrained")
    axes = picture.subplots()
    intensities = [intensity for _, _, intensity, _ in points]
    ridges = [(profile.peak(unit) or 0.0) / profile.bandwidth for unit in units]
    low = min([*intensities, *ridges], default=1.0) / 4
    high = max([*intensities, *ridges], default=1.0) * 4
    for unit, ridge in zip(units, ridges, strict=True):
        reach = [low, ridge, high]
        axes.plot(reach, [min(x, ridge) * profile.bandwidth for x in reach], label=unit)
    if not units:
        axes.plot([low, high], [low * profile.bandwidth, high * profile.bandwidth], label="memory")
    for case, _, intensity, speed in points:
        axes.plot([intensity], [speed], "o", markersize=5)
        axes.annotate(case, (intensity, speed), xytext=(5, 3), textcoords="offset points", size=7)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("operations per second")
    axes.set_title(f"{op} on {profile.name}")
    axes.legend()
    picture.savefig(path)
    return len(points)
