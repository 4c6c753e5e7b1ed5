"""A row's call at a smaller size.

*Quantities* are what may be halved: a Dim, an element of a Shape (an index, or a parameter such as
``normalized_shape``), the lengths in a Seq, and how many of them there are. A Dim that metadata
tells, as the token count in ``cu_seqlens`` does, follows from it and is not halved by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.generators import GENERATORS
from tileops_core.signature.instance import Instance, RowFault
from tileops_core.signature.kinds import DimKind, SeqKind, ShapeKind
from tileops_core.signature.model import Input
from tileops_core.signature.predicates import PREDICATES
from tileops_core.signature.rules import names_in
from tileops_core.spec.expressions import Expr, Name, Splice

_MAX_TIED = 10
"""Of more quantities in one refinement, twos and threes are not tried."""


def scaled(instance: Instance, max_elements: int) -> Instance:
    """The call with at most ``max_elements`` elements in all of its tensors, or as near as it gets.

    Args:
        instance: A checked call.
        max_elements: The bound; outputs count too.
    """
    current = instance
    while elements(current) > max_elements:
        smaller = next(_smaller(current), None)
        if smaller is None:
            return current
        current = smaller
    return current


def elements(instance: Instance) -> int:
    """How many elements a checked call's tensors have together."""
    found = (*instance.tensors.values(), *instance.inputs.values(), *instance.outputs.values())
    return sum(math.prod(fact[1]) for fact in found if fact is not None)


