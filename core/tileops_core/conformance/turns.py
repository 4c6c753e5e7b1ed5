"""One instance that is called in many ways in turn, as a model calls it.

Every other check gives an instance calls of one kind. What a kernel has built in, and an identity
that leaves it out, show only where the kind changes: another shape, dtype or optional tensor, then
the first one again, with other values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import attrs

from tileops_core.conformance.inputs import Arguments
from tileops_core.conformance.kinds import DISTRIBUTION
from tileops_core.conformance.outcomes import Failed, Refused, Skipped
from tileops_core.conformance.quantities import quantities, resized
from tileops_core.conformance.served import Served
from tileops_core.conformance.variants import Variant, Variants
from tileops_core.op import Op
from tileops_core.signature.instance import Instance
from tileops_core.signature.kinds import DTypeKind, ShapeKind
from tileops_core.signature.scaling import changed, elements

_SIZES = (5, 6, 8, 16, 32, 64)
"""Other lengths, the first that the entry accepts: odd ones first, then those of blocks."""

_MOST = 1 << 13
"""Elements that one call may have; more where the first has more."""

_OTHER_VALUES = 1
"""Added to the seed where a call comes again."""


@attrs.frozen
class Turns:
    """Calls of one instance.

    Attributes:
        name: the row that the first is of.
        known: calls of equal construction parameters that other checks make, each on an instance
            of its own.
    """

    name: str
    known: tuple[Instance, ...]

    def calls(self) -> list[Instance]:
        """Calls of the instance, no two of one kind: those known, and others than the first."""
        first = self.known[0]
        most = max(_MOST, 2 * elements(first))
        found: dict[str, Instance] = {}
        for call in (*self.known, *_others(first)):
            if elements(call) <= most:
                found.setdefault(repr((call.inputs, call.given)), call)
        return list(found.values())


def turns_of(variants: Variants, every: Iterable[Variant]) -> Iterator[Turns]:
    """For each set of construction parameters that rows have, what one instance is called with.

    Args:
        variants: the op's calls.
        every: all of them.
    """
    found: dict[str, list[Instance]] = {}
    for base in variants.bases:
        found.setdefault(_construction(base), []).append(base)
    for variant in every:
        if variant.column in ("dtype", "optional", "branch", "effect"):
            alike = found.get(_construction(variant.call))
            if alike is not None:
                alike.append(variant.call)
    return (Turns(calls[0].case_id, tuple(calls)) for calls in found.values())


def in_turn(served: Served, turns: Turns) -> None:
    """Call one instance with each call in turn, then with the first again, against the oracle.

    A call that fails on a new instance too is left out: it is no matter of turns, and the column of
    such calls tells it.

    Raises:
        Failed: a call fails that does not on a new instance.
        Refused: no two kinds of calls are served.
        Skipped: no two kinds of calls are right by themselves.
    """
    if DISTRIBUTION in served.kind.outputs.values():
        raise Skipped("drawn results are compared by how often each comes, in many calls")
    variants = [Variant("workload", turns.name, call) for call in turns.calls()]
    held = served.arguments(variants[0])
    op = served.construct(held)
    done: list[Variant] = []
    refused: Refused | None = None
    for variant in variants:
        try:
            if _is_right(served, op, variant, held, done):
                done.append(variant)
        except Refused as error:
            refused = error
    if len(done) < 2:
        raise refused or Skipped("there are no two kinds of calls that are right by themselves")
    _is_right(served, op, done[0], held, done, _OTHER_VALUES)


def _is_right(
    served: Served,
    op: Op,
    variant: Variant,
    held: Arguments,
    before: Sequence[Variant],
    seed: int = 0,
) -> bool:
    """Whether a call is right; not if it is wrong on any instance.

    Raises:
        Failed: ``in-turn: ...`` if it is wrong on this instance only.
    """
    try:
        _compared(served, op, variant, held, seed)
    except Failed as failed:
        if _fails(served, variant, held, seed):
            return False
        after = f" that was called with {_told(before[0].call)} before" if before else ""
        raise Failed(
            f"in-turn: {failed}, in a call with {_told(variant.call)} of an instance{after}; a new "
            "instance is right, so what was built for one call, or kept of it, serves another: an "
            "identity of entry_for leaves it out, or a kernel holds it"
        ) from failed
    return True


def _compared(served: Served, op: Op, variant: Variant, held: Arguments, seed: int) -> None:
    """One call against the oracle; the tensors of the constructor are those it was made with."""
    arguments = attrs.evolve(served.arguments(variant, seed), params=held.params)
    due = served.exact(variant.call, arguments)
    results = served.call(op, arguments)
    served.check_facts(variant.call, arguments, results)
    served.check_values(variant.call, arguments, results, due)


def _fails(served: Served, variant: Variant, held: Arguments, seed: int) -> bool:
    """Whether a call fails on an instance that has had no other."""
    try:
        _compared(served, served.construct(held), variant, held, seed)
    except (Failed, Refused):
        return True
    return False


def _others(call: Instance) -> Iterator[Instance]:
    """The call with one thing different: a length, the number of axes, or a dtype."""
    construction = _construction(call)
    for quantity in quantities(call):
        if quantity.name in call.given:
            found = (resized(call, quantity, size) for size in _SIZES)
            yield from itertools.islice(
                (c for c in found if c is not None and _construction(c) == construction), 1
            )
    for index in call.signature.indices:
        now = call.given.get(index.name)
        values: Iterable[object] = ()
        if isinstance(index.kind, ShapeKind) and now is not None:
            values = ((2, *now),)
        elif isinstance(index.kind, DTypeKind) and now is not None:
            values = index.kind.members or ()
        for value in values:
            other = changed(call, {index.name: value}) if value != now else None
            if other is not None and _construction(other) == construction:
                yield other


def _construction(call: Instance) -> str:
    """What calls of one instance have in common: parameters, and the facts of those of tensors."""
    return repr((call.params, call.tensors))


def _told(call: Instance) -> str:
    facts = [
        f"{name} {fact[0]}{list(fact[1])}" for name, fact in call.inputs.items() if fact is not None
    ]
    return ", ".join(facts) or "no tensor"
