"""The calls that an op is measured on, with what each costs at least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import groupby
from typing import Any

from tileops_core.cached import cached_property
from tileops_core.pages.markdown import code, escaped, table
from tileops_core.pages.quantities import engineering, numbers, shape
from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.plan.model import Plan
from tileops_core.record import Served, SignatureCall
from tileops_core.signature.generators import Nested
from tileops_core.signature.model import Signature
from tileops_core.signature.workload import WorkloadCase, cases
from tileops_core.spec.comments import Comments
from tileops_core.spec.entries import AdtValue

_SAME = "″"


class _Metadata(Mapping[str, Nested]):
    """A case's metadata, made when a cost function asks for it: that of great rows is great."""

    def __init__(self, case: WorkloadCase) -> None:
        self._case = case

    @cached_property
    def _made(self) -> Mapping[str, Nested]:
        return self._case.metadata()

    def __getitem__(self, name: str) -> Nested:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def cost_of(plan: Plan, case: WorkloadCase) -> tuple[int, int]:
    """``(FLOP, bytes)`` of the call that a case describes, without making any tensor."""
    statics, inputs = call_of(plan, case)
    record = SignatureCall(plan, statics, inputs, False, Served(None), metadata=_Metadata(case))
    return record.roofline()


def workloads(signature: Signature, comments: Comments) -> list[str]:
    """The table of an op's cases."""
    plan = build_plan(signature)
    remarks = {row.label: " ".join(comments.below(row.span.line)) for row in signature.workloads}
    rows = []
    for label, same in groupby(cases(signature, requires=False), lambda case: case.label):
        known = ("", "")
        for case in same:
            told = _given(signature, case, remarks[label]), _inputs(case)
            cells = [
                _SAME if text and text == before else text
                for text, before in zip(told, known, strict=True)
            ]
            rows.append([code(case.case_id), *cells, *_cost(signature, plan, case)])
            known = told
    columns = ["workload", "with", "inputs", "FLOP", "bytes", "FLOP/byte"]
    if not any(row[1] for row in rows):
        columns.remove("with")
        rows = [[row[0], *row[2:]] for row in rows]
    return table(columns, rows, numbers=3)


def _cost(signature: Signature, plan: Plan, case: WorkloadCase) -> tuple[str, str, str]:
    if signature.roofline is None:
        return "", "", ""
    flops, moved = cost_of(plan, case)
    ratio = engineering(Fraction(flops, moved)) if moved else ""
    return engineering(flops), engineering(moved), ratio


def _given(signature: Signature, case: WorkloadCase, remark: str) -> str:
    """What a row says besides the tensors' sizes: parameters, and lists that only rows have."""
    defaults = {param.name: param.default for param in signature.params}
    said = [
        f"{name}={_value(value)}"
        for name, value in case.params.items()
        if type(value) is not type(defaults[name]) or value != defaults[name]
    ]
    said += [
        f"{index.name}={_value(case.indices[index.name])}"
        for index in signature.indices
        if index.row_only and index.name in case.indices
    ]
    return escaped("; ".join(filter(None, [", ".join(said), remark])))


def _value(value: Any) -> str:
    if isinstance(value, AdtValue):
        fields = ", ".join(f"{name}={_value(field)}" for name, field in value.fields)
        return f"{value.kind}({fields})"
    if isinstance(value, list | tuple) and all(type(item) is int for item in value):
        return numbers(value)
    return str(value)


def _inputs(case: WorkloadCase) -> str:
    """Shapes by input; neighbors of one shape together."""
    facts = [(name, fact) for name, fact in (*case.tensors.items(), *case.inputs.items()) if fact]
    groups = groupby(facts, lambda item: item[1][1])
    return escaped(", ".join(f"{' '.join(n for n, _ in same)} {shape(s)}" for s, same in groups))