@attrs.frozen(eq=False, repr=False)
class _Quantity(EqualByFields):
    """What may be halved: of a name the ``axis``, or the ``count`` of a Seq, or all there is."""

    name: str
    size: int
    axis: int | None = None
    count: bool = False

    def halved(self, value: Any) -> Any:
        """The name's value with this quantity halved."""
        if self.count:
            return value[: self.size // 2]
        if self.axis is not None:
            # Rounded up, as a number of blocks is when there is half as much to divide in blocks.
            half = (value[self.axis] + 1) // 2
            return (*value[: self.axis], half, *value[self.axis + 1 :])
        if isinstance(value, tuple):
            return tuple(max(min(length, 1), length // 2) for length in value)
        return value // 2


def _smaller(instance: Instance) -> Iterator[Instance]:
    """Calls with something halved, the one to prefer first."""
    for group in _groups(instance, _quantities(instance)):
        changed = _changed(instance, group) if group else None
        if changed is not None:
            yield changed


def _quantities(instance: Instance) -> list[_Quantity]:
    told = {name for name, _ in _told(instance)}
    found: list[_Quantity] = []
    kinds = {param.name: param.kind for param in instance.signature.params}
    kinds |= {index.name: index.kind for index in instance.signature.indices}
    values = {**instance.params, **instance.given}
    for name, kind in kinds.items():
        value = values.get(name)
        if isinstance(kind, DimKind) and name in instance.given.keys() - told:
            found.append(_Quantity(name, instance.given[name]))
        elif isinstance(kind, ShapeKind) and value is not None:
            found += [_Quantity(name, length, axis=i) for i, length in enumerate(value)]
        elif isinstance(kind, SeqKind) and value:
            found.append(_Quantity(name, max(value)))
            found.append(_Quantity(name, len(value), count=True))
    halvable = [quantity for quantity in found if quantity.size > 1]
    return sorted(halvable, key=lambda quantity: -quantity.size)


def _groups(instance: Instance, quantities: list[_Quantity]) -> Iterator[list[_Quantity]]:
    """What to halve together: one quantity; two or more that a refinement ties; all."""
    counts = [quantity for quantity in quantities if quantity.count]
    for quantity in quantities:
        # As many requests in each list of lengths.
        yield [c for c in counts if c.size == quantity.size] if quantity.count else [quantity]
    lengths = [quantity for quantity in quantities if not quantity.count]
    for rule in instance.signature.rules:
        read = _behind(instance, rule.expr)
        tied = [quantity for quantity in lengths if quantity.name in read]
        for count in (len(tied), 2, 3) if len(tied) <= _MAX_TIED else (len(tied),):
            yield from (list(group) for group in itertools.combinations(tied, count))
    yield lengths


def _behind(instance: Instance, *exprs: Expr) -> set[str]:
    """The names that expressions read, through ``let`` too."""
    read = set().union(*map(names_in, exprs))
    for let in reversed(instance.signature.lets):
        if let.name in read:
            read |= names_in(let.expr)
    return read


def _changed(instance: Instance, group: list[_Quantity]) -> Instance | None:
    """The call with quantities halved, or None when the entry does not accept that."""
    values = {**instance.params, **instance.given}
    for quantity in group:
        values[quantity.name] = quantity.halved(values[quantity.name])
    return changed(instance, {q.name: values[q.name] for q in group})


def changed(instance: Instance, values: Mapping[str, Any]) -> Instance | None:
    """A call with other parameters and indices, or None when the entry does not accept that.

    Args:
        instance: A call, of which at least tensors' presence is known.
        values: What changes. Dims that metadata tells follow by themselves.
    """
    params, given = dict(instance.params), dict(instance.given)
    for name, value in values.items():
        (given if name in given else params)[name] = value
    candidate = _like(instance, params, given)
    try:
        for name, tell in _told(instance):
            given[name] = tell(candidate)
        candidate = _like(instance, params, given)
        candidate.check()
        candidate.metadata(0)
    except (RowFault, LookupError):
        return None
    return candidate


def _like(instance: Instance, params: Mapping[str, Any], given: Mapping[str, Any]) -> Instance:
    return Instance(instance.signature, instance.label, instance.some, params, given)


def _with(instance: Instance, name: str, value: int) -> Instance:
    return _like(instance, instance.params, {**instance.given, name: value})


# -- Dims that metadata tells -------------------------------------------------------------------


def _told(instance: Instance) -> Iterator[tuple[str, Callable[[Instance], int]]]:
    """The Dims that lists of lengths settle through metadata, each with how to find it."""
    seqs = {i.name for i in instance.signature.indices if isinstance(i.kind, SeqKind)}
    dims = {i.name for i in instance.signature.indices if isinstance(i.kind, DimKind)}
    done: set[str] = set()
    for item in instance.signature.inputs:
        if item.values is None or instance.inputs[item.name] is None:
            continue
        own = _behind(instance, item.values)
        if not own & seqs:
            continue
        for name, tell in (*_axes(instance, item, dims - own), *_totals(item, dims - own)):
            if name not in done:
                done.add(name)
                yield name, tell


def _axes(
    instance: Instance, item: Input, dims: set[str]
) -> Iterator[tuple[str, Callable[[Instance], int]]]:
    """Dims that alone decide an axis, whose length the generator gives."""
    axes = instance.branch(item).axes
    if any(isinstance(axis, Splice) for axis in axes):
        return
    for place, axis in enumerate(axes):
        names = names_in(axis) & dims
        if len(names) == 1:
            (name,) = names
            yield name, _axis_solver(item, place, axis, name)


def _axis_solver(item: Input, place: int, axis: Expr, name: str) -> Callable[[Instance], int]:
    def tell(instance: Instance) -> int:
        assert item.values is not None
        generator = GENERATORS[item.values.function]
        length = generator.shape_of(instance.arguments(item))[place]
        rest = _with(instance, name, 0).value(axis)
        factor = _with(instance, name, 1).value(axis) - rest
        if factor == 0 or (length - rest) % factor:
            raise RowFault(f"{item.name} has {length} on axis {place}")
        return int((length - rest) // factor)

    return tell


def _totals(item: Input, dims: Iterable[str]) -> Iterator[tuple[str, Callable[[Instance], int]]]:
    """Dims that a predicate names as what the values come to."""
    for requirement in item.requires:
        settles = PREDICATES[requirement.call.function].settles
        first = requirement.call.args[0]
        if settles is not None and isinstance(first, Name) and first.id in dims:

            def tell(instance: Instance, settles: Any = settles) -> int:
                assert item.values is not None
                generator = GENERATORS[item.values.function]
                return int(settles(generator.values(instance.arguments(item), "")))

            yield first.id, tell
