"""Inputs whose values describe other tensors: what makes them in a row, what they must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import attrs

from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.dtypes import DTYPES
from tileops_core.signature.generators import GENERATORS, Generator
from tileops_core.signature.kinds import DTypeKind, TensorKind
from tileops_core.signature.model import Input, Let, Output, Requirement, Roofline, Rule
from tileops_core.signature.predicates import PREDICATES, Predicate
from tileops_core.signature.primitives import PRIMITIVES, Argument, Primitive
from tileops_core.signature.problems import Problems
from tileops_core.signature.rules import names_in
from tileops_core.signature.values import LISTS
from tileops_core.spec.entries import UNREADABLE, InputEntry, RuleEntry
from tileops_core.spec.expressions import Call, Expr, Name, Splice
from tileops_core.suggest import did_you_mean, listed

ROW_FUNCTIONS: Mapping[str, Primitive] = MappingProxyType({**PRIMITIVES, **LISTS})
"""What may be called where a workload row is instantiated."""

_Known = TypeVar("_Known", Generator, Predicate)


class MetadataChecker:
    """Checks ``values`` and ``requires`` of one entry's inputs.

    Args:
        scope: The entry's names.
        entries: All of its inputs as they are written.
    """

    def __init__(self, scope: Scope, entries: Iterable[InputEntry]) -> None:
        self.problems = scope.problems
        self.scope = scope
        self.metadata = {entry.name: entry for entry in entries if entry.values is not None}

    def read(self, tensor: Input, entry: InputEntry) -> Input:
        """The input with its generator and its predicates."""
        values = self._values(entry)
        requires = tuple(r for rule in entry.requires if (r := self._requirement(tensor, rule)))
        if entry.values is None and not entry.requires:
            return tensor
        if entry.values is None:
            self.problems.add(
                "metadata",
                f"{entry.name} has requires and no values, so no workload row could fill it",
                entry.span,
                f"write values: <generator>(...); the generators are {listed(GENERATORS)}",
            )
        self._check_dtype(entry)
        return attrs.evolve(tensor, values=values, requires=requires)

    def _values(self, entry: InputEntry) -> Call | None:
        if entry.values is None or entry.values is UNREADABLE:
            return None
        checker = Checker(attrs.evolve(self.scope, functions=ROW_FUNCTIONS))
        return self._call(entry.values, f"{entry.name}: values", GENERATORS, checker)

    def _requirement(self, tensor: Input, rule: RuleEntry) -> Requirement | None:
        if rule.expr is None:
            return None
        what = f"{tensor.name}: requires"
        call = self._call(rule.expr, what, PREDICATES, Checker(self.scope))
        if call is None:
            return None
        predicate = PREDICATES[call.function]
        self._check_rank(tensor, predicate.rank, call)
        tensors = []
        for arg in call.args:
            if isinstance(arg, Name) and isinstance(self.scope.kinds.get(arg.id), TensorKind):
                tensors.append(arg.id)
                self._check_other(tensor, arg)
        return Requirement(call, rule.text, tuple(tensors), span=rule.span)

    def _call(
        self, expr: Expr, what: str, known: Mapping[str, _Known], checker: Checker
    ) -> Call | None:
        """A call of something known, its arguments of the right number and kinds."""
        noun = "generator" if known is GENERATORS else "predicate"
        if not isinstance(expr, Call) or expr.function not in known:
            name = expr.function if isinstance(expr, Call) else ""
            said = f"{name!r} is no {noun}{did_you_mean(name, known)}" if name else f"no {noun}"
            self.problems.add(
                "metadata", f"{what}: {said}", expr.span, f"the {noun}s are {listed(known)}"
            )
            return None
        function = known[expr.function]
        formal: tuple[Argument, ...] = function.args
        if len(formal) != len(expr.args) or expr.keywords:
            self.problems.add(
                "arguments",
                f"{what}: {expr.function} takes {len(formal)} arguments and is given "
                f"{len(expr.args) + len(expr.keywords)}",
                expr.span,
                f"write {function.usage}",
            )
            return None
        kinds = [
            checker.argument(arg, argument, function.usage)
            for arg, argument in zip(expr.args, formal, strict=True)
        ]
        return None if None in kinds else expr

    def _check_rank(self, tensor: Input, rank: int | None, call: Call) -> None:
        for case in tensor.shape:
            open_ended = any(isinstance(axis, Splice) for axis in case.axes)
            if rank is not None and (open_ended or len(case.axes) != rank):
                plural = "axis" if rank == 1 else "axes"
                self.problems.add(
                    "metadata",
                    f"{call.function} asks for a tensor of {rank} {plural}, {tensor.name} is "
                    f"{tensor.shape_text}",
                    call.span,
                )
                return
            if not case.axes:
                self.problems.add(
                    "metadata", f"{tensor.name} has no axis, so it describes nothing", call.span
                )
                return

    def _check_other(self, tensor: Input, name: Name) -> None:
        """Another tensor whose values a predicate reads must be there, and be metadata."""
        other = self.metadata.get(name.id)
        if other is not None and other.optional is False and other.name != tensor.name:
            return
        message = f"{name.id} is no other input with values that is always passed"
        if other is not None and other.name != tensor.name:
            message = f"{name.id} may be absent, and a predicate reads what is always passed"
        hint = f"such inputs are {listed(self._always(tensor))}"
        self.problems.add("metadata", message, name.span, hint)

    def _always(self, tensor: Input) -> list[str]:
        return [
            name
            for name, entry in self.metadata.items()
            if entry.optional is False and name != tensor.name
        ]

    def _check_dtype(self, entry: InputEntry) -> None:
        quiet = Checker(attrs.evolve(self.scope, problems=Problems()))
        kind = quiet.kind(entry.dtype) if entry.dtype is not None else None
        members = kind.members if isinstance(kind, DTypeKind) else None
        if members is not None and any(DTYPES[name].category != "int" for name in members):
            self.problems.add(
                "metadata",
                f"{entry.name} has values, which are ints, and the dtype {entry.dtype_text}",
                entry.dtype_span,
            )


def row_only_indices(
    indices: Iterable[str], carried: Iterable[str], entries: Iterable[InputEntry]
) -> frozenset[str]:
    """The indices that no tensor carries and ``values`` read: rows give them, calls do not."""
    loose = frozenset(indices) - frozenset(carried)
    read: frozenset[str] = frozenset()
    for entry in entries:
        if entry.values is UNREADABLE:
            return loose  # it may read any of them
        if entry.values is not None:
            read |= names_in(entry.values)
    return loose & read


def check_row_only(
    names: frozenset[str],
    lets: Iterable[Let],
    rules: Iterable[Rule],
    inputs: Iterable[Input],
    outputs: Iterable[Output],
    roofline: Roofline | None,
    problems: Problems,
) -> None:
    """Note what a call has to read of indices that only a workload row gives."""
    if not names:
        return
    places: list[tuple[str, Any]] = [(f"let {let.name}", let.expr) for let in lets]
    places += [(f"the refinement {rule.text}", rule.expr) for rule in rules]
    places += [(f"{i.name}: requires", r.call) for i in inputs for r in i.requires]
    places += [(f"output {o.name}", part) for o in outputs for part in _parts(o)]
    if roofline is not None:
        places += [("the roofline", cost) for cost in (roofline.flops, roofline.bytes) if cost]
    for what, expr in places:
        for name in sorted(names_in(expr) & names):
            problems.add(
                "unsourced-index",
                f"{what} reads {name}, which rows give to a generator and no input carries",
                expr.span,
                "make it a parameter, or a let",
            )


def _parts(output: Output) -> list[Expr]:
    axes = [axis for case in output.shape for axis in case.axes]
    # A dtype that could not be read is None, and that is noted.
    return axes if output.dtype is None else [output.dtype, *axes]


def arguments(
    call: Call, value: Callable[[Expr], Any], tensors: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of a generator or predicate.

    Args:
        call: The call.
        value: Gives an expression's value.
        tensors: The values of the tensors that are arguments themselves.
    """
    return tuple(
        tensors[arg.id] if isinstance(arg, Name) and arg.id in tensors else value(arg)
        for arg in call.args
    )
