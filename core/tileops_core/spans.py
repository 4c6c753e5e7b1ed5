"""Where in a text something stands, and how to show it."""

from __future__ import annotations

import attrs


@attrs.frozen(slots=True)
class Span:
    """A place in a text file: 1-based ``line`` and ``column``, and the ``length`` to underline.

    ``path`` is what a message shows (a file name, or ``"<spec of X>"`` for an entry given in
    Python). ``text`` is the whole source line, or ``""`` when there is none to show.
    """

    path: str
    line: int
    column: int = 1
    length: int = 1
    text: str = ""

    @property
    def short(self) -> str:
        """``norm.yaml:12``: the file's last component and the line."""
        return f"{self.path.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"

    def snippet(self) -> str:
        """The source line with a caret line below it, or ``""`` when no text is known."""
        if not self.text:
            return ""
        gutter = f"{self.line} | "
        carets = "^" * max(1, min(self.length, len(self.text) - self.column + 1))
        return f"{gutter}{self.text}\n{' ' * (len(gutter) + self.column - 1)}{carets}"

    def at(self, offset: int, length: int = 1) -> Span:
        """The same place moved right by ``offset`` columns, ``length`` columns long."""
        return attrs.evolve(self, column=self.column + offset, length=max(1, length))


NOWHERE = Span("<unknown>", 0)
