"""Where the indices of ``forall`` get their values from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileops_core.signature.kinds import Kind
from tileops_core.signature.metadata import row_only_indices
from tileops_core.signature.model import Input
from tileops_core.signature.problems import Problems
from tileops_core.signature.rules import defined_by, names_in
from tileops_core.spec.entries import IndexEntry, LetEntry, Spec
from tileops_core.spec.expressions import Expr, FamilyUse


def check_sources(
    spec: Spec, tensors: Iterable[Input], indices: Mapping[str, Kind | None], problems: Problems
) -> frozenset[str]:
    """Note indices that nothing gives a value.

    Args:
        spec: The entry.
        tensors: Its inputs and the parameters that are tensors, with their shapes.
        indices: The kinds of its indices.
        problems: Receives what is wrong.

    Returns:
        The indices that only workload rows give.
    """
    given = [*spec.inputs, *(param.tensor for param in spec.params if param.tensor is not None)]
    unread = any(entry.shape is None or entry.dtype is None for entry in given)
    if unread or spec.left_out & {"inputs", "params", "let"}:
        return frozenset()  # what could not be read may carry any of them
    applied = {entry.name for entry in given if isinstance(entry.shape, FamilyUse)}
    carried: set[str] = set()
    for tensor in tensors:
        parts = [axis for case in tensor.shape for axis in case.axes]
        if tensor.name in applied and not parts:
            return frozenset()  # the family is at fault, and that is noted
        for part in (tensor.dtype, *parts):
            carried |= names_in(part)
    row_only = row_only_indices(indices, carried, spec.inputs)
    for index in spec.forall:
        if index.name not in carried | row_only:
            _note_unsourced(spec, index, carried, problems)
    return row_only


def _note_unsourced(
    spec: Spec, index: IndexEntry, carried: Iterable[str], problems: Problems
) -> None:
    definer = next((rule for rule in spec.rules if index.name in defined_by(rule)), None)
    if definer is not None:
        problems.add(
            "rule-defines-name",
            f"{index.name} gets its value from nothing but this equality",
            definer.span,
            f"take {index.name} out of forall and write it below let",
        )
        return
    lets = {entry.name: entry for entry in spec.lets if entry.name in carried}
    for name, entry in sorted(lets.items()):
        if entry.expr is not None and index.name in names_behind(entry.expr, spec.lets):
            problems.add(
                "unsourced-index",
                f"inputs carry {index.name} inside let {name} only, and no tensor is solved for "
                "what stands in a let",
                index.span,
                f"write the expression of {name} among the axes itself, or make the axis the index",
            )
            return
    problems.add(
        "unsourced-index",
        f"no input carries {index.name}, so no call gives it a value",
        index.span,
        "name it in an input's shape or dtype, make it a parameter or a let, or take it out",
    )


def names_behind(expr: Expr, lets: Iterable[LetEntry]) -> set[str]:
    """The names that an expression reads, and those that quantities among them read."""
    exprs = {entry.name: entry.expr for entry in lets if entry.expr is not None}
    found: set[str] = set()
    todo = set(names_in(expr))
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= (names_in(exprs[name]) if name in exprs else set()) - found
    return found
