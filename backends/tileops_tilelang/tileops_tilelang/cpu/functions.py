"""Programs as functions of this process: built once, kept on disk, called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tileops_core.kernels import BuildOnce, cache_directory
from tileops_tilelang.cpu import toolchain
from tileops_tilelang.cpu.processor import processor
from tileops_tilelang.cpu.store import Store

ENTRY = "tileops_run"
"""The function of a library that a call uses."""

_KINDS: dict[str, Any] = {
    "pointer": ctypes.c_void_p,
    "int32": ctypes.c_int32,
    "float32": ctypes.c_float,
}

_PACKAGE = Path(__file__).parents[1]

_log = logging.getLogger("tileops.tilelang")

_functions: BuildOnce[Callable[..., None]] = BuildOnce()


def function(name: str, **facts: Any) -> Callable[..., None]:
    """A program's function, from this process, from the disk, or built now.

    Args:
        name: ``module:function`` of ``tileops_tilelang.programs``.
        facts: that function's arguments: dtypes by their short names, flags; and those of the
            schedule, where they are not the usual ones.

    Returns:
        ``run(*tensors, *scalars, rows, threads)``: addresses, numbers, and over how many threads
        to split the rows. It releases the interpreter lock and checks nothing.

    Raises:
        BuildError: The program could not be compiled.
    """
    key = (_store().directory, name, *sorted(facts.items()))
    return _functions.get(key, lambda: _load(name, facts))


def _load(name: str, facts: dict[str, Any]) -> Callable[..., None]:
    store, key = _store(), _key(name, facts)
    found = store.get(key)
    if found is not None:
        try:
            return _entry(found[0], found[1]["arguments"])
        except OSError as error:
            # Libraries that it is linked with may have gone since, the compiler's for threads.
            _log.warning("%s cannot be loaded and is built again: %s", found[0], error)
    from tileops_tilelang.cpu.build import BuildError, build

    library, kinds = build(name, facts)
    path = store.put(key, library, {"program": name, "facts": facts, "arguments": kinds})
    try:
        return _entry(path, kinds)
    except OSError as error:
        raise BuildError(
            f"what was built cannot be loaded: {error}; if its file system forbids to run files, "
            "let TILEOPS_CACHE_DIR name a directory on another"
        ) from error


def _entry(path: Path, kinds: Sequence[str]) -> Callable[..., None]:
    run: Any = getattr(ctypes.CDLL(str(path)), ENTRY)
    run.argtypes = [*(_KINDS[kind] for kind in kinds), ctypes.c_int64, ctypes.c_int32]
    run.restype = None
    return run  # type: ignore[no-any-return]


def _store() -> Store:
    return _store_in(cache_directory())


@functools.lru_cache(maxsize=8)
def _store_in(directory: Path | None) -> Store:
    return Store(directory and directory / "tilelang" / processor(), within=directory)


def _key(name: str, facts: dict[str, Any]) -> str:
    """Everything that a library's bytes depend on, as 32 hex digits.

    The compiler is no part of it, only its options: what it made stays right when another one
    takes its place. The C library is: what needs a newer one is not loaded by machines that share
    the directory.
    """
    options = (toolchain.compiler() or ())[1:]
    parts = [name, facts, _tilelang_version(), _c_library(), toolchain.FLAGS, options, _sources()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@functools.lru_cache(maxsize=1)
def _tilelang_version() -> str:
    return importlib.metadata.version("tilelang")


@functools.lru_cache(maxsize=1)
def _c_library() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):  # another one than GNU's
        return " ".join(platform.libc_ver())


@functools.lru_cache(maxsize=1)
def _sources() -> str:
    """A digest of the programs, and of what is compiled with them."""
    digest = hashlib.sha256()
    files = [*(_PACKAGE / "programs").glob("*.py"), *(_PACKAGE / "cpu").glob("*.h")]
    for path in sorted([*files, _PACKAGE / "cpu" / "source.py"]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
