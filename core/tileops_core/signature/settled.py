"""Which indices have a value on which branch, once the solving order is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tileops_core.signature.branches import Branches, Given, Key
from tileops_core.signature.model import Signature
from tileops_core.signature.steps import OpenRun, SolveAxis, TensorStep
from tileops_core.spec.expressions import Expr


class Settled:
    """What the inputs settle on each branch of a signature.

    Args:
        signature: The signature.
        steps: How its tensors are read.
        branches: Its discriminants, if they are at hand.
    """

    def __init__(
        self, signature: Signature, steps: Iterable[TensorStep], branches: Branches | None = None
    ) -> None:
        self.steps = tuple(steps)
        self.branches = branches or Branches(signature)

    def unsettled(
        self,
        names: Iterable[str],
        exprs: Iterable[Expr],
        *,
        only_if: Expr | None = None,
        unless: Expr | None = None,
    ) -> dict[str, list[Given]]:
        """Where expressions read names that nothing settles, by name.

        Args:
            names: The names to ask about.
            exprs: What is evaluated.
            only_if: The condition under which it is.
            unless: The condition under which it is not.

        Raises:
            TooManyBranches: When there are more combinations than can be enumerated.
        """
        names, exprs = frozenset(names), tuple(exprs)
        conditions = [c for c in (only_if, unless) if c is not None]
        keys = set[Key]().union(
            *map(self.branches.keys_inside, exprs),
            *map(self.branches.keys, conditions),
            *map(self._keys_of_carriers, names),
        )
        found: dict[str, list[Given]] = {}
        for given in self.branches.accepted(keys):
            value = self.branches.value
            if unless is not None and value(unless, given) is True:
                continue
            if only_if is not None and value(only_if, given) is False:
                continue
            read = frozenset[str]().union(*(self.branches.reads(e, given) for e in exprs))
            for name in sorted(read & names - self.on(given)):
                found.setdefault(name, []).append(given)
        return found

    def on(self, given: Given) -> frozenset[str]:
        """The names that are certainly settled on a branch."""
        settled: set[str] = set()
        for step in self.steps:
            if self.branches.is_there(step.tensor, given) is not True:
                continue
            settled |= {step.binds_dtype} if step.binds_dtype else set()
            for case in step.cases:
                when = case.case.when
                if when is None or self.branches.value(when, given) is True:
                    settled |= settled_by(case.steps)
        return frozenset(settled)

    def _keys_of_carriers(self, name: str) -> set[Key]:
        """The discriminants that decide whether a name is settled."""
        keys = set[Key]()
        for step in self.steps:
            carries = any(name in settled_by(case.steps) for case in step.cases)
            if not carries and step.binds_dtype != name:
                continue
            keys |= self.branches.keys_of_input(step.tensor)
            for case in step.cases:
                if case.case.when is not None:
                    keys |= self.branches.keys(case.case.when)
        return keys


def settled_by(steps: Iterable[Any]) -> set[str]:
    """The names that some axis steps give values."""
    return {step.name for step in steps if isinstance(step, SolveAxis | OpenRun)}
