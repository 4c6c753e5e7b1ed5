"""Workload rows as cases: which tensors a call gets, without making any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tileops_core.signature.evaluate import axes_of, evaluate
from tileops_core.signature.kinds import DTypeKind, MaybeKind
from tileops_core.signature.model import Input, Rule, ShapeCase, Signature, Workload
from tileops_core.signature.problems import Problems, manifest_error
from tileops_core.signature.rules import names_in
from tileops_core.spec.expressions import Expr, Splice

_PASSED = ("", ())  # stands for a tensor of which only the presence is known so far


@attrs.frozen(slots=True)
class WorkloadCase:
    """One call that a row describes.

    ``params`` holds every constructor parameter, defaults included; ``inputs`` the dtype's short
    name and the shape of each input, or None for one that is not passed; ``indices`` the value
    of each index that the call's branch uses.
    """

    op: str
    label: str
    case_id: str
    params: Mapping[str, Any]
    inputs: Mapping[str, tuple[str, tuple[int, ...]] | None]
    indices: Mapping[str, Any]


def instantiate(
    signature: Signature, row: Workload, dtype_case: Mapping[str, str], *, small: bool = False
) -> WorkloadCase:
    """The call that a row describes with one of its dtype cases.

    Args:
        signature: The op's signature.
        row: One of its rows.
        dtype_case: The dtype of each dtype index.
        small: Take the row's scaled-down sizes, where it gives any.

    Raises:
        ManifestError: When the row leaves out an index that its branch uses, gives one that it
            does not use, or describes a call that the signature refuses.
    """
    return _Instance(signature, row, dtype_case, small).case()


def cases(signature: Signature, *, small: bool = False) -> Iterator[WorkloadCase]:
    """Every case of every row, in the entry's order.

    Raises:
        ManifestError: When a row cannot be instantiated, or two cases have one id.
    """
    seen: dict[str, str] = {}
    for row in signature.workloads:
        for dtype_case in row.dtype_cases:
            case = instantiate(signature, row, dtype_case, small=small)
            if case.case_id in seen:
                raise _refused(signature, row, f"{case.case_id} is the id of another case too")
            seen[case.case_id] = row.label
            yield case


def check_workloads(signature: Signature) -> Problems:
    """What is wrong with an entry's rows: ids, branches, rules, and what no row covers."""
    problems = Problems()
    seen: set[str] = set()
    passed: dict[str, set[bool]] = {i.name: set() for i in signature.inputs if i.optional is True}
    for row in signature.workloads:
        for name in passed:
            passed[name].add(name in row.some)
        for small in (False, True) if row.small else (False,):
            for dtype_case in row.dtype_cases:
                instance = _Instance(signature, row, dtype_case, small)
                for message in instance.faults():
                    problems.add("row", message, row.span)
                if not small and instance.case_id in seen:
                    message = f"{instance.case_id} is the id of another case too"
                    problems.add("row", message, row.span)
                seen.add(instance.case_id)
    if signature.status == "implemented":
        for name, ways in passed.items():
            for way in {True, False} - ways:
                verb = "passes" if way else "omits"
                span = next(i.span for i in signature.inputs if i.name == name)
                problems.add("row", f"no row {verb} {name}, which is optional", span)
    return problems


def _refused(signature: Signature, row: Workload, message: str) -> Exception:
    problems = Problems()
    problems.add("row", message, row.span)
    return manifest_error(signature.op, problems)


class _Fault(Exception):
    """What a row gets wrong."""


