"""The adopter's own file of checks that are expected to fail.

A line is a check's id, or a pattern of ids with ``*`` and ``?``, and after ``#`` the reason::

    # acme 1.2 on the CPU
    RMSNormFwdOp/dtype/T=bfloat16     # ACME-17
    SumFwdOp/empty/*                  # no launch of zero blocks yet
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import attrs

from tileops_core.conformance.outcomes import FAILED, PASSED, XFAILED, XPASSED, Result


@attrs.frozen
class Expected:
    """One line of the file."""

    line: int
    pattern: str
    reason: str

    def fits(self, check: str) -> bool:
        """Whether the line speaks of a check. An id that has brackets stands for itself."""
        return check == self.pattern or fnmatchcase(check, self.pattern)


@attrs.frozen
class Xfails:
    """What is expected to fail.

    Attributes:
        path: the file, for messages.
        lines: what it says.
    """

    path: str = ""
    lines: tuple[Expected, ...] = ()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Xfails:
        """Read a file.

        Raises:
            OSError: it cannot be read.
            ValueError: it is no text, or a line is no id and no pattern.
        """
        lines: list[Expected] = []
        try:
            whole = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no text in UTF-8: {error.reason}") from None
        for number, text in enumerate(whole.splitlines(), 1):
            pattern, _, reason = text.partition(" #") if text.lstrip()[:1] != "#" else ("", "", "")
            pattern = pattern.strip()
            if not pattern:
                continue
            if pattern.count("/") < 2 and "*" not in pattern:
                raise ValueError(
                    f"{path}, line {number}: {pattern!r} is no check; one is called "
                    "OP/COLUMN/NAME, and * and ? stand for any letters"
                )
            lines.append(Expected(number, pattern, reason.strip()))
        return cls(os.fspath(path), tuple(lines))

    def of(self, check: str) -> Expected | None:
        """The line that expects a check to fail, if one does."""
        return next((line for line in self.lines if line.fits(check)), None)

    def judge(self, result: Result) -> Result:
        """The result in the light of what is expected."""
        line = self.of(result.id)
        if line is None or result.outcome not in (PASSED, FAILED):
            return result
        if result.outcome == FAILED:
            reason = f"expected: {line.reason}; " if line.reason else ""
            return attrs.evolve(result, outcome=XFAILED, message=f"{reason}{result.message}")
        message = f"line {line.line} of {self.path} expects it to fail"
        return attrs.evolve(result, outcome=XPASSED, message=message)

    def told(self, results: Iterable[Result], *, whole: bool = True) -> list[str]:
        """What of the file is no longer so: lines whose checks all pass, or that name none.

        Args:
            results: those of a run, judged.
            whole: whether the run was of all that the target serves; else lines that name no check
                of it may be of another one.
        """
        by_line: dict[int, list[Result]] = {line.line: [] for line in self.lines}
        for result in results:
            line = self.of(result.id)
            if line is not None:
                by_line[line.line].append(result)
        said = []
        for line in self.lines:
            found = [r for r in by_line[line.line] if r.outcome in (XFAILED, XPASSED)]
            if not by_line[line.line] and whole:
                said.append(
                    f"{self.path}, line {line.line}: {line.pattern} is no check of this run"
                )
            elif found and all(r.outcome == XPASSED for r in found):
                many = "it passes" if len(found) == 1 else f"all {len(found)} of them pass"
                said.append(f"{self.path}, line {line.line}: {line.pattern}: {many}; remove it")
        return said
