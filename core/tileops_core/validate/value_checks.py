"""Whether every expression has a value: on some row, or on some call like it.

A part that no row evaluates (the other branch of a condition, what stands behind ``or``) is
evaluated on calls made for it. What fails on each of them is a finding; what none of them reaches
is counted and named.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileops_core.signature.instance import Instance
from tileops_core.signature.model import Signature
from tileops_core.signature.primitives import PrimitiveError
from tileops_core.signature.problems import Problems
from tileops_core.spec.expressions import Expr, free_names
from tileops_core.validate.literal_checks import check_literals
from tileops_core.validate.report import Counts
from tileops_core.validate.tracing import NoValue
from tileops_core.validate.trials import Trials
from tileops_core.validate.walks import Condition, Walk, Walker, missed

_PER_PART, _PER_ENTRY = 150, 600
"""So many calls are tried for one part, and for all parts of an entry."""

_ROWS = 4
"""Calls are made from so many rows."""


def check_values(
    signature: Signature, rows: Sequence[Instance], problems: Problems, counts: Counts
) -> tuple[str, ...]:
    """Evaluate every part of every expression at least once.

    Args:
        signature: The entry.
        rows: The calls of its rows, those that the entry accepts.
        problems: Receives parts without a value.
        counts: Parts that nothing evaluated are added here.

    Returns:
        A sentence for each part that nothing evaluated.
    """
    literal = check_literals(signature, problems)
    return _Values(signature, rows, literal, problems).check(counts) if rows else ()


@attrs.define
class _Outcome:
    """What the calls made for a part came to.

    Attributes:
        valued: it had a value.
        failure: why it had none, where some call reached it.
        call: that call.
    """

    valued: bool = False
    failure: NoValue | None = None
    call: Instance | None = None


class _Values:
    def __init__(
        self,
        signature: Signature,
        rows: Sequence[Instance],
        literal: frozenset[int],
        problems: Problems,
    ) -> None:
        self.signature = signature
        self.walker = Walker(signature)
        self.rows = rows
        self.literal = literal
        self.problems = problems
        self.valued: set[int] = set()
        self.left = _PER_ENTRY

    def check(self, counts: Counts) -> tuple[str, ...]:
        for row in _by_turns(self.rows):
            self._keep(self.walker.walk(row))
            if not any(True for _ in self._missed(frozenset())):
                return ()
        trials = Trials(self.signature, self.rows[:: max(1, len(self.rows) // _ROWS)][:_ROWS])
        given_up: set[int] = set()
        notes: list[str] = []
        while todo := next(self._missed(given_up), None):
            number, part, conditions = todo
            outcome = self._try(trials, number, part, conditions)
            if outcome.valued:
                continue
            given_up.add(id(part))
            if any(id(node) in self.literal for node in part.walk()):
                continue  # that is told
            failure = outcome.failure
            if failure is None or isinstance(failure.cause, PrimitiveError):
                counts.not_evaluated += 1
                notes.append(self._note(number, part, failure))
            else:
                self._refuse(number, failure, outcome.call)
        return tuple(notes)

    def _missed(
        self, given_up: frozenset[int] | set[int]
    ) -> Iterator[tuple[int, Expr, tuple[Condition, ...]]]:
        for number, place in enumerate(self.walker.places):
            for part, conditions in missed(place, self.valued):
                if id(part) not in given_up:
                    yield number, part, conditions

    def _keep(self, walk: Walk) -> None:
        self.valued = self.valued.union(*walk.valued.values())

    def _try(
        self, trials: Trials, number: int, part: Expr, conditions: tuple[Condition, ...]
    ) -> _Outcome:
        outcome = _Outcome()
        inside = {id(node) for node in part.walk()}
        calls = trials.of(self.walker.places[number], part, conditions)
        for call in itertools.islice(calls, min(_PER_PART, self.left)):
            self.left -= 1
            walk = self.walker.walk(call)
            if not walk.stands_for(number):
                continue
            if not walk.refused:
                self._keep(walk)
            self.valued |= walk.valued.get(number, set())
            failure = walk.failed.get(number)
            if id(part) in self.valued:
                outcome.valued = True
                return outcome
            if failure is not None and id(failure.part) in inside:
                outcome.failure, outcome.call = failure, call
        return outcome

    def _note(self, number: int, part: Expr, failure: NoValue | None) -> str:
        place = self.walker.places[number]
        why = "no call was found that does"
        if failure is not None:
            why = f"and on the calls that were tried it has no value ({failure.cause})"
        return (
            f"{self.signature.op}: {place.what}: no row evaluates {_text(part)} "
            f"[{part.span.short}], {why}"
        )

    def _refuse(self, number: int, failure: NoValue, call: Instance | None) -> None:
        place = self.walker.places[number]
        shown = _shown(failure.part, call)
        self.problems.add(
            "no-value",
            f"{place.what}: {_text(failure.part)} has no value on any call that was tried: "
            f"{failure.cause}{f', with {shown}' if shown else ''}",
            failure.part.span,
            "no row evaluates it: add one of the branch that it is about",
        )


def _by_turns(rows: Sequence[Instance]) -> list[Instance]:
    """A case of each row, then another of each: those of one row mostly evaluate the same."""
    count: Counter[str] = Counter()
    turns = []
    for row in rows:
        turns.append(count[row.label])
        count[row.label] += 1
    return [row for _, row in sorted(zip(turns, rows, strict=True), key=lambda pair: pair[0])]


def _text(part: Expr) -> str:
    text, span = part.span.text, part.span
    return text[span.column - 1 : span.column - 1 + span.length].strip() or "an expression"


def _shown(part: Expr, call: Instance | None) -> str:
    values: Mapping[str, Any] = {} if call is None else {**call.params, **call.given}
    names = dict.fromkeys(name for name in free_names(part) if name in values)
    return ", ".join(f"{name}={values[name]}" for name in names)
