"""What came of a check, and of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

PASSED, FAILED, REFUSED, SKIPPED, XFAILED, XPASSED = (
    "passed", "failed", "refused", "skipped", "xfailed", "xpassed",
)  # fmt: skip

OUTCOMES: Mapping[str, str] = {
    PASSED: "as the manifest says",
    FAILED: "not as the manifest says",
    REFUSED: "a kernel type says why it cannot serve this call; in-tree another one would",
    SKIPPED: "not looked at, for the reason given",
    XFAILED: "fails, as the adopter's file expects",
    XPASSED: "passes, though the adopter's file expects it to fail",
}
"""What may come of a check."""


class Failed(AssertionError):
    """A backend does not do what the manifest says. The text says which fault, then what."""


class Refused(Exception):
    """A kernel type has a reason not to serve the call."""


class Skipped(Exception):
    """Nothing was looked at, for this reason."""


@attrs.frozen
class Result:
    """What came of one check.

    Attributes:
        op: the op.
        family: its family.
        column: what kind of check it was.
        name: which one.
        outcome: one of ``OUTCOMES``.
        seconds: how long it took.
        message: what is wrong, or why nothing was looked at.
    """

    op: str
    family: str
    column: str
    name: str
    outcome: str
    seconds: float = 0.0
    message: str = ""

    @property
    def id(self) -> str:
        """What the adopter's file and the command line call it."""
        return f"{self.op}/{self.column}/{self.name}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**attrs.asdict(self), "id": self.id}


def counts(results: Iterable[Result]) -> dict[str, int]:
    """How many results there are of each outcome, all outcomes named."""
    found = dict.fromkeys(OUTCOMES, 0)
    for result in results:
        found[result.outcome] += 1
    return found
