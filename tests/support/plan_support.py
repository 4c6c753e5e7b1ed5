"""Entries of a few lines, and what follows from them.

Loaded once, as ``plan_support``, by ``conftest.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tileops_core.plan.build import build_plan
from tileops_core.plan.model import Plan
from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.spec.catalogue import load_spec, load_spec_from
from tileops_core.tensor_spec import TensorSpec

OP = "ProbeFwdOp"
FLOATS = "DType[float16 | float32]"


def signature(
    forall: str | Mapping[str, str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any] | None = None,
    **more: Any,
) -> Signature:
    """The signature of a made-up entry.

    Args:
        forall: Names of lengths, with a star before those of shapes, or a mapping to kinds;
            ``T`` comes by itself.
        inputs: For each a shape, of dtype ``T``, or all that the entry says of it.
        outputs: The same; ``y`` of no axis, if none is given.
        more: Other parts of the signature, and ``roofline``.
    """
    if isinstance(forall, str):
        forall = {n.lstrip("*"): "Shape" if n[0] == "*" else "Dim" for n in forall.split()}
    params = {
        name: dict(param) if isinstance(param, Mapping) else {"type": param}
        for name, param in more.pop("params", {}).items()
    }
    entry = {
        "family": "probe",
        "status": "implemented",
        "roofline": more.pop("roofline", {"flops": "1"}),
        "signature": {
            "forall": {"T": FLOATS, **forall},
            **({"params": params} if params else {}),
            "inputs": {name: _tensor(text) for name, text in inputs.items()},
            "outputs": {name: _tensor(text) for name, text in (outputs or {"y": "[]"}).items()},
            **more,
        },
        "workloads": [{"label": "row", "dtype_cases": [{"T": "float32"}]}],
    }
    for name, param in params.items():
        if "default" not in param and "type" in param:
            entry["workloads"][0][name] = _some(param["type"])
    return build_signature(load_spec_from(entry, OP))


def _tensor(text: Any) -> Mapping[str, Any]:
    return text if isinstance(text, Mapping) else {"dtype": "T", "shape": text}


def _some(kind: str) -> Any:
    """A value of a parameter without default, for the one row that an entry must have."""
    known = {"bool": True, "int": 1, "float": 1.0, "list[int] | tuple[int, ...]": [1]}
    return known.get(kind)


def optional(shape: str, when: Any = True) -> Mapping[str, Any]:
    """An input that may be left out, or is there under a condition."""
    return {"dtype": "T", "shape": shape, "optional": when}


def plan(*args: Any, **more: Any) -> Plan:
    """The plan of a made-up entry; see :func:`signature`."""
    return build_plan(signature(*args, **more))


def plan_of(op: str) -> Plan:
    """The plan of one of the manifest's ops."""
    return build_plan(build_signature(load_spec(op)))


def spec(*shape: int, dtype: torch.dtype = torch.float32) -> TensorSpec:
    """A tensor on the CPU, as far as checks read it."""
    return TensorSpec("cpu", dtype, shape)


def statics(plan: Plan, **params: Any) -> tuple[Any, ...]:
    """What a constructor with these parameters settles; the rest are at their defaults."""
    return plan.statics(tuple(params.get(p.name, p.default) for p in plan.signature.params))


def facts(plan: Plan, inputs: Mapping[str, TensorSpec | None], **params: Any) -> dict[str, Any]:
    """What a call settles, by name; inputs that are not given are absent."""
    given = [inputs.get(t.name) for t in plan.signature.inputs]
    return dict(zip(plan.fact_names, plan.check(statics(plan, **params), *given), strict=True))


def solved(plan: Plan, inputs: Mapping[str, TensorSpec | None], **params: Any) -> dict[str, Any]:
    """The indices that a call settles, by name: no device, no presence."""
    found = facts(plan, inputs, **params)
    return {
        name: tuple(value) if isinstance(value, torch.Size) else value
        for name, value in found.items()
        if not name.startswith("_") and name != "T"
    }
