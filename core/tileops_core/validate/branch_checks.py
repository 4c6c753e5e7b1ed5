"""Whether an entry means something on every combination of its discriminants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tileops_core.signature.branches import Branches, Key, TooManyBranches
from tileops_core.signature.model import Signature
from tileops_core.signature.operators import operators
from tileops_core.signature.problems import Problems
from tileops_core.signature.settled import Settled, settled_by
from tileops_core.signature.steps import Solution, TensorStep
from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr


def check_branches(signature: Signature, solution: Solution, problems: Problems) -> int:
    """Check refinements, indices and effects on every branch; how many combinations that were.

    Args:
        signature: The entry.
        solution: Its solving order, with nothing unsolved.
        problems: Receives what is wrong.
    """
    checker = _Checker(signature, solution, problems)
    for check in (checker.rules, checker.indices, checker.effects):
        try:
            check()
        except TooManyBranches as error:
            problems.add(
                "too-many-branches",
                str(error),
                signature.span,
                "let fewer of them stand in one condition or refinement",
            )
    return checker.branches.count


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
        steps = [*solution.construction]
        steps += [step for step in solution.steps if isinstance(step, TensorStep)]
        self.settled = Settled(signature, steps, self.branches)
        self.certain = {name for step in steps for name in _always(step)}

    # -- refinements over discriminants ---------------------------------------------------

    def rules(self) -> None:
        """Some combination must be left."""
        for rule in self.branches.restrictions:
            if not self.branches.accepted(self.branches.keys(rule.expr)):
                self.problems.add(
                    "no-branch",
                    f"together with the others that read the same, {rule.text} allows nothing",
                    rule.span,
                )

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
        found = self.settled.unsettled(
            names, reader.exprs, only_if=reader.only_if, unless=reader.unless
        )
        for name, where in sorted(found.items()):
            more = f", and on {len(where) - 1} combinations more" if len(where) > 1 else ""
            self.problems.add(
                "branch-unsettled",
                f"{reader.what} reads {name}, which nothing settles where {_show(where[0])}{more}",
                reader.span,
                "read it behind the condition under which a tensor carries it",
            )

    # -- effects --------------------------------------------------------------------------

    def effects(self) -> None:
        """On each branch an output is one thing: new, None, the caller's buffer or an input."""
        for operator in operators(self.signature, self.branches):
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


def _always(step: TensorStep) -> set[str]:
    """What a tensor settles whenever there is a call."""
    if step.tensor.optional is not False:
        return set()
    per_case = [settled_by(case.steps) for case in step.cases]
    everywhere = set.intersection(*per_case) if per_case else set()
    return everywhere | ({step.binds_dtype} if step.binds_dtype else set())


def _show(given: Mapping[Key, Any]) -> str:
    """A combination in words: ``trans_a is true and w is there``."""
    parts = []
    for key, value in sorted(given.items(), key=lambda item: str(item[0])):
        if not isinstance(key, str):
            parts.append(f"the condition {key.span.where} is {str(value).lower()}")
        elif key.startswith("present("):
            parts.append(f"{key[8:-1]} is {'there' if value else 'not there'}")
        elif value is None:
            parts.append(f"{key} is not there")
        else:
            shown = str(value).lower() if isinstance(value, bool) else repr(value)
            parts.append(f"{key} is {shown}")
    return " and ".join(parts) or "nothing is chosen"
