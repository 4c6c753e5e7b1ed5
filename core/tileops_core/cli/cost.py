"""What a call must cost, and how long that takes at least on a device."""

from __future__ import annotations

import threading
from typing import Any

import click

from tileops_core.cli.output import Page
from tileops_core.op import Op
from tileops_core.record.profiles import DEFAULT_KEY, DeviceProfile
from tileops_core.record.signature_call import SignatureCall


def cost_of(
    record: SignatureCall, op: Op | None, label: str, profile: DeviceProfile | None
) -> dict[str, Any]:
    """Operations, bytes, their ratio, and the roof of a device, as data.

    Args:
        record: the call.
        op: an instance of the op, None where it has no class.
        label: what the call is called.
        profile: the device.

    Raises:
        click.UsageError: the op's entry states no cost.
    """
    try:
        flops, moved = record.roofline()
    except NotImplementedError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    unit, terms = DEFAULT_KEY, {}
    read: int | None = moved - record.written_bytes()
    if op is not None:
        # As after the call: what an op says of its last call is about this one.
        op._running.last[threading.get_ident()] = record
        unit, terms = op.roof_key(), dict(op.roofline_data_terms())
        read = op.eval_roofline_read_bytes()
    return {
        "case": label,
        "flops": flops,
        "bytes": moved,
        "read_bytes": read,
        "written_bytes": None if read is None else moved - read,
        "intensity": flops / moved if moved else None,
        "unit": unit,
        "data_terms": terms,
        "roof": None if profile is None else roof_of(flops, moved, unit, profile),
    }


def roof_of(flops: int, moved: int, unit: str, profile: DeviceProfile) -> dict[str, Any]:
    """The least time of a call on a device, as data."""
    roof = profile.roof(flops, moved, unit)
    return {
        "profile": profile.name,
        "source": profile.source,
        "unit": unit,
        "peak": profile.peak(unit),
        "bandwidth": profile.bandwidth,
        "seconds": roof.seconds,
        "bound": roof.bound,
    }


def print_cost(page: Page, cost: dict[str, Any]) -> None:
    """The same for a person."""
    page.heading(f"Cost of {cost['case']}")
    page.line(f"operations: {cost['flops']:,}")
    written = (
        ""
        if cost["read_bytes"] is None
        else (f" ({cost['read_bytes']:,} read, {cost['written_bytes']:,} written)")
    )
    page.line(f"bytes: {cost['bytes']:,}{written}")
    if cost["intensity"] is not None:
        page.line(f"intensity: {cost['intensity']:.4g} operations per byte")
    for name, value in cost["data_terms"].items():
        page.line(f"{name}: {value:,}")
    roof = cost["roof"]
    if roof is None:
        page.line(
            "roof: not known here; --profile names a card, and `tileops bench --profile` measures "
            "this machine's CPU"
        )
        return
    page.line(
        f"roof: at least {told(roof['seconds'])}, bound by {roof['bound']}, "
        f"on {roof['profile']} ({roof['source']})"
    )
    peak = "not known" if roof["peak"] is None else f"{rate(roof['peak'])}op/s"
    page.line(f"  {roof['unit']}: {peak}; memory: {rate(roof['bandwidth'])}B/s")


def told(seconds: float) -> str:
    """Seconds in the unit that people read."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def rate(per_second: float) -> str:
    """A rate with the prefix that people read; the unit follows."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if per_second >= size:
            return f"{per_second / size:.4g} {prefix}"
    return f"{per_second:.4g} "
