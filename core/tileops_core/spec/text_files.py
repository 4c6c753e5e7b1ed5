"""The text of a spec file, or a sentence about what stands under its name instead."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

MAX_BYTES = 8 * 2**20
"""No spec file is longer; all entries of all ops together are a tenth of it."""

_SORTS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)


class UnreadableFileError(ValueError):
    """What is wrong with a file, in words that follow "it cannot be read: "."""


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a regular file in UTF-8, of at most :data:`MAX_BYTES`.

    Nothing else is opened: reading a pipe may wait for ever, and a device may never end.

    Raises:
        UnreadableFileError: The file is not there, may not be read, is no regular file, is too
            long, or is no text in UTF-8.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise UnreadableFileError(_why_not_found(path, error)) from error
    if not stat.S_ISREG(mode):
        sort = next((text for is_sort, text in _SORTS if is_sort(mode)), "it is no file")
        raise UnreadableFileError(f"{sort}, and only regular files are read")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableFileError(_words(error)) from error
    if len(data) > MAX_BYTES:
        raise UnreadableFileError(f"it has more than {MAX_BYTES // 2**20} MiB")
    return _decoded(data)


def _why_not_found(path: str | os.PathLike[str], error: Exception) -> str:
    if not os.path.islink(path):
        return _words(error)
    target = os.readlink(path)
    if isinstance(error, FileNotFoundError):
        return f"it is a link to {target}, which is not there"
    return f"it is a link to {target}: {_words(error)}"


def _words(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return f"{text[:1].lower()}{text[1:]}"


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableFileError("it begins as text in UTF-16 does, and spec files are in UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableFileError(
            f"it is no text in UTF-8: byte 0x{data[error.start]:02x} on line {line} is none"
        ) from error
