"""Workload rows as cases: which tensors a call gets, without making any."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tileops_core.by_fields import EqualByFields, ShownByFields
from tileops_core.signature.generators import Nested
from tileops_core.signature.instance import Fact, Instance, RowFault
from tileops_core.signature.made import Made
from tileops_core.signature.model import Signature, Workload
from tileops_core.signature.problems import Problems, manifest_error
from tileops_core.signature.scaling import elements, scaled

Facts: TypeAlias = Mapping[str, Fact | None]
"""The dtype's short name and the shape of each tensor, or None for one that is not there."""


@attrs.frozen(slots=True, eq=False, repr=False)
class WorkloadCase(EqualByFields):
    """One call that a row describes.

    Attributes:
        params: every constructor parameter that is no tensor, defaults included.
        tensors: the parameters that are tensors.
        inputs: the inputs.
        outputs: the outputs, None where this branch has none.
        indices: the value of each index that the call's branch uses.
    """

    op: str
    label: str
    case_id: str
    params: Mapping[str, Any]
    tensors: Facts
    inputs: Facts
    outputs: Facts
    indices: Mapping[str, Any]
    _instance: Instance = attrs.field(eq=False, repr=False)
    _row: Workload = attrs.field(eq=False, repr=False)

    @property
    def seed(self) -> int:
        """Decides the case's random data; the same wherever and whenever it is read."""
        return seed_of(self.op, self.case_id)

    @property
    def instance(self) -> Instance:
        """The call as its values by name, from which others can be made."""
        return self._instance

    @property
    def elements(self) -> int:
        """How many elements the case's tensors have together, outputs included."""
        return elements(self._instance)

    def metadata(self) -> Mapping[str, Nested]:
        """The values of the inputs that describe others, as nested ints by name.

        They are made anew each time: those of great rows are great.
        """
        return self._instance.metadata(self.seed)

    def scaled(self, max_elements: int) -> WorkloadCase:
        """The same call with tensors of at most ``max_elements`` elements together, if it can be.

        A case that fits is returned as it is. Else the row's ``small`` sizes are taken, if it gives
        any. While that is not enough, lengths are halved, the greatest first, as long as the entry
        accepts what comes of it; what a refinement ties together is halved together. Where nothing
        can be halved any more the case may still be greater: :attr:`elements` tells.
        """
        if self.elements <= max_elements:
            return self
        case = self
        if self._row.small:
            dtypes = {name: self.indices[name] for name in self._row.dtype_cases[0]}
            case = instantiate(self._instance.signature, self._row, dtypes, small=True)
        return _case(scaled(case._instance, max_elements), self._row)


def seed_of(op: str, case_id: str) -> int:
    """The seed of a case, from 0 to 2**63."""
    digest = hashlib.sha256(f"{op}/{case_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def instantiate(
    signature: Signature,
    row: Workload,
    dtype_case: Mapping[str, str],
    *,
    small: bool = False,
    requires: bool = True,
) -> WorkloadCase:
    """The call that a row describes with one of its dtype cases.

    Args:
        signature: The op's signature.
        row: One of its rows.
        dtype_case: The dtype of each dtype index.
        small: Take the row's scaled-down sizes, where it gives any.
        requires: Make the metadata tensors' values and check what the entry requires of them.

    Raises:
        ManifestError: When the row leaves out an index that its branch uses, gives one that it
            does not use, or describes a call that the signature refuses.
    """
    instance = Instance.of_row(signature, row, dtype_case, small=small)
    try:
        instance.check()
        if requires:
            instance.metadata(seed_of(signature.op, instance.case_id))
    except RowFault as fault:
        raise _refused(signature, row, f"{row.label}: {fault}") from None
    return _case(instance, row)


def _case(instance: Instance, row: Workload) -> WorkloadCase:
    return WorkloadCase(
        op=instance.signature.op,
        label=row.label,
        case_id=instance.case_id,
        params=instance.params,
        tensors=instance.tensors,
        inputs=instance.inputs,
        outputs=instance.outputs,
        indices=instance.given,
        instance=instance,
        row=row,
    )


