"""Built libraries on disk: shared by processes, safe against all that may happen to a file.

A file is a shared library with a trailer behind it: what it was built from, and a digest of all
of it. It appears under its name in one step, so that processes may build the same one at once.
One that is damaged, cut short or belongs to another name is no library, and is built again.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MAGIC = b"tileops\x01"
_DIGEST = hashlib.sha256().digest_size
_LENGTH = 8
_END = _DIGEST + _LENGTH + len(_MAGIC)

_log = logging.getLogger("tileops.tilelang")


class Store:
    """Libraries by key in one directory.

    Args:
        directory: is made when something is first put there; None where there is none to make.
        within: the directory above it from which on nobody else may write; it alone if None.
    """

    def __init__(self, directory: Path | None, within: Path | None = None) -> None:
        self.directory = directory
        self._within = within
        self._private: Path | None = None
        self._private_to = 0

    def get(self, key: str) -> tuple[Path, Mapping[str, Any]] | None:
        """A library's path and its facts, or None where there is no sound one."""
        for directory in filter(None, (self.directory, self._private)):
            path = directory / f"{key}.so"
            try:
                # The directory too: in one that others write to, a file may change after a look.
                if not (self._is_safe(directory) and _is_ours(path)):
                    continue
                facts = unpack(path.read_bytes(), key)
            except OSError:
                continue
            if facts is not None:
                return path, facts
            _log.warning("%s is damaged and is built again", path)
        return None

    def put(self, key: str, library: bytes, facts: Mapping[str, Any]) -> Path:
        """Keep a library; where the directory cannot be written, until this process ends."""
        packed = pack(library, key, facts)
        if self.directory is not None:
            try:
                return self._write(self.directory, key, packed)
            except OSError as error:
                _log.info("%s: libraries last for this process, because %s", self.directory, error)
        if self._private is None or self._private_to != os.getpid():
            # A forked child makes its own: the parent's goes when the parent ends.
            self._private = Path(tempfile.mkdtemp(prefix="tileops-"))
            self._private_to = os.getpid()
            atexit.register(_remove, self._private, os.getpid())
        return self._write(self._private, key, packed)

    def _is_safe(self, directory: Path) -> bool:
        """Whether nobody else can put another file, or another directory, in a file's place."""
        above = [directory, *directory.parents]
        last = above.index(self._within) if self._within in above else 0
        return all(map(_is_ours, above[: last + 1]))

    def _write(self, directory: Path, key: str, packed: bytes) -> Path:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._is_safe(directory):
            raise PermissionError(f"{directory} can be written by others")
        handle, name = tempfile.mkstemp(dir=directory, prefix=f".{key[:8]}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(packed)
            os.chmod(name, 0o500)
            path = directory / f"{key}.so"
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        return path


def _remove(directory: Path, process: int) -> None:
    if os.getpid() == process:  # a forked child shares it
        shutil.rmtree(directory, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    """Whether nobody but this user and root can have written it: its content will be run."""
    facts = path.stat()
    return facts.st_uid in (os.getuid(), 0) and not facts.st_mode & (stat.S_IWOTH | stat.S_IWGRP)


def pack(library: bytes, key: str, facts: Mapping[str, Any]) -> bytes:
    """A library with its trailer."""
    text = json.dumps({"key": key, **facts}, sort_keys=True).encode()
    body = library + text + len(text).to_bytes(_LENGTH, "little")
    return body + hashlib.sha256(body).digest() + _MAGIC


def unpack(packed: bytes, key: str) -> Mapping[str, Any] | None:
    """The facts of a sound library that belongs to a key, else None."""
    if len(packed) < _END or not packed.endswith(_MAGIC):
        return None
    end = len(packed) - _END  # of the facts; their length, a digest and the magic follow
    digest = end + _LENGTH
    if hashlib.sha256(packed[:digest]).digest() != packed[digest : digest + _DIGEST]:
        return None
    length = int.from_bytes(packed[end:digest], "little")
    facts: dict[str, Any] = json.loads(packed[end - length : end])
    return facts if facts.get("key") == key else None
