"""What a shell may put in place of a half-typed word; click asks when ``_TILEOPS_COMPLETE`` is set.

The functions are for ``shell_complete=``: they take click's context, the parameter, and what was
typed so far. Whatever goes wrong in one gives no word, because nobody could read about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _words(known: Callable[[click.Context], Iterable[str]]) -> Complete:
    """Complete to those of ``known`` words that begin as typed, in any case."""

    @wraps(known)
    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        try:
            found = list(known(context))
        except Exception:
            return []
        return [word for word in found if word.casefold().startswith(typed.casefold())]

    return complete


def _survey() -> Any:
    # Here: a shell that asks about a command's name waits for none of it.
    from tileops_core.cli.survey import Survey

    return Survey()


@_words
def ops(context: click.Context) -> Iterable[str]:
    """Ops that some manifest knows."""
    return list(_survey().entries)


@_words
def families(context: click.Context) -> Iterable[str]:
    """Families of ops."""
    return sorted({entry.family for entry in _survey().entries.values()})


@_words
def targets(context: click.Context) -> Iterable[str]:
    """Targets, and backends by their names."""
    from tileops_core.backend.registry import REGISTRY

    _survey()  # loads the backends without a warning
    return REGISTRY.target_names()


@_words
def targets_or_builtin(context: click.Context) -> Iterable[str]:
    """The same, and ``builtin`` for in-tree dispatch."""
    from tileops_core.backend.registry import REGISTRY

    _survey()
    return ["builtin", *REGISTRY.target_names()]


@_words
def cases(context: click.Context) -> Iterable[str]:
    """Workload cases of the op that the line names already."""
    from tileops_core.signature.workload import cases as cases_of

    entries = _survey().entries
    # With an option that lacks its value yet, click leaves what it has read among the arguments.
    named = (context.params.get("op"), *context.args)
    signature = next(entries[op] for op in named if op in entries).signature()
    return [case.case_id for case in cases_of(signature, requires=False)]


@_words
def profiles(context: click.Context) -> Iterable[str]:
    """Devices whose rates are known."""
    from tileops_core.record.cards import CARDS

    return ["cpu", *(card.name for card in CARDS)]


@_words
def words(context: click.Context) -> Iterable[str]:
    """Codes of the validator, and words of the language of entries."""
    from tileops_core.validate.codes import CODES
    from tileops_core.validate.language import topics

    return [*CODES, *dict.fromkeys(topic.name for topic in topics())]
