"""Calls to try an expression on, where no workload row evaluates it.

A call is a row's with something changed: what the branch needs (a flag, a word, a dtype, a tensor
that is passed or not), then one size or value at a time. Sizes are small and positive, and some are
what the conditions on the way compare with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tileops_core.signature.branches import UNKNOWN, Given, TooManyBranches
from tileops_core.signature.calls import Calls, values_of
from tileops_core.signature.instance import Instance
from tileops_core.signature.kinds import AdtKind, BoolKind, DTypeKind, EnumKind
from tileops_core.signature.model import Signature
from tileops_core.spec.expressions import Const, Expr, free_names
from tileops_core.validate.walks import Condition, Stated

_BRANCHES = 8
"""So many combinations of what a branch needs are tried."""

_IN_PAIRS = 5
"""Of each name, so many values are tried together with those of another."""


class Trials:
    """Makes calls of one entry.

    Args:
        signature: The entry.
        rows: Calls of its rows; at least one.
    """

    def __init__(self, signature: Signature, rows: Sequence[Instance]) -> None:
        self.calls = Calls(signature, rows)
        self.branches = self.calls.branches
        self.lets = {let.name: let.expr for let in signature.lets}

    def of(
        self, place: Stated, part: Expr, conditions: tuple[Condition, ...]
    ) -> Iterator[Instance]:
        """Calls that may evaluate a part of an expression, the likeliest first.

        Args:
            place: The expression.
            part: The part.
            conditions: What has to hold for it to be evaluated.
        """
        on_branch, bases = self.calls.on_branch, self.calls.bases
        givens = self._givens(place, conditions)
        for given, base in itertools.product(givens, bases):
            yield self._call(on_branch(base, given))
        read = [*(condition for condition, _ in conditions), part]
        changes = list(self._changes(read))
        for change in changes:
            yield from self._changed(givens[:4], bases[:2], change)
        # The branch may be refused with the row's sizes, as a packed call with more than one batch;
        # or two conditions on the way are about two sizes.
        others = self._changes(rule.expr for rule in self.calls.signature.rules)
        alone = (change for change in others if change not in changes)
        pairs = (
            {**first, **second}
            for first, second in itertools.combinations(_some(changes, _IN_PAIRS), 2)
            if first.keys() != second.keys()
        )
        for together in itertools.zip_longest(alone, pairs):
            for change in together:
                if change is not None:
                    yield from self._changed(givens[:2], bases[:1], change)

    def _changed(
        self, givens: Sequence[Given], bases: Sequence[dict[str, Any]], change: Mapping[str, Any]
    ) -> Iterator[Instance]:
        for given, base in itertools.product(givens, bases):
            yield self._call({**self.calls.on_branch(base, given), **change})

    def _call(self, values: Mapping[str, Any]) -> Instance:
        return self.calls.call(values, "trial")

    # -- the branch -----------------------------------------------------------------------

    def _givens(self, place: Stated, conditions: tuple[Condition, ...]) -> list[Given]:
        """Values of discriminants with which every condition holds, or may hold."""
        branches = self.branches
        keys = frozenset().union(*(branches.keys(condition) for condition, _ in conditions))
        if place.tensor is not None:
            keys |= branches.keys_of_input(place.tensor)
        try:
            accepted = branches.accepted(keys)
        except TooManyBranches:
            return [{}]
        fitting = (given for given in accepted if self._fits(place, conditions, given))
        return list(itertools.islice(fitting, _BRANCHES))

    def _fits(self, place: Stated, conditions: tuple[Condition, ...], given: Given) -> bool:
        if place.tensor is not None and self.branches.is_there(place.tensor, given) is False:
            return False
        values = ((self.branches.value(condition, given), due) for condition, due in conditions)
        return all(value is UNKNOWN or bool(value) == due for value, due in values)

    # -- sizes and values -----------------------------------------------------------------

    def _changes(self, read: Iterable[Expr]) -> Iterator[dict[str, Any]]:
        """One name with another value, for each name behind some expressions."""
        names, numbers, words = self._behind(read)
        near = [n + d for n in numbers for d in (0, 1, -1) if isinstance(n, int)]
        for name in names:
            kind = self.calls.kinds.get(name)
            if kind is None or isinstance(kind, BoolKind | EnumKind | DTypeKind | AdtKind):
                continue  # a tensor, or what the branch decides
            values = values_of(kind, near=near, numbers=numbers, words=words)
            for value in dict.fromkeys(values):
                yield {name: value}

    def _behind(self, read: Iterable[Expr]) -> tuple[list[str], list[Any], list[str]]:
        """The names behind expressions, and the numbers and words in them; those of ``let`` too."""
        exprs, names = list(read), dict[str, None]()
        for expr in exprs:  # it grows meanwhile
            for name in free_names(expr):
                if name in self.lets and name not in names:
                    exprs.append(self.lets[name])
                names[name] = None
        constants = [n.value for expr in exprs for n in expr.walk() if isinstance(n, Const)]
        numbers = [c for c in constants if isinstance(c, int | float) and not isinstance(c, bool)]
        words = [c for c in constants if isinstance(c, str)]
        return list(names), list(dict.fromkeys(numbers))[:8], list(dict.fromkeys(words))[:8]


def _some(changes: Iterable[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """Of the changes of each name the first, and the last, which is the greatest of sizes."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for change in changes:
        (name,) = change
        by_name.setdefault(name, []).append(change)
    for found in by_name.values():
        yield from found if len(found) <= count else (*found[: count - 1], found[-1])
