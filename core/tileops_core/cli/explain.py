"""``tileops explain OP``: who would serve a call, and why not the others."""

from __future__ import annotations

from typing import Any

import click
import torch

from tileops_core.call.explain import Told, explain
from tileops_core.cli import completion
from tileops_core.cli.calls import (
    Call,
    call_of_case,
    call_of_options,
    case_of,
    check_nothing_missing,
    device_named,
)
from tileops_core.cli.group import one_of
from tileops_core.cli.output import Page, json_option, print_json
from tileops_core.cli.survey import Survey, tell_failures
from tileops_core.errors import SignatureError
from tileops_core.kernels.dispatch import Decision
from tileops_core.record.signature_call import SignatureCall
from tileops_core.signature.workload import cases


@click.command("explain")
@click.argument("op", metavar="OP", shell_complete=completion.ops)
@click.option(
    "--case",
    "case_id",
    metavar="ID",
    shell_complete=completion.cases,
    help="A workload case of the entry.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=DTYPE[N,...]",
    help="A tensor of the call, for example x=float16[8,4096], or one that the constructor takes, "
    "which is filled with ones; once for each.",
)
@click.option(
    "--param", "params", multiple=True, metavar="NAME=VALUE", help="A constructor parameter."
)
@click.option(
    "--target",
    metavar="T",
    shell_complete=completion.targets_or_builtin,
    help="What target= is to be; builtin for in-tree kernels.",
)
@click.option("--device", default="cpu", show_default=True, metavar="D", help="Where it runs.")
@click.option(
    "--arch", type=int, metavar="N", help="Ask as on a device of this architecture, 90 for sm_90."
)
@json_option
def command(
    op: str,
    case_id: str | None,
    shapes: tuple[str, ...],
    params: tuple[str, ...],
    target: str | None,
    device: str,
    arch: int | None,
    as_json: bool,
) -> int:
    """Explain one call: its plan, who serves it and why, and why not the others.

    Nothing is built and nothing runs, so any device may be asked about. Exit status 1 if nobody
    serves the call.
    """
    seen = Survey()
    one_of("op", op, list(seen.entries))
    call = _call(seen, op, case_id, shapes, params, target, str(device_named(device)))
    try:
        told = explain(call.op, call.specs, None if arch is None else {"arch": arch})
    except SignatureError as error:
        check_nothing_missing(call, error)
        raise
    tell_failures(seen)
    if as_json:
        print_json({"call": call.label, **_facts(told)})
    else:
        page = Page()
        page.line(f"{op}, {call.label}", style="bold")
        _print(page, told, "")
    return int(_fails(told))


def _call(
    seen: Survey,
    op: str,
    case_id: str | None,
    shapes: tuple[str, ...],
    params: tuple[str, ...],
    target: str | None,
    device: str,
) -> Call:
    signature = seen.entries[op].signature()
    if case_id is not None:
        if shapes or params:
            raise click.UsageError("give --case, or --shape and --param, and not both")
        return call_of_case(seen, op, case_of(signature, case_id), target, device)
    if not shapes and any(item.optional is False for item in signature.inputs):
        known = ", ".join(case.case_id for case in cases(signature, requires=False))
        raise click.UsageError(
            f"say which call: --shape NAME=DTYPE[N,...] for each tensor, or --case with one of "
            f"{known}"
        )
    return call_of_options(seen, op, shapes, params, target, device)


def _fails(told: Told) -> bool:
    return told.error is not None or any(map(_fails, told.inner))


# -- as data ----------------------------------------------------------------------------------


def _facts(told: Told) -> dict[str, Any]:
    record = told.record
    return {
        "op": record.op,
        "stage": told.stage,
        "parameters": {name: _plain(value) for name, value in record.parameters.items()},
        "device": str(record.device),
        "tensors": {
            name: {"dtype": str(dtype).removeprefix("torch."), "shape": list(shape)}
            for name, (shape, dtype) in record.tensors.items()
        },
        "indices": {name: _plain(value) for name, value in record.indices.items()},
        "writes": list(record.written),
        "branch": record.branch_key,
        "target": None if told.target is None else str(told.target),
        "builder": told.builder,
        "reasons": list(told.reasons),
        "kernels": [_decision(decision) for decision in told.decisions],
        "complete": told.complete,
        "error": told.error,
        "stages": [_facts(inner) for inner in told.inner],
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "interface": decision.interface,
        "call": repr(decision.call),
        "chosen": decision.chosen.key if decision.chosen is not None else None,
        "kernel_types": [
            {
                "key": verdict.candidate.key,
                "backend": verdict.candidate.backend,
                "outcome": verdict.outcome,
                "reason": verdict.reason,
            }
            for verdict in decision.verdicts
        ],
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has not, as text."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, torch.Tensor):
        return f"{_short(value.dtype)}{list(value.shape)}"
    return value if isinstance(value, float) and value - value == 0 else _short(value)


def _short(value: Any) -> str:
    return str(value).removeprefix("torch.")


# -- for a person -----------------------------------------------------------------------------


def _print(page: Page, told: Told, indent: str) -> None:
    for line in _plan(told.record):
        page.line(f"{indent}{line}")
    if told.target is not None:
        page.line(f"{indent}target: {told.target}")
    for reason in told.reasons:
        page.line(f"{indent}  {reason}")
    if told.builder is not None:
        page.line(f"{indent}  backend {told.builder!r} builds the kernel")
    for decision in told.decisions:
        page.line(f"{indent}kernel of interface {decision.interface!r} for {decision.call!r}:")
        for verdict in decision.verdicts:
            page.line(f"{indent}  {verdict.outcome:13} {verdict}")
    if not told.complete:
        page.line(f"{indent}what its body asks for next depends on that kernel's result")
    for inner in told.inner:
        page.line()
        page.line(f"{indent}{inner.record.op}, stage {inner.stage!r}", style="bold")
        _print(page, inner, f"{indent}  ")
    if told.error is not None:
        page.line(f"{indent}fails: {' '.join(str(told.error).split())}")


def _plan(record: SignatureCall) -> list[str]:
    """The call as the plan sees it."""
    tensors = ", ".join(
        f"{name}: {_short(dtype)}{list(shape)}" for name, (shape, dtype) in record.tensors.items()
    )
    found = {
        "parameters": ", ".join(f"{n}={_plain(v)!r}" for n, v in record.parameters.items()),
        "tensors": f"{tensors} on {record.device}",
        "indices": ", ".join(f"{n} = {_plain(v)}" for n, v in record.indices.items()),
        "writes": ", ".join(record.written),
    }
    return [f"{name}: {text}" for name, text in found.items() if text]
