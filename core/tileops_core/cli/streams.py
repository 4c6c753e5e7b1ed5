"""Writing to the standard output, and what happens where it cannot be written."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

UNWRITTEN = 74
"""The exit status when the output could not be written: that of sysexits.h for such an error."""

UNREAD = 141
"""The exit status when nobody reads the output to its end, as of a program that SIGPIPE ends."""

_WRITE_ERRORS = frozenset(
    {errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.ESHUTDOWN}
)


class OutputError(Exception):
    """The standard output could not be written.

    Args:
        error: What the system said; None when there is no standard output.
    """

    def __init__(self, error: OSError | None) -> None:
        super().__init__(error)
        self.status = UNREAD if isinstance(error, BrokenPipeError) else UNWRITTEN
        words = "it is closed" if error is None else error.strerror
        self.sentence = f"the standard output cannot be written: {words}"


@contextmanager
def output_errors() -> Iterator[None]:
    """Tell errors of writing the output from those of reading files.

    Raises:
        OutputError: in place of the former.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _WRITE_ERRORS:
            raise OutputError(error) from None
        raise


def prepare_output() -> None:
    """Let no text fail for the output's encoding: what that lacks is written as an escape.

    Raises:
        OutputError: there is no standard output.
    """
    if sys.stdout is None:
        raise OutputError(None)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def finish_output() -> None:
    """Write what is still in memory.

    Raises:
        OutputError: it cannot be written.
    """
    with output_errors():
        sys.stdout.flush()


def abandon_output() -> None:
    """Let the interpreter end without a word about what could not be written."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(text: str) -> None:
    """Write to the standard output."""
    sys.stdout.write(text)
