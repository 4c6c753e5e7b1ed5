"""Where in a text something stands, and how to show it."""

from __future__ import annotations

import attrs

from tileops_core.by_fields import EqualByFields

WIDEST = 200
"""How many characters of a line are shown."""


@attrs.frozen(slots=True, eq=False, repr=False)
class Span(EqualByFields):
    """A place in a text file: 1-based ``line`` and ``column``, and the ``length`` to underline.

    Line 0 stands for the file as a whole.

    ``path`` is what a message shows (a file name, or ``"<spec of X>"`` for an entry given in
    Python). ``text`` is the whole source line, or ``""`` when there is none to show. ``keys`` is
    the path of keys to a value of an entry given in Python (``signature.inputs.x.shape``), which
    has no lines: there ``line`` only orders the values.
    """

    path: str
    line: int
    column: int = 1
    length: int = 1
    text: str = ""
    keys: str = ""

    @property
    def short(self) -> str:
        """``norm.yaml:12``: the file's last component and the line; or the path of keys."""
        if self.keys:
            return self.keys
        name = self.path.replace("\\", "/").rsplit("/", 1)[-1]
        return f"{name}:{self.line}" if self.line else name

    @property
    def place(self) -> str:
        """``manifest/norm.yaml:12:9``, or ``<spec of X> signature.inputs.x.shape``."""
        if self.keys:
            return f"{self.path} {self.keys}"
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path

    @property
    def where(self) -> str:
        """``on line 12``, or ``at signature.inputs.x.shape``: for a sentence about one entry."""
        return f"at {self.keys}" if self.keys else f"on line {self.line}"

    def snippet(self) -> str:
        """The source line with a caret line below it, or ``""`` when no text is known.

        Of a very long line, the part around the place.
        """
        if not self.text:
            return ""
        text, column = self.excerpt()
        gutter = "" if self.keys else f"{self.line} | "
        before = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
        carets = "^" * max(1, min(self.length, len(text) - column + 1))
        return f"{gutter}{text}\n{' ' * len(gutter)}{before}{carets}"

    def excerpt(self) -> tuple[str, int]:
        """The source line, or of a very long one the part around the place; and the column."""
        if len(self.text) <= WIDEST:
            return self.text, self.column
        start = max(0, min(self.column - 1 - WIDEST // 2, len(self.text) - WIDEST))
        stop = start + WIDEST
        before, after = "..." * (start > 0), "..." * (stop < len(self.text))
        return f"{before}{self.text[start:stop]}{after}", self.column - start + len(before)

    def at(self, offset: int, length: int = 1) -> Span:
        """The same place moved right by ``offset`` columns, ``length`` columns long."""
        return attrs.evolve(self, column=self.column + offset, length=max(1, length))


NOWHERE = Span("<unknown>", 0)
