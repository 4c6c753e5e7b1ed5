"""Prove that an entry means what its rows say: make each case, and solve it back."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.signature.model import Signature
from tileops_core.signature.workload import cases


def differences(signature: Signature) -> Iterator[str]:
    """Where the generated code finds other indices in a row's tensors than the row gives.

    Raises:
        SignatureError: The generated checks refuse a row.
        ManifestError: A row cannot be instantiated.
    """
    plan = build_plan(signature)
    row_only = {index.name for index in signature.indices if index.row_only}
    for small in (False, True):
        for case in cases(signature, small=small):
            statics, tensors = call_of(plan, case)
            facts = plan.check(statics, *tensors)
            plan.outputs(statics, facts)
            found = dict(zip(plan.fact_names, facts, strict=True))
            found |= dict(zip(plan.static_names, statics, strict=True))
            for name, value in case.indices.items():
                if name not in row_only and _plain(found[name]) != _plain(value):
                    yield f"{case.case_id}: {name} is {value}, found {found[name]}"


def _plain(value: object) -> object:
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return tuple(value) if isinstance(value, list | tuple) else value


def cost_of_one(record: object) -> tuple[int, int]:
    """The cost function that an entry of the gallery names."""
    return 1, 1
