"""``tileops show OP``: one op's contract, and who serves it here."""

from __future__ import annotations

import inspect
import math
import sys
from typing import Any

import click
from rich.syntax import Syntax

from tileops_core.backend.registry import REGISTRY
from tileops_core.call.emit import emit
from tileops_core.cli import completion
from tileops_core.cli.calls import call_of_case, case_of, find_class
from tileops_core.cli.cost import cost_of, print_cost
from tileops_core.cli.group import one_of
from tileops_core.cli.machine import profile_named, profile_of
from tileops_core.cli.ops import cell
from tileops_core.cli.output import Page, json_option, print_json
from tileops_core.cli.streams import write
from tileops_core.cli.survey import Survey, tell_failures
from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.record.profiles import DeviceProfile
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.signature.mathematics import as_mathematics
from tileops_core.signature.model import REQUIRED, Param, Signature, TensorDecl
from tileops_core.signature.notation import as_python, remarks, text_of
from tileops_core.signature.workload import WorkloadCase, cases
from tileops_core.spec.entries import AdtValue
from tileops_core.spec.reader import SPEC_ONLY


@click.command()
@click.argument("op", metavar="OP", shell_complete=completion.ops)
@click.option("--plan", is_flag=True, help="Print the Python code generated from the entry.")
@click.option(
    "--case",
    "case_id",
    metavar="ID",
    shell_complete=completion.cases,
    help="Print what this workload case must cost.",
)
@click.option(
    "--profile",
    metavar="P",
    shell_complete=completion.profiles,
    help="The device whose roof is meant: a card's name, or cpu for this machine's as measured.",
)
@json_option
def show(op: str, plan: bool, case_id: str | None, profile: str | None, as_json: bool) -> None:
    """Show one op: its signature as mathematics and as Python, its workloads, who serves it.

    With --case: the operations and bytes of that case, their ratio, and how long they take at
    least on a device.
    """
    seen = Survey()
    one_of("op", op, list(seen.entries))
    signature = seen.entries[op].signature()
    if case_id is not None:
        cost = _cost(seen, signature, case_of(signature, case_id), _profile(seen, profile))
        if as_json:
            print_json({"op": op, **cost})
        else:
            print_cost(Page(), cost)
        return
    if profile is not None:
        raise click.UsageError("--profile is about a case: name one with --case")
    if plan:
        _print_plan(_generated(seen, signature), op, as_json)
        return
    tell_failures(seen)
    facts = _facts(signature, seen)
    if as_json:
        print_json(facts)
    else:
        _print(facts)


def _profile(seen: Survey, name: str | None) -> DeviceProfile | None:
    """The profile named, else that of this machine's last device: an accelerator, if it has one."""
    return profile_named(name) if name is not None else profile_of(seen.devices[-1])


def _cost(
    seen: Survey, signature: Signature, case: WorkloadCase, profile: DeviceProfile | None
) -> dict[str, Any]:
    if find_class(seen, signature.op) is not None:
        call = call_of_case(seen, signature.op, case, None, "meta")
        return cost_of(call.record, call.op, case.case_id, profile)
    plan = build_plan(signature)
    statics, specs = call_of(plan, case)
    record = SignatureCall(plan, statics, specs, False, Served(None), metadata=case.metadata())
    return cost_of(record, None, case.case_id, profile)


def _generated(seen: Survey, signature: Signature) -> str:
    """The code made from an entry; without operators for graphs where no class has the op yet."""
    cls = find_class(seen, signature.op)
    if cls is not None:
        return f"{cls._plan.source}\n{cls._call_code.source}"
    plan = build_plan(signature)
    return f"{plan.source}\n{emit(plan).source}"


def _print_plan(source: str, op: str, as_json: bool) -> None:
    if as_json:
        print_json({"op": op, "plan": source})
    elif sys.stdout.isatty():
        Page().show(Syntax(source, "python", background_color="default"))
    else:
        write(source)


def _facts(signature: Signature, seen: Survey) -> dict[str, Any]:
    op = signature.op
    op_class = seen.op_class(op)
    described = (inspect.getdoc(op_class) if op_class else None) or ""
    return {
        "op": op,
        "summary": described.partition("\n\n")[0],
        "family": signature.family,
        "status": signature.status,
        "ref_api": signature.ref_api,
        "entry": signature.span.short,
        "mathematics": as_mathematics(signature, seen.entries[op].spec().types),
        "python": as_python(signature),
        "params": [_param(param) for param in signature.params],
        "inputs": [_tensor(tensor) for tensor in signature.inputs],
        "outputs": [_tensor(tensor) for tensor in signature.outputs],
        "workloads": [_workload(case) for case in cases(signature, requires=False)],
        "roofline": _roofline(signature),
        "default": {str(device): seen.by_default(op, device) for device in seen.devices},
        "targets": {name: seen.serves(op, name) for name in REGISTRY.target_names()},
        "kernel_types": [
            {
                "backend": candidate.backend,
                "key": candidate.key,
                "interface": candidate.interface,
                "devices": _devices(candidate.kernel_type.devices),
                "general": candidate.kernel_type.general,
            }
            for candidate in seen.kernel_types(op)
        ],
    }


