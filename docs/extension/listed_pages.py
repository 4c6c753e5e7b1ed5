"""Pages that the README of their folder lists, and that the side bar does not.

Sphinx wants each page in a table of contents, or a word that it is in none. The files themselves
say nothing of it, because they are read on GitHub too.
"""

from __future__ import annotations

from typing import Any

FOLDERS = ("contract", "decisions", "ops")
INDEXES = ("README", "index")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mark(app: Any, page: str, source: list[str]) -> None:
    """Say of a page that a folder's index lists that it is in no table of contents.

    Args:
        app: Sphinx.
        page: The page's name.
        source: Its text, in a list that the result replaces.
    """
    folder, _, name = page.partition("/")
    if folder in FOLDERS and name not in INDEXES:
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"
