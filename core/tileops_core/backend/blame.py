"""Say whose code something is: who raised an exception, and which line of the user's led here."""

from __future__ import annotations

import os
import sys

_OURS = (os.path.dirname(os.path.dirname(__file__)) + os.sep, "<tileops ")
"""What file names of the package begin with, and those of the functions that it generates."""


def user_level() -> int:
    """The ``stacklevel`` with which the function that asks warns at the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    return level


def add_note(exc: BaseException, text: str) -> None:
    """Add a note to an exception, on Pythons without ``BaseException.add_note`` too.

    The same text is added once, however many callers pass the exception on.
    """
    notes = getattr(exc, "__notes__", None)
    if isinstance(notes, list) and text in notes:
        return
    if hasattr(exc, "add_note"):
        exc.add_note(text)
    else:
        vars(exc)["__notes__"] = [*(notes or ()), text]


def blame(
    exc: BaseException,
    *,
    op: str | None = None,
    target: str | None = None,
    backend: str | None = None,
    version: str | None = None,
) -> None:
    """Note on ``exc`` the op, target, backend and version it came out of, once.

    Args:
        exc: the exception; its type, message and traceback stay.
        op: the op's class name.
        target: the target's name; None or ``"BUILTIN"`` where in-tree kernels served.
        backend: the name of the backend that brought the code.
        version: that backend's version, if known.
    """
    place = "a kernel type" if target in (None, "BUILTIN") else f"target {target!r}"
    owner = "the op itself" if backend is None else f"backend {backend!r}"
    at = f" version {version}" if version else ""
    add_note(exc, f"{op or 'tileops'}: raised by {place} of {owner}{at}")
