"""What a row of the table is, and what measuring it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Effort:
    """How long a measurement may take.

    Args:
        processes: Fresh processes per library; the table shows the least of their figures.
        rounds: Interleaved timed blocks per row and process.
        loops: Calls in one timed block.
        fresh: Instances or shapes used up by one timed block of a row that needs new ones.
        warm_starts: Processes of the cold start that only compile bytecode, per case.
        starts: Processes of the cold start that count, per case.
        shapes: Shapes in the row of shapes that are seen once each.
        compilations: Timed compilations per row and process.
    """

    processes: int
    rounds: int
    loops: int
    fresh: int
    warm_starts: int
    starts: int
    shapes: int
    compilations: int


FULL = Effort(
    processes=3,
    rounds=201,
    loops=100,
    fresh=40,
    warm_starts=1,
    starts=5,
    shapes=10_000,
    compilations=7,
)
QUICK = Effort(
    processes=1,
    rounds=61,
    loops=100,
    fresh=20,
    warm_starts=1,
    starts=2,
    shapes=10_000,
    compilations=5,
)
SMOKE = Effort(
    processes=1,
    rounds=1,
    loops=2,
    fresh=2,
    warm_starts=0,
    starts=1,
    shapes=20,
    compilations=1,
)
"""Says whether every row can be measured; its figures mean nothing."""
EFFORTS = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


@dataclass(frozen=True)
class Unmeasured:
    """A row without a figure, and why."""

    reason: str


Value = float | Unmeasured


@dataclass(frozen=True)
class Row:
    """One claim.

    Args:
        key: The row's name in code; unique over all modules.
        title: The row's name for a reader.
        unit: Of the budget and of both figures.
        budget: The figure that ours must not exceed; None where none was promised.
        measure: What gives the figure; its arguments are the module's own business.
        section: The heading under which the row is printed.
        not_at_peer: Why the peer has no such row; empty where it has one.
        compared: Whether a ratio of ours to the peer's says something.
        share: The ratio that ours must not exceed.
        summed: Whether the ratio enters the mean; not where another row is of the same calls.
    """

    key: str
    title: str
    unit: str
    budget: float | None
    measure: Callable[..., float]
    section: str
    not_at_peer: str = ""
    compared: bool = True
    share: float = 0.25
    summed: bool = True


@dataclass
class Section:
    """The rows of one module, in the order of printing."""

    title: str
    rows: list[Row] = field(default_factory=list)

    def add(self, key: str, title: str, unit: str, budget: float | None, **options: Any) -> Any:
        """Register the decorated function as what measures a row.

        Args:
            key: See `Row`.
            title: See `Row`.
            unit: See `Row`.
            budget: See `Row`.
            **options: The remaining fields of `Row`.

        Returns:
            A decorator that leaves the function as it is.
        """

        def register(measure: Callable[..., float]) -> Callable[..., float]:
            self.rows.append(Row(key, title, unit, budget, measure, section=self.title, **options))
            return measure

        return register

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


def measured(row: Row, *arguments: object) -> Value:
    """The row's figure, or why there is none.

    Args:
        row: The row to measure.
        *arguments: What the row's `measure` takes.

    Returns:
        The figure; a failure of the measurement is a value with its reason, so that one broken
        row never hides the others.
    """
    try:
        value = float(row.measure(*arguments))
    except Exception as error:
        sentence = " ".join(str(error).split()) or "no message"
        return Unmeasured(f"{type(error).__name__}: {sentence}")
    return value if math.isfinite(value) else Unmeasured(f"the figure came out as {value}")


def to_json(value: Value) -> dict[str, Any]:
    """The value as a worker writes it."""
    if isinstance(value, Unmeasured):
        return {"reason": value.reason}
    return {"value": value}


def from_json(data: dict[str, Any]) -> Value:
    """The value as a worker wrote it."""
    return Unmeasured(data["reason"]) if "reason" in data else float(data["value"])
