"""When things are known: what an expression reads, in which phase, and the order of ``let``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileops_core.signature.kinds import DTypeKind, Kind
from tileops_core.signature.model import Phase
from tileops_core.signature.problems import Problems
from tileops_core.spec.entries import LetEntry, RuleEntry
from tileops_core.spec.expressions import Binary, Call, Compare, Const, Expr, Name, free_names

MAX_DEGREE = 64
"""No quantity grows faster than this power of its names; a cost is of degree 6 or so."""


def names_in(expr: Expr) -> frozenset[str]:
    """The names an expression reads, as a set."""
    return frozenset(free_names(expr))


class Phases:
    """Sorts expressions by when they can be evaluated.

    Args:
        params: The names of the constructor parameters.
        indices: The ``forall`` indices and their kinds.
        tensors: The names of inputs and outputs.
    """

    def __init__(
        self, params: Iterable[str], indices: Mapping[str, Kind | None], tensors: Iterable[str]
    ) -> None:
        self._phase: dict[str, Phase] = dict.fromkeys(params, "construction")
        for name, kind in indices.items():
            self._phase[name] = "domain" if isinstance(kind, DTypeKind) else "call"
        self._phase.update(dict.fromkeys(tensors, "domain"))

    def add_let(self, name: str, expr: Expr) -> Phase:
        """Place a ``let``; one that cannot be computed at construction is computed per call."""
        phase: Phase = "construction" if self.of(expr) == "construction" else "call"
        self._phase[name] = phase
        return phase

    def of_name(self, name: str) -> Phase:
        """When a name has a value; dtype constants always have one."""
        return self._phase.get(name, "construction")

    def of(self, expr: Expr) -> Phase:
        """The phase of an expression: that of the latest name it reads."""
        phases = set(map(self.of_name, names_in(expr)))
        if "call" in phases:
            return "call"
        return "domain" if "domain" in phases else "construction"


def ordered_lets(lets: Iterable[LetEntry], problems: Problems) -> list[LetEntry]:
    """The quantities so that each reads only earlier ones; those in a circle are noted."""
    waiting = {entry.name: entry for entry in lets}
    reads = {
        name: names_in(entry.expr) & waiting.keys() if entry.expr else frozenset()
        for name, entry in waiting.items()
    }
    order: list[LetEntry] = []
    while ready := [name for name in waiting if not reads[name] & waiting.keys()]:
        order += [waiting.pop(name) for name in ready]
    while waiting:
        circle = _circle(waiting, reads)
        problems.add(
            "let-cycle",
            f"{' -> '.join([*circle, circle[0]])} refer to each other in a circle",
            waiting[circle[0]].span,
        )
        for name in circle:
            del waiting[name]
        while ready := [name for name in waiting if not reads[name] & waiting.keys()]:
            for name in ready:  # reads one of the circle, which has no value
                del waiting[name]
    return order


def _circle(waiting: Mapping[str, LetEntry], reads: Mapping[str, frozenset[str]]) -> list[str]:
    """Names that read each other in a circle; each of ``waiting`` reads another one of it."""
    path = [next(iter(waiting))]
    while True:
        name = min(reads[path[-1]] & waiting.keys())
        if name in path:
            return path[path.index(name) :]
        path.append(name)


class Degrees:
    """Bounds how fast quantities grow, so that no text makes arithmetic run for ever."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self._lets: dict[str, int] = {}

    def check(self, expr: Expr, name: str = "") -> None:
        """Note an expression that grows too fast; ``name`` is the ``let`` it defines, if any."""
        degree = self._of(expr)
        if degree > MAX_DEGREE:
            self.problems.add(
                "too-large",
                f"the value may grow with the power {degree} of its names, at most {MAX_DEGREE} "
                "is allowed",
                expr.span,
            )
        if name:
            self._lets[name] = min(degree, MAX_DEGREE)

    def _of(self, expr: Expr) -> int:
        if isinstance(expr, Name):
            return self._lets.get(expr.id, 1)
        parts = [self._of(part) for part in expr.children()]
        if isinstance(expr, Binary) and expr.op == "**":
            exponent = expr.right.value if isinstance(expr.right, Const) else 1
            return parts[0] * int(exponent)
        if isinstance(expr, Binary) and expr.op == "*":
            return sum(parts)
        if isinstance(expr, Call) and expr.function == "prod":
            return 4 * max(parts, default=1)
        return max(parts, default=1)


def defined_by(rule: RuleEntry) -> frozenset[str]:
    """The names that stand alone on a side of an equality which is the whole rule."""
    expr = rule.expr
    if not isinstance(expr, Compare) or len(expr.rest) != 1 or expr.rest[0][0] != "==":
        return frozenset()
    sides = (expr.first, expr.rest[0][1])
    return frozenset(side.id for side in sides if isinstance(side, Name))
