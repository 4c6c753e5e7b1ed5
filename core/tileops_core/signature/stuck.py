"""Why no order of solving goes on: the one cause, and not all that hangs on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.kinds import ShapeKind
from tileops_core.signature.model import Input, ShapeCase
from tileops_core.signature.problems import Problem
from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr, Name, Splice

if TYPE_CHECKING:
    from tileops_core.signature.solving import Solver

_AXIS_HINT = "write each index once as a plain axis, or as a*M + e with a number a and a known e"


@attrs.frozen(eq=False, repr=False)
class Cause(EqualByFields):
    """What keeps a tensor from being read; ``hopeless``, if knowing all but one of the names that
    it leaves unknown would not help.
    """

    problem: Problem
    hopeless: bool


def causes(solver: Solver, tensor: Input) -> list[Cause]:
    """Why a tensor cannot be read with what is known; one cause for each part that is at fault."""
    missing = solver.missing(tensor.dtype)
    if missing and not (isinstance(tensor.dtype, Name) and solver.is_dtype(tensor.dtype.id)):
        message = f"{tensor.name} cannot be solved for {_and(missing)}: its dtype is computed"
        hint = "let another tensor have the index itself as its dtype"
        return [Cause(_problem(message, tensor.dtype_span, hint), True)]
    found: dict[Span, Cause] = {}
    for case in tensor.shape:
        late = solver.missing(case.when) if case.when is not None else set()
        if late and case.when is not None:
            message = (
                f"{tensor.name} cannot be solved for {_and(late)}: which case its shape has hangs "
                "on that"
            )
            hint = "a discriminant is known before the tensor is read"
            return [Cause(_problem(message, case.when.span, hint), False)]
        for lifted in solver.lifted(case):
            for cause in _of_case(solver, tensor, lifted):
                found.setdefault(cause.problem.span, cause)
    return list(found.values())


def _of_case(solver: Solver, tensor: Input, case: ShapeCase) -> Iterator[Cause]:
    opens = [axis for axis in case.axes if isinstance(axis, Splice) and solver.missing(axis.value)]
    for axis in opens:
        if not (isinstance(axis.value, Name) and _is_shape(solver, axis.value.id)):
            message = (
                f"{tensor.name} cannot be solved for {_and(solver.missing(axis.value))}: no axes "
                f"tell them from {said(axis)}"
            )
            hint = "a splice whose length is not known is one index of kind Shape"
            yield Cause(_problem(message, axis.span, hint), True)
            return
    if len(opens) > 1:
        names = {name for axis in opens for name in solver.missing(axis.value)}
        message = (
            f"{tensor.name} cannot be solved for {_and(names)}: where one of them ends and the "
            "other begins, nothing tells"
        )
        hint = "a shape has one splice whose length is not known"
        yield Cause(_problem(message, opens[1].span, hint), False)
        return
    for item, missing in solver.left_over(case):
        hopeless = not any(solver.is_linear(item, name) for name in missing)
        message = (
            f"{tensor.name} cannot be solved for {_and(missing)}: its axis {said(item)} does not "
            f"tell {'it' if len(missing) == 1 else 'them'}"
        )
        yield Cause(_problem(message, item.span, _AXIS_HINT), hopeless)


def _is_shape(solver: Solver, name: str) -> bool:
    return name in solver.indices and isinstance(solver.indices[name].kind, ShapeKind)


def said(expr: Expr) -> str:
    """An expression as the entry writes it, as far as it stands on one line."""
    start = expr.span.column - 1
    return " ".join(expr.span.text[start : start + expr.span.length].split())


def _problem(message: str, span: Span, hint: str) -> Problem:
    return Problem("unsolved", message, span, hint)


def _and(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
