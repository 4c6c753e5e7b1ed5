"""Faults found in manifest text: stable codes, collected, shown together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.errors import ManifestError
from tileops_core.spans import Span

CODES: Mapping[str, str] = MappingProxyType(
    {
        "yaml-syntax": "The text is not YAML, so nothing in it can be read.",
        "yaml-depth": "Values are nested deeper than any entry needs.",
        "yaml-tag": "Tags, anchors, aliases and merge keys are not part of the format: "
        "what stands in an entry is all that it says.",
        "yaml-trap": "YAML 1.1 reads this plain word as something else than it looks like.",
        "too-large": "A number, or a quantity, is greater than any cost or size needs.",
        "duplicate-key": "A key stands twice in one mapping; YAML would keep the last silently.",
        "unknown-key": "The format has no such key here.",
        "missing-key": "A key that must be there is not.",
        "wrong-value": "The value is not of the type that this key takes.",
        "bad-name": "A declared name is no identifier, is reserved, or names something already.",
        "file-family": "A file is named after the family of its entries.",
        "op-name": "An entry's key is no name that a class can have, or does not end in FwdOp or "
        "BwdOp.",
        "empty-file": "A manifest file, or a folder of them, has no entry.",
        "duplicate-op": "Two files have an entry for the same op.",
        "expression-syntax": "The text is no expression.",
        "expression-size": "The expression is longer or deeper than the language allows.",
        "not-in-language": "The expression uses something that the closed language lacks.",
        "use-present": "Whether a value is there is asked with present(x).",
        "use-per-axis": "A value per axis or one for all axes is read with per_axis.",
        "use-unique-axes": "Whether axes repeat is asked with unique_axes.",
        "power": "An exponent is a literal from 0 to 8, and powers do not nest.",
    }
)
"""What each code of the reader means, one sentence each."""


@attrs.frozen(slots=True, eq=False, repr=False)
class Problem(EqualByFields):
    """One fault: a stable ``code``, a sentence, where it stands, and what to write instead."""

    code: str
    message: str
    span: Span
    hint: str = ""

    def __str__(self) -> str:
        lines = [f"{self.message}  [{self.span.short}, {self.code}]"]
        lines += [f"  {line}" for line in self.span.snippet().splitlines()]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class Problems:
    """A list of problems that reading and checking add to, so that all are reported at once."""

    __slots__ = ("_found",)

    def __init__(self, found: Iterable[Problem] = ()) -> None:
        self._found = list(found)

    def add(self, code: str, message: str, span: Span, hint: str = "") -> None:
        """Note one problem."""
        self._found.append(Problem(code, message, span, hint))

    def note(self, *problems: Problem) -> None:
        """Note problems that were found elsewhere."""
        self._found.extend(problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self, what: str) -> None:
        """Raise one ManifestError that shows every problem noted.

        Args:
            what: Whose problems these are: an op's or a file's name.

        Raises:
            ManifestError: When there is at least one problem.
        """
        if self._found:
            raise manifest_error(what, self._found)


MOST_STRAYS = 10
"""How many strays of one kind in one place are told each by itself."""

_Stray = TypeVar("_Stray")


def first_strays(found: Iterable[_Stray]) -> Iterator[tuple[_Stray, int]]:
    """The first few strays, each with 0, and then the next one with how many more there are.

    Whoever has very many of one kind in one place made one mistake, and not very many.
    """
    found = list(found)
    yield from ((stray, 0) for stray in found[:MOST_STRAYS])
    if len(found) > MOST_STRAYS:
        yield found[MOST_STRAYS], len(found) - MOST_STRAYS


def manifest_error(what: str, problems: Iterable[Problem]) -> ManifestError:
    """One error that shows each of ``problems`` below the name of the op or file at fault."""
    found = sorted(problems, key=lambda p: (p.span.path, p.span.line, p.span.column))
    if len(found) == 1:
        return ManifestError(f"{what}: {found[0]}", problems=found)
    shown = "\n".join(str(problem) for problem in found)
    return ManifestError(f"{what}: {len(found)} problems in the entry\n{shown}", problems=found)
