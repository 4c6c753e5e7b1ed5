"""Whether the cases of a type family leave out a value that the signature accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tileops_core.signature.branches import Branches, Key, TooManyBranches
from tileops_core.signature.families import Families, show_values
from tileops_core.signature.model import Output, Signature, TensorDecl
from tileops_core.signature.problems import Problems
from tileops_core.spec.entries import CaseEntry, FamilyEntry, Spec, TensorEntry
from tileops_core.spec.expressions import Expr, FamilyUse


def check_coverage(
    signature: Signature, entries: Iterable[TensorEntry], families: Families, problems: Problems
) -> None:
    """Note the values for which a tensor that is there has no shape.

    A refinement over discriminants may rule a value out; then it needs no case.

    Args:
        signature: The signature, all else of it well formed.
        entries: Its tensors as they are written.
        families: Its type families.
        problems: Receives what is wrong.
    """
    if not any(families.missing.values()):
        return
    branches = Branches(signature)
    given = (*signature.inputs, *signature.construction_tensors)
    declared = {tensor.name: tensor for tensor in (*given, *signature.outputs)}
    for entry in entries:
        if not isinstance(entry.shape, FamilyUse):
            continue
        for family, values, when in families.gaps(entry.shape):
            if _comes(branches, declared[entry.name], when):
                problems.add(
                    "family-gap",
                    f"{family} has no case for {show_values(values)}, which {entry.name} may need",
                    families.entries[family].span,
                    "add the case, or a refinement over discriminants that rules it out",
                )


def untaken_cases(
    signature: Signature, spec: Spec, families: Families
) -> Iterator[tuple[FamilyEntry, CaseEntry]]:
    """The cases of type families that no tensor of an accepted call takes.

    Args:
        signature: The signature, well formed.
        spec: The entry that it was built from.
        families: Its type families.
    """
    branches = Branches(signature)
    given = (*signature.inputs, *signature.construction_tensors)
    declared = {tensor.name: tensor for tensor in (*given, *signature.outputs)}
    held = (param.tensor for param in spec.params if param.tensor is not None)
    taken: set[int] = set()
    for entry in (*spec.inputs, *held, *spec.outputs):
        if isinstance(entry.shape, FamilyUse):
            for case, when in families.taken(entry.shape):
                if id(case) not in taken and _comes(branches, declared[entry.name], when):
                    taken.add(id(case))
    for family in families.entries.values():
        yield from ((family, case) for case in family.cases if id(case) not in taken)


def _comes(branches: Branches, tensor: TensorDecl, when: Expr | None) -> bool:
    """Whether the signature accepts a call in which the tensor is there and a condition holds."""
    conditions = list(_there(branches, tensor))
    if when is not None:
        conditions.append((when, True))
    keys = set[Key]().union(*(branches.keys(condition) for condition, _ in conditions))
    if not isinstance(tensor, Output):
        keys |= branches.keys_of_input(branches.inputs[tensor.name])
    try:
        accepted = branches.accepted(keys)
    except TooManyBranches:
        return True
    for given in accepted:
        absent = (
            not isinstance(tensor, Output)
            and branches.is_there(branches.inputs[tensor.name], given) is False
        )
        if not absent and all(
            branches.value(condition, given) is not (not due) for condition, due in conditions
        ):
            return True
    return False


def _there(branches: Branches, tensor: TensorDecl) -> Iterator[tuple[Expr, bool]]:
    """What has to hold for an output to be there."""
    if isinstance(tensor, Output) and tensor.nullable is not None:
        yield tensor.nullable, False