class _Instance:
    """A row and a dtype case, brought together."""

    def __init__(
        self, signature: Signature, row: Workload, dtype_case: Mapping[str, str], small: bool
    ) -> None:
        self.signature = signature
        self.row = row
        changes = (row.small or {}) if small else {}
        names = {param.name for param in signature.params}
        given = {**row.params, **{n: v for n, v in changes.items() if n in names}}
        self.params = {p.name: given.get(p.name, p.default) for p in signature.params}
        self.given: dict[str, Any] = {
            **row.indices,
            **{n: v for n, v in changes.items() if n not in names},
            **dtype_case,
        }
        self.values: dict[str, Any] = {**self.params, **self.given}
        self.case_id = "-".join([row.label, *self._dtype_names()])

    def case(self) -> WorkloadCase:
        """The case, or a ManifestError with the first fault."""
        try:
            inputs = self._inputs()
            self._check_indices()
            self._check_rules(self.signature.rules)
        except _Fault as fault:
            raise _refused(self.signature, self.row, f"{self.row.label}: {fault}") from None
        return WorkloadCase(
            op=self.signature.op,
            label=self.row.label,
            case_id=self.case_id,
            params=self.params,
            inputs=inputs,
            indices=self.given,
        )

    def faults(self) -> Iterator[str]:
        """What is wrong with the row, as far as it can be told."""
        try:
            self._inputs()
        except _Fault as fault:
            yield f"{self.row.label}: {fault}"
            return
        for check in (self._check_indices, lambda: self._check_rules(self.signature.rules)):
            try:
                check()
            except _Fault as fault:
                yield f"{self.row.label}: {fault}"

    def _dtype_names(self) -> Iterator[str]:
        for index in self.signature.indices:
            if isinstance(index.kind, DTypeKind) and index.name in self.given:
                yield self.given[index.name]
        for param in self.signature.params:
            kind = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
            if isinstance(kind, DTypeKind) and self.params[param.name] is not None:
                yield self.params[param.name]

    def _value(self, expr: Expr) -> Any:
        missing = sorted(self._needed(expr) - self.values.keys())
        if missing:
            raise _Fault(f"its branch uses {', '.join(missing)}, which the row does not give")
        try:
            return evaluate(expr, self.values)
        except (ValueError, ArithmeticError, IndexError) as error:
            raise _Fault(str(error)) from None

    def _needed(self, expr: Expr) -> set[str]:
        """The indices an expression reads, itself or through ``let``; their values are found."""
        needed: set[str] = set()
        reads = names_in(expr)
        for let in reversed(self.signature.lets):
            if let.name in reads:
                reads |= names_in(let.expr)
        for let in self.signature.lets:
            if let.name in reads and let.name not in self.values:
                self.values[let.name] = self._value(let.expr)
        for index in self.signature.indices:
            if index.name in reads:
                needed.add(index.name)
        return needed

    def _inputs(self) -> dict[str, tuple[str, tuple[int, ...]] | None]:
        for item in self.signature.inputs:
            self.values[item.name] = _PASSED if self._passed(item) else None
        early = [rule for rule in self.signature.rules if rule.phase != "call"]
        self._check_rules(early)
        inputs: dict[str, tuple[str, tuple[int, ...]] | None] = {}
        for item in self.signature.inputs:
            inputs[item.name] = self._input(item) if self.values[item.name] else None
        self.values.update(inputs)
        return inputs

    def _passed(self, item: Input) -> bool:
        if isinstance(item.optional, bool):
            return not item.optional or item.name in self.row.some
        return bool(self._value(item.optional))

    def _input(self, item: Input) -> tuple[str, tuple[int, ...]]:
        case = self._branch(item)
        for axis in case.axes:
            self._value(axis.value if isinstance(axis, Splice) else axis)
        shape = axes_of(case.axes, self.values)
        if any(length < 0 for length in shape):
            raise _Fault(f"{item.name} would have the shape {shape}")
        return self._value(item.dtype), shape

    def _branch(self, item: Input) -> ShapeCase:
        for case in item.shape:
            if case.when is None or self._value(case.when):
                return case
        raise _Fault(f"no case of the shape of {item.name} fits")

    def _check_indices(self) -> None:
        used: set[str] = set()
        for item in self.signature.inputs:
            if self.values[item.name] is not None:
                for part in (item.dtype, *self._branch(item).axes):
                    used |= self._needed(part)
        for name in sorted(self.given.keys() - used):
            raise _Fault(f"it gives {name}, which its branch does not use")

    def _check_rules(self, rules: tuple[Rule, ...] | list[Rule]) -> None:
        for rule in rules:
            if not self._value(rule.expr):
                raise _Fault(f"{rule.text} does not hold")
