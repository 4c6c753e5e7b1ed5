"""``tileops bench``: what an op's workloads take here, beside what they take at least."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import torch

from tileops_core.backend.registry import REGISTRY
from tileops_core.cli import completion
from tileops_core.cli.calls import call_of_case, case_of, device_named
from tileops_core.cli.cost import cost_of, rate, told
from tileops_core.cli.group import one_of
from tileops_core.cli.machine import measure_cpu, profile_of
from tileops_core.cli.output import Page, json_option, print_json
from tileops_core.cli.plot import check_plot, plot_roofline
from tileops_core.cli.survey import Survey, tell_failures
from tileops_core.conformance.inputs import make
from tileops_core.errors import TileOpsError
from tileops_core.kernels.progress import progress
from tileops_core.kernels.tuning import measure
from tileops_core.record.profiles import DeviceProfile
from tileops_core.signature.workload import WorkloadCase, cases

_MOST = 1 << 24


@click.command()
@click.argument("op", metavar="OP", required=False, shell_complete=completion.ops)
@click.option(
    "--case",
    "case_id",
    metavar="ID",
    shell_complete=completion.cases,
    help="Only this workload case.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="T",
    shell_complete=completion.targets_or_builtin,
    help="Who computes; may be given twice.",
)
@click.option("--device", default="cpu", show_default=True, metavar="D", help="Where it runs.")
@click.option(
    "--max-elements",
    type=click.IntRange(min=1),
    default=_MOST,
    show_default=True,
    metavar="N",
    help="Scale greater cases down to tensors of so many elements together.",
)
@click.option("--tune", is_flag=True, help="Let kernels choose their configurations first.")
@click.option(
    "--profile", is_flag=True, help="Measure what this machine's CPU can do at best, and keep it."
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the cases under the device's roof as a picture: .png, .svg or .pdf.",
)
@json_option
def bench(
    op: str | None,
    case_id: str | None,
    targets: tuple[str, ...],
    device: str,
    max_elements: int,
    tune: bool,
    profile: bool,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Time an op's workload cases here, and tell how far each is from the roof.

    The roof of a well-known card is its maker's; that of this machine's CPU is measured once, with
    --profile, and kept. Exit status 1 if a case could not be timed.
    """
    if plot is not None:
        if op is None:
            raise click.UsageError("--plot shows an op's cases: name an op")
        check_plot(plot)
    if profile:
        found = measure_cpu()
        if as_json and op is None:
            print_json(_profile_facts(found))
        elif op is None:
            _print_profile(found)
    if op is None:
        if not profile:
            raise click.UsageError("name an op, or measure the CPU with --profile")
        return 0
    seen = Survey()
    one_of("op", op, list(seen.entries))
    for target in targets:
        one_of("target", target, ["builtin", *REGISTRY.target_names()])
    signature = seen.entries[op].signature()
    where = device_named(device)
    roof = profile_of(where) if plot is not None else None
    if plot is not None and roof is None:
        raise click.UsageError(
            f"--plot: the roof of {where} is not known; `tileops bench --profile` measures a CPU's"
        )
    chosen = [case_of(signature, case_id)] if case_id is not None else [*cases(signature)]
    rows = []
    with progress(f"timing {op}", len(chosen) * max(len(targets), 1)) as step:
        for case in chosen:
            for named in targets or (None,):
                rows.append(_row(seen, op, case.scaled(max_elements), named, where, tune))
                step()
    tell_failures(seen)
    if as_json:
        print_json(rows)
    else:
        _print(rows)
    if plot is not None and roof is not None:
        plot_roofline(plot, op, rows, roof)
    return int(any("error" in row for row in rows))


def _row(
    seen: Survey,
    op: str,
    case: WorkloadCase,
    target: str | None,
    device: torch.device,
    tune: bool,
) -> dict[str, Any]:
    """One case under one target, as data."""
    arguments = make(case.instance, device=device)
    call = call_of_case(seen, op, case, target, str(device), arguments.params)
    row: dict[str, Any] = {
        "case": case.case_id,
        "elements": case.elements,
        "target": target,
        "device": str(device),
    }
    pairs = zip(call.op._plan.signature.inputs, arguments.inputs, strict=True)
    named = {t.name: x for t, x in pairs}
    by_name = {t.name: named.pop(t.name) for t in call.op._plan.signature.inputs if t.kw_only}

    def run() -> None:
        call.op(*named.values(), **by_name)

    try:
        with torch.inference_mode():
            if tune:
                call.op.request_tune()
            run()
            seconds = measure(run, device)
    except (TileOpsError, RuntimeError, ValueError, IndexError) as error:
        return row | {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    row |= {"served_by": str(call.op.last_call.served_by), "seconds": seconds}
    row["config"] = dict(call.op.kernel_config())
    try:
        cost = cost_of(call.op.last_call, call.op, case.case_id, profile_of(device))
    except click.UsageError:
        return row  # the entry states no cost
    row |= {name: cost[name] for name in ("flops", "bytes", "unit", "roof")}
    row["fraction"] = None if cost["roof"] is None else cost["roof"]["seconds"] / seconds
    return row


def _print(rows: list[dict[str, Any]]) -> None:
    table = [
        [
            row["case"],
            f"{row['elements']:,}",
            row["target"] or "default",
            row.get("served_by", ""),
            told(row["seconds"]) if "seconds" in row else row["error"],
            f"{rate(row['bytes'] / row['seconds'])}B/s" if row.get("bytes") else "",
            f"{rate(row['flops'] / row['seconds'])}op/s" if row.get("flops") else "",
            _share(row),
        ]
        for row in rows
    ]
    page = Page()
    columns = ["case", "elements", "target", "served by", "time", "memory", "operations", "of roof"]
    page.table(columns, table)
    if any("seconds" in row and row.get("roof") is None for row in rows):
        page.line()
        page.line("the roof is not known here: `tileops bench --profile` measures this CPU")


def _share(row: dict[str, Any]) -> str:
    fraction = row.get("fraction")
    return "" if fraction is None else f"{fraction:.0%} ({row['roof']['bound']})"


def _profile_facts(profile: DeviceProfile) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "source": profile.source,
        "bandwidth": profile.bandwidth,
        "peaks": dict(profile.peaks),
    }


def _print_profile(profile: DeviceProfile) -> None:
    page = Page()
    page.line(profile.source, style="bold")
    page.line(f"memory: {rate(profile.bandwidth)}B/s")
    for key, peak in profile.peaks.items():
        page.line(f"{key}: {rate(peak)}op/s")
