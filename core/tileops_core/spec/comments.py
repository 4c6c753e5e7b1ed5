"""The comments of a manifest file by their place; YAML itself drops them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from tileops_core.spec.yaml_nodes import Source


class Comments:
    """Whole lines of comment; what stands behind a value is not among them.

    Each line is given without its ``#`` and the blank after it, and keeps what it is indented
    further. Lines count from 1, as those of spans do.
    """

    def __init__(self, source: Source) -> None:
        self._lines = source.lines

    def above(self, line: int) -> tuple[str, ...]:
        """The comment that ends right above a line."""
        return tuple(reversed(_texts(reversed(self._lines[: max(line - 1, 0)]))))

    def below(self, line: int) -> tuple[str, ...]:
        """The comment that begins right below a line."""
        return tuple(_texts(self._lines[line:]))

    def at_top(self) -> tuple[str, ...]:
        """The comment that the file begins with."""
        return self.below(0)


def _texts(lines: Iterable[str]) -> Sequence[str]:
    comments = takewhile(lambda line: line.startswith("#"), map(str.strip, lines))
    return [comment[1:].removeprefix(" ") for comment in comments]
