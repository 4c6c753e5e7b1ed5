"""Calls that reach every operator of the library: which, with which optional inputs, lying how."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import torch
from calling import arguments

from tileops_core import Op, ops
from tileops_core.call.torch_operators import LIBRARY, OPERATORS, TorchOperator
from tileops_core.conformance.inputs import made
from tileops_core.errors import ManifestError, TileOpsError
from tileops_core.signature.kinds import BoolKind, DimKind, ShapeKind
from tileops_core.signature.model import Signature, Workload
from tileops_core.signature.workload import WorkloadCase, instantiate

OPS: dict[str, type[Op]] = {
    name: cls
    for name in ops.__all__
    if name[0].isupper() and (cls := getattr(ops, name)).compile_op_names
}
"""The ops that have operators."""

MORE: Mapping[str, tuple[Mapping[str, Any], ...]] = {}
"""Parameters of calls whose operators no workload row reaches, by op; those that are switched on
by one parameter alone are found without it."""


@attrs.frozen
class Call:
    """An op's parameters and what makes its inputs, and which operator that is.

    ``operator`` is the operator's qualified name.
    """

    case: WorkloadCase
    operator: str
    out: bool = False

    @property
    def id(self) -> str:
        """For a test: the operator, and the case."""
        some = "+".join(n for n, fact in self.case.inputs.items() if fact is not None)
        return f"{self.operator.partition('::')[2]}-{self.case.case_id}-{some}"

    @property
    def signature(self) -> Signature:
        """The op's."""
        return OPS[self.case.op]._plan.signature

    def op(self) -> Op:
        """A new instance."""
        return OPS[self.case.op](**self.case.params)

    def tensors(self) -> list[torch.Tensor | None]:
        """New inputs, and behind them the caller's buffer, if there is one."""
        torch.manual_seed(self.case.seed)
        return [*made(self.case), *([_buffer(self.case, "cpu")] if self.out else ())]

    def run(self, function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
        """What the op, or a function that takes what it takes, gives for these tensors."""
        inputs, rest = tensors[: len(self.signature.inputs)], tensors[len(self.signature.inputs) :]
        positional, named = arguments(self.signature, inputs)
        return function(*positional, **named, **({"out": rest[0]} if rest else {}))

    @property
    def torch(self) -> TorchOperator:
        """The operator."""
        return OPERATORS[self.operator]


def _buffer(case: WorkloadCase, device: str) -> torch.Tensor:
    """New memory for the output that the caller may bring it for."""
    output = OPS[case.op]._plan.signature.out_buffer
    fact = case.outputs[output.name] if output is not None else None
    assert fact is not None
    return torch.zeros(fact[1], dtype=getattr(torch, fact[0]), device=device)


def _call(case: WorkloadCase, *, out: bool = False) -> Call:
    """A call with the operator that it reaches, by its record on tensors without data."""
    cls = OPS[case.op]
    op = cls(**case.params)
    tensors = [*_on_meta(case), *([_buffer(case, "meta")] if out else ())]
    Call(case, "", out).run(op, tensors)
    suffix = op.last_call.branch_key
    found = [n for n in cls.compile_op_names if n.endswith(suffix)] if suffix else []
    return Call(case, min(found or cls.compile_op_names, key=len), out)


def _on_meta(case: WorkloadCase) -> list[torch.Tensor | None]:
    return [
        None if fact is None else torch.empty(fact[1], dtype=getattr(torch, fact[0]), device="meta")
        for fact in case.inputs.values()
    ]


def _instantiated(signature: Signature, row: Workload, **changes: Any) -> WorkloadCase | None:
    """A row with changes, scaled down; None where the entry does not accept it."""
    try:
        row = attrs.evolve(row, **changes)
        return instantiate(signature, row, row.dtype_cases[0], small=True)
    except ManifestError:
        return None


def _switched(signature: Signature, row: Workload) -> Iterator[Mapping[str, Any]]:
    """The row's parameters, and those with one flag the other way round."""
    yield row.params
    for param in signature.params:
        if isinstance(param.kind, BoolKind):
            now = row.params.get(param.name, param.default)
            yield {**row.params, param.name: not now}
    for more in MORE.get(signature.op, ()):
        yield {**row.params, **more}


@cache
def calls(op: str) -> tuple[Call, ...]:
    """An op's calls: the first reaches its first operator, and the first of each comes early."""
    signature = OPS[op]._plan.signature
    found: list[Call] = []
    for row in signature.workloads:
        for params in _switched(signature, row):
            case = _instantiated(signature, row, params=params)
            if case is not None:
                found.append(_call(case))
        if signature.out_buffer is not None:
            found.append(
                _call(instantiate(signature, row, row.dtype_cases[0], small=True), out=True)
            )
    firsts = {call.operator: call for call in reversed(found)}
    return (*firsts.values(), *(c for c in found if c not in firsts.values()))


def representatives() -> list[Call]:
    """One call for each operator."""
    return [c for op in OPS for c in {c.operator: c for c in reversed(calls(op))}.values()]


def with_optional_inputs() -> list[Call]:
    """For each op, calls with every choice of its optional inputs that the entry accepts."""
    found: dict[Any, Call] = {}
    for op in OPS:
        signature = OPS[op]._plan.signature
        optional = [t.name for t in signature.inputs if t.optional is True]
        choices = [
            some
            for count in range(len(optional) + 1)
            for some in itertools.combinations(optional, count)
        ]
        for row, some in itertools.product(signature.workloads, choices):
            case = _instantiated(signature, row, some=some) if optional else None
            if case is not None:
                call = _call(case)
                passed = tuple(n for n, fact in case.inputs.items() if fact is not None)
                found.setdefault((op, call.operator, passed), call)
    return list(found.values())


def empty() -> list[Call]:
    """A call of each op with a tensor of no elements, where the entry accepts one."""
    return [call for op in OPS if (call := _empty(op)) is not None]


def _empty(op: str) -> Call | None:
    signature = OPS[op]._plan.signature
    row = signature.workloads[0]
    nothing = {
        index.name: 0 if isinstance(index.kind, DimKind) else [0, 2]
        for index in signature.indices
        if isinstance(index.kind, DimKind | ShapeKind) and index.name in row.indices
    }
    shapes = {name: value for name, value in nothing.items() if value != 0}
    for changed in (*({name: value} for name, value in nothing.items()), shapes):
        case = _instantiated(signature, row, indices={**row.indices, **changed}, small=None)
        if case is None or not any(fact and 0 in fact[1] for fact in case.inputs.values()):
            continue
        case = case.scaled(1 << 12)
        call = _call(case)
        try:
            call.run(call.op(), call.tensors())
        except (TileOpsError, IndexError):
            continue
        return call
    return None


# -- how tensors lie --------------------------------------------------------------------------


def contiguous(x: torch.Tensor) -> torch.Tensor:
    """As it is."""
    return x


def transposed(x: torch.Tensor) -> torch.Tensor:
    """The last two axes the other way round in memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else sliced(x)


def sliced(x: torch.Tensor) -> torch.Tensor:
    """Every second element of something larger."""
    wide = x.new_zeros((*x.shape, 2))
    wide[..., 0] = x
    return wide[..., 0]


def expanded(x: torch.Tensor) -> torch.Tensor:
    """One slice for the whole first axis."""
    return x[:1].expand_as(x) if x.dim() and x.shape[0] else x


def shifted(x: torch.Tensor) -> torch.Tensor:
    """Not at the start of its storage."""
    longer = x.new_zeros(x.numel() + 3)
    longer[3:] = x.reshape(-1)
    return longer[3:].view(x.shape)


LAYOUTS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    contiguous,
    transposed,
    sliced,
    expanded,
    shifted,
]


def lying(call: Call, layout: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    """The call's inputs in a layout, as far as the entry accepts it of each.

    Written inputs are not expanded, and what must be contiguous or holds what describes others
    stays as it is.
    """
    placed = []
    tensors = call.tensors()
    for declared, x in zip(call.signature.inputs, tensors, strict=False):
        fixed = declared.contiguous or declared.values is not None
        fixed = fixed or (layout is expanded and declared.mutated is not False)
        placed.append(x if x is None or fixed else layout(x))
    return placed + tensors[len(placed) :]


def names_of_all_operators() -> set[str]:
    """The operators of the library's own ops."""
    return {name for name in OPERATORS if name.startswith(f"{LIBRARY}::")}