def _param(param: Param) -> dict[str, Any]:
    described = {"name": param.name, "type": param.help, "required": True}
    if param.default is not REQUIRED:
        described |= {"required": False, "default": _plain(param.default)}
    return described | {"kw_only": param.kw_only}


def _tensor(tensor: TensorDecl) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype_text,
        "shape": tensor.shape_text,
        "remarks": remarks(tensor),
    }


def _workload(case: WorkloadCase) -> dict[str, Any]:
    tensors = {
        name: None if facts is None else {"dtype": facts[0], "shape": list(facts[1])}
        for name, facts in case.inputs.items()
    }
    params = {name: _plain(value) for name, value in case.params.items()}
    return {"case": case.case_id, "params": params, "inputs": tensors}


def _plain(value: Any) -> Any:
    """A value of a parameter as JSON has it."""
    infinite = isinstance(value, float) and math.isinf(value)
    return str(value) if infinite or isinstance(value, AdtValue) else value


def _roofline(signature: Signature) -> dict[str, str] | None:
    cost = signature.roofline
    if cost is None:
        return None
    if cost.func is not None:
        return {"func": cost.func}
    assert cost.flops is not None
    moved = (
        "what is read, once, and what is written, once"
        if cost.bytes is None
        else text_of(cost.bytes)
    )
    return {"flops": text_of(cost.flops), "bytes": moved}


def _devices(devices: frozenset[str] | None) -> list[str] | None:
    return None if devices is None else sorted(devices)


def _print(facts: dict[str, Any]) -> None:
    page = Page()
    page.line(facts["op"], style="bold")
    if facts["summary"]:
        page.line(facts["summary"])
    page.line(f"{facts['status']}, family {facts['family']}, entry {facts['entry']}")
    if facts["status"] == SPEC_ONLY:
        page.line(
            f"This is the op's contract, and no class implements it yet, so nobody can construct "
            f"it. A class {facts['op']}, derived from tileops_core.Op, takes the contract."
        )
    if facts["ref_api"]:
        page.line(f"computes what {facts['ref_api']} computes")
    for title, text in (("As mathematics", facts["mathematics"]), ("As Python", facts["python"])):
        page.heading(title)
        for line in text.splitlines():
            page.line(line)
    if facts["params"]:
        page.heading("Parameters")
        page.table(
            ["name", "type", "default"],
            [
                [p["name"], p["type"], "required" if p["required"] else repr(p["default"])]
                for p in facts["params"]
            ],
        )
    for title in ("inputs", "outputs"):
        page.heading(title.capitalize())
        page.table(
            ["name", "dtype", "shape", ""],
            [[t["name"], t["dtype"], t["shape"], ", ".join(t["remarks"])] for t in facts[title]],
        )
    defaults = {p["name"]: p["default"] for p in facts["params"] if not p["required"]}
    page.heading("Workloads")
    page.table(
        ["case", "parameters", "inputs"],
        [
            [
                case["case"],
                ", ".join(
                    f"{name}={value!r}"
                    for name, value in case["params"].items()
                    if name not in defaults or value != defaults[name]
                ),
                ", ".join(
                    f"{name}: {tensor['dtype']}{tensor['shape']}"
                    for name, tensor in case["inputs"].items()
                    if tensor is not None
                ),
            ]
            for case in facts["workloads"]
        ],
    )
    page.heading("Roofline")
    for name, text in (facts["roofline"] or {"none": "the entry states no cost"}).items():
        page.line(f"{name}: {text}")
    if facts["status"] == SPEC_ONLY and not facts["kernel_types"]:
        return
    page.heading("Who serves it here")
    page.table(["device", "by default"], [list(item) for item in facts["default"].items()])
    page.line()
    page.table(["target", "serves on"], [[name, cell(on)] for name, on in facts["targets"].items()])
    page.line()
    page.table(
        ["kernel type", "backend", "devices", ""],
        [
            [
                k["key"],
                k["backend"] or "the op's own",
                "any" if k["devices"] is None else " ".join(k["devices"]),
                "general: serves what no other does" if k["general"] else "",
            ]
            for k in facts["kernel_types"]
        ],
    )
