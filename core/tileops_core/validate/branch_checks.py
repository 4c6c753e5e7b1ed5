"""Whether an entry means something on every combination of its discriminants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tileops_core.signature.branches import UNKNOWN, Branches, Given, Key, TooManyBranches
from tileops_core.signature.model import Input, Output, Signature, TensorDecl
from tileops_core.signature.operators import operators
from tileops_core.signature.problems import Problems
from tileops_core.signature.solving import OpenRun, Solution, SolveAxis, TensorStep
from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr


def check_branches(signature: Signature, solution: Solution, problems: Problems) -> int:
    """Check cases, indices and effects on every branch; how many combinations that were.

    Args:
        signature: The entry.
        solution: Its solving order, with nothing unsolved.
        problems: Receives what is wrong.
    """
    checker = _Checker(signature, solution, problems)
    for check in (checker.rules, checker.cases, checker.indices, checker.effects):
        try:
            check()
        except TooManyBranches as error:
            problems.add(
                "too-many-branches",
                str(error),
                signature.span,
                "let fewer of them stand in one condition or refinement",
            )
    return checker.count


@attrs.frozen
class _Reader:
    """Something that reads indices: the expressions it evaluates on each branch."""

    what: str
    exprs: tuple[Expr, ...]
    span: Span
    only_if: Expr | None = None
    unless: Expr | None = None


class _Checker:
    def __init__(self, signature: Signature, solution: Solution, problems: Problems) -> None:
        self.signature = signature
        self.problems = problems
        self.branches = Branches(signature)
        self.steps = {s.tensor.name: s for s in solution.steps if isinstance(s, TensorStep)}
        self.certain = {name for step in self.steps.values() for name in _always(step)}
        self.count = 0

    def accepted(self, keys: Iterable[Key]) -> tuple[Given, ...]:
        """The combinations of some discriminants; counted."""
        found = self.branches.accepted(keys)
        self.count += len(found)
        return found

    # -- refinements over discriminants ---------------------------------------------------

    def rules(self) -> None:
        """Some combination must be left."""
        for rule in self.branches.restrictions:
            if not self.accepted(self.branches.keys(rule.expr)):
                self.problems.add(
                    "no-branch",
                    f"together with the others that read the same, {rule.text} allows nothing",
                    rule.span,
                )

    # -- type families --------------------------------------------------------------------

    def cases(self) -> None:
        """Each tensor has one shape wherever it is there."""
        for tensor in (*self.signature.inputs, *self.signature.outputs):
            conditions = [case.when for case in tensor.shape if case.when is not None]
            keys = set[Key]().union(*map(self.branches.keys, conditions), self._presence(tensor))
            gaps, overlaps = [], []
            for given in self.accepted(keys) if conditions else ():
                if self._absent(tensor, given):
                    continue
                holding = self.branches.case_of(tensor.shape, given)
                if not holding:
                    gaps.append(given)
                elif sum(value is not UNKNOWN for _, value in holding) > 1:
                    overlaps.append(given)
            self._note("branch-gap", f"{tensor.name} has no shape", gaps, keys, tensor.shape_span)
            self._note(
                "branch-overlap", f"{tensor.name} has two shapes", overlaps, keys, tensor.shape_span
            )

    def _presence(self, tensor: TensorDecl) -> Iterable[Key]:
        if isinstance(tensor, Input):
            return self.branches.keys_of_input(tensor)
        nullable = tensor.nullable if isinstance(tensor, Output) else None
        return self.branches.keys(nullable) if nullable is not None else ()

    def _absent(self, tensor: TensorDecl, given: Given) -> bool:
        if isinstance(tensor, Input):
            return self.branches.is_there(tensor, given) is False
        nullable = tensor.nullable if isinstance(tensor, Output) else None
        return nullable is not None and self.branches.value(nullable, given) is True

    # -- indices --------------------------------------------------------------------------

    def indices(self) -> None:
        """What is read on a branch is settled there."""
        sometimes = {index.name for index in self.signature.indices} - self.certain
        for reader in self._readers() if sometimes else ():
            names: set[str] = set()
            for expr in reader.exprs:
                names |= self.branches.reads(expr, {})
            if names & sometimes:
                self._read(reader, names & sometimes)

    def _readers(self) -> Iterator[_Reader]:
        for let in self.signature.lets:
            yield _Reader(f"let {let.name}", (let.expr,), let.span)
        for rule in self.signature.rules:
            yield _Reader(f"the refinement {rule.text}", (rule.expr,), rule.span)
        roofline = self.signature.roofline
        for cost in (roofline.flops, roofline.bytes) if roofline else ():
            if cost is not None:
                yield _Reader("the roofline", (cost,), cost.span)
        for output in self.signature.outputs:
            what = f"output {output.name}"
            yield _Reader(what, (output.dtype,), output.dtype_span, unless=output.nullable)
            for case in output.shape:
                yield _Reader(what, case.axes, output.shape_span, case.when, output.nullable)

    def _read(self, reader: _Reader, names: set[str]) -> None:
        keys = set[Key]()
        for expr in reader.exprs:
            keys |= self.branches.keys_inside(expr)
        for condition in (reader.only_if, reader.unless):
            keys |= self.branches.keys(condition) if condition is not None else set()
        for name in names:
            keys |= self._keys_of_carriers(name)
        unsettled: dict[str, list[Given]] = {}
        for given in self.accepted(keys):
            if not self._evaluated(reader, given):
                continue
            read = set[str]().union(*(self.branches.reads(expr, given) for expr in reader.exprs))
            for name in sorted(read & names - self._settled(given)):
                unsettled.setdefault(name, []).append(given)
        for name, where in unsettled.items():
            self._note(
                "branch-unsettled", f"{reader.what} reads {name}, which nothing settles", where,
                keys, reader.span,
            )  # fmt: skip

    def _evaluated(self, reader: _Reader, given: Given) -> bool:
        value = self.branches.value
        if reader.unless is not None and value(reader.unless, given) is True:
            return False
        return reader.only_if is None or value(reader.only_if, given) is not False

    def _keys_of_carriers(self, name: str) -> set[Key]:
        keys = set[Key]()
        for step in self.steps.values():
            cases = [case for case in step.cases if name in _names(case.steps)]
            if not cases and step.binds_dtype != name:
                continue
            keys |= self.branches.keys_of_input(step.tensor)
            for case in step.cases:
                if case.case.when is not None:
                    keys |= self.branches.keys(case.case.when)
        return keys

    def _settled(self, given: Given) -> set[str]:
        settled: set[str] = set()
        for step in self.steps.values():
            if self.branches.is_there(step.tensor, given) is not True:
                continue
            settled |= {step.binds_dtype} if step.binds_dtype else set()
            for case in step.cases:
                when = case.case.when
                if when is None or self.branches.value(when, given) is True:
                    settled |= _names(case.steps)
        return settled

    # -- effects --------------------------------------------------------------------------

    def effects(self) -> None:
        """On each branch an output is one thing: new, None, the caller's buffer or an input."""
        for operator in operators(self.signature, self.branches):
            self.count += 1
            taken: dict[str, str] = {}
            for output in self.signature.outputs:
                if output.alias is None or output.alias not in operator.written:
                    continue
                if output.name in operator.without:
                    self.problems.add(
                        "effect-branch",
                        f"{output.name} is None and the written {output.alias} on one branch",
                        output.span,
                        "let nullable and mutated exclude each other",
                    )
                elif output.alias in taken:
                    self.problems.add(
                        "effect-branch",
                        f"{output.name} and {taken[output.alias]} are both {output.alias} on one "
                        "branch",
                        output.span,
                    )
                taken[output.alias] = output.name

    # -- messages -------------------------------------------------------------------------

    def _note(
        self, code: str, message: str, where: list[Given], keys: Iterable[Key], span: Span
    ) -> None:
        if not where:
            return
        shown = _show({key: where[0][key] for key in keys if key in where[0]})
        more = f", and on {len(where) - 1} combinations more" if len(where) > 1 else ""
        self.problems.add(code, f"{message} where {shown}{more}", span)


def _names(steps: Iterable[Any]) -> set[str]:
    return {step.name for step in steps if isinstance(step, SolveAxis | OpenRun)}


def _always(step: TensorStep) -> set[str]:
    """What a tensor settles whenever there is a call."""
    if step.tensor.optional is not False:
        return set()
    per_case = [_names(case.steps) for case in step.cases]
    everywhere = set.intersection(*per_case) if per_case else set()
    return everywhere | ({step.binds_dtype} if step.binds_dtype else set())


def _show(given: Mapping[Key, Any]) -> str:
    """A combination in words: ``trans_a is true and w is there``."""
    parts = []
    for key, value in sorted(given.items(), key=lambda item: str(item[0])):
        if not isinstance(key, str):
            parts.append(f"the condition in line {key.span.line} is {str(value).lower()}")
        elif key.startswith("present("):
            parts.append(f"{key[8:-1]} is {'there' if value else 'not there'}")
        elif value is None:
            parts.append(f"{key} is not there")
        else:
            parts.append(f"{key} is {str(value).lower() if isinstance(value, bool) else value!r}")
    return " and ".join(parts) or "nothing is chosen"