def cases(
    signature: Signature, *, small: bool = False, requires: bool = True
) -> Iterator[WorkloadCase]:
    """Every case of every row, in the entry's order.

    Raises:
        ManifestError: When a row cannot be instantiated, or two cases have one id.
    """
    seen: dict[str, str] = {}
    for row in signature.workloads:
        for dtype_case in row.dtype_cases:
            case = instantiate(signature, row, dtype_case, small=small, requires=requires)
            if case.case_id in seen:
                raise _refused(signature, row, f"{case.case_id} is the id of another case too")
            seen[case.case_id] = row.label
            yield case


# -- rows that are checked ----------------------------------------------------------------


@attrs.frozen(slots=True, eq=False, repr=False)
class Tried(ShownByFields):
    """A case of a row, tried: the call, and what is wrong with it.

    Attributes:
        small: with the row's small sizes.
        stands: nothing is wrong but what metadata there may be.
        faults: what is wrong, metadata included.
    """

    row: Workload
    small: bool
    instance: Instance
    stands: bool
    faults: tuple[str, ...]
    _made: Made | None

    @property
    def case(self) -> WorkloadCase:
        """The case, of a call that stands."""
        return _case(self.instance, self.row)

    def metadata(self) -> Mapping[str, Nested]:
        """Values as the case's metadata may have; mostly those of its row's other dtypes."""
        seed = seed_of(self.instance.signature.op, self.instance.case_id)
        return self.instance.metadata(seed, self._made)


_KEPT = 2**21
"""So many values of metadata are kept for cases to come, and for those who ask again."""


def try_rows(signature: Signature) -> tuple[Tried, ...]:
    """Every case of every row, tried; cases share metadata, of which great ones are not kept."""
    found: list[Tried] = []
    made, fresh = Made(), 0
    for row in signature.workloads:
        for small in (False, True) if row.small else (False,):
            for dtype_case in row.dtype_cases:
                instance = Instance.of_row(signature, row, dtype_case, small=small)
                wrong = tuple(instance.wrong())
                faults = wrong
                if not wrong:
                    seed = seed_of(signature.op, instance.case_id)
                    faults = tuple(instance.wrong_metadata(seed, made))
                found.append(Tried(row, small, instance, not wrong, faults, made))
            if made.count > _KEPT:
                found[fresh:] = [attrs.evolve(tried, made=None) for tried in found[fresh:]]
                made, fresh = Made(), len(found)
    return tuple(found)


def check_workloads(signature: Signature, rows: Sequence[Tried] | None = None) -> Problems:
    """What is wrong with an entry's rows: ids, branches, rules, and what no row covers.

    Args:
        signature: The entry.
        rows: What :func:`try_rows` gives for it, if that is known.
    """
    problems = Problems()
    rows = try_rows(signature) if rows is None else rows
    choices = (*signature.construction_tensors, *signature.inputs)
    passed: dict[str, set[bool]] = {i.name: set() for i in choices if i.optional is True}
    seen: set[str] = set()
    for _, cases_of_row in itertools.groupby(rows, lambda tried: id(tried.row)):
        group = list(cases_of_row)
        for name in passed:
            passed[name].add(name in group[0].row.some)
        _check_row(group[0].row, group, seen, problems)
    if signature.status == "implemented":
        for name, ways in passed.items():
            for way in {True, False} - ways:
                verb = "passes" if way else "omits"
                span = next(i.span for i in choices if i.name == name)
                problems.add("row", f"no row {verb} {name}, which is optional", span)
    return problems


def _check_row(row: Workload, group: list[Tried], seen: set[str], problems: Problems) -> None:
    """Note what is wrong with a row's cases; their ids are added to those ``seen``."""
    sizes: dict[bool, list[int]] = {False: [], True: []}
    for tried in group:
        for message in tried.faults:
            problems.add("row", f"{row.label}: {message}", row.span)
        case_id = tried.instance.case_id
        if not tried.small and case_id in seen:
            problems.add("row", f"{case_id} is the id of another case too", row.span)
        seen.add(case_id)
        sizes[tried.small] += [] if tried.faults else [elements(tried.instance)]
    if max(sizes[True], default=0) > max(sizes[False], default=math.inf):
        problems.add(
            "row",
            f"{row.label}: with its small sizes, the call has {max(sizes[True])} elements, and "
            f"{max(sizes[False])} without",
            row.span,
            "small sizes make a call of some thousand elements at most",
        )


def _refused(signature: Signature, row: Workload, message: str) -> Exception:
    problems = Problems()
    problems.add("row", message, row.span)
    return manifest_error(signature.op, problems)
