"""From a program to the bytes of a shared library. Imports TileLang, so only a build does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tileops_tilelang.cpu import toolchain

_alone = threading.RLock()
"""Held while TileLang is imported and used, and by a fork: a child that came in between would wait
for ever for the locks of an import that goes on in its parent only."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_alone.acquire,
        after_in_parent=_alone.release,
        after_in_child=_alone.release,
    )


SCHEDULE = ("lanes",)
"""The facts that are the schedule's and not the program's."""

_CACHE = "TILELANG_CACHE_DIR"
"""Where TileLang's own cache is told to be."""


class BuildError(RuntimeError):
    """A program could not be compiled; holds what the compiler said."""


def build(name: str, facts: Mapping[str, Any]) -> tuple[bytes, list[str]]:
    """Compile a program.

    Args:
        name: ``module:function`` of ``tileops_tilelang.programs``.
        facts: the function's arguments, and those of the schedule.

    Returns:
        The library, and the kinds of its entry's arguments.

    Raises:
        BuildError: No compiler, or one that fails.
    """
    with tempfile.TemporaryDirectory(prefix="tileops-build-") as directory:
        place = Path(directory)
        with _alone, _undisturbed(), _importable(place):
            # Here: importing TileLang takes seconds, and nothing but a build needs it.
            from tileops_tilelang.cpu import source
            from tileops_tilelang.programs.c_schedule import CSchedule

            module, _, function = name.partition(":")
            make = getattr(import_module(f"tileops_tilelang.programs.{module}"), function)
            choices = {name: facts[name] for name in SCHEDULE if name in facts}
            rest = {name: value for name, value in facts.items() if name not in SCHEDULE}
            program = make(CSchedule(**choices), **rest)
            text = source.source(program)
        command = toolchain.compiler()
        if command is None:
            raise BuildError(toolchain.missing() or "no C++ compiler found")
        library = compiled(command, text, place, source.include_directory())
        return library, source.arguments(program)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Take back what importing TileLang does to a process and no build needs.

    It puts a folder of its own on the module path of every child process, and its hook in place of
    whatever shows uncaught exceptions.
    """
    path, hook = os.environ.get("PYTHONPATH"), sys.excepthook
    try:
        yield
    finally:
        if path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = path
        sys.excepthook = hook


@contextlib.contextmanager
def _importable(place: Path) -> Iterator[None]:
    """Give TileLang a directory to make at its import, where it cannot make its own.

    It makes the one of its cache, which no build uses, and fails to be imported where it cannot:
    in containers without a home that may be written to.
    """
    given = os.environ.get(_CACHE)
    if "tilelang" in sys.modules or _can_hold(given or "~/.tilelang/cache"):
        yield
        return
    os.environ[_CACHE] = str(place / "cache")
    try:
        yield
    finally:
        if given is None:
            os.environ.pop(_CACHE, None)
        else:
            os.environ[_CACHE] = given


def _can_hold(directory: str) -> bool:
    """Whether a directory is there, or can be made, and takes files."""
    try:
        path = Path(directory).expanduser()
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # of a user without a home, the latter
        return False
    return os.access(path, os.W_OK | os.X_OK)


def compiled(command: tuple[str, ...], text: str, place: Path, include: Path) -> bytes:
    """The bytes of a shared library.

    Args:
        command: the compiler's.
        text: C++.
        place: a directory for what comes between.
        include: a directory of headers.

    Raises:
        BuildError: The compiler cannot be started, or fails.
    """
    source, library = place / "program.cc", place / "program.so"
    source.write_text(text, encoding="utf-8")
    arguments = [*toolchain.FLAGS, f"-I{include}", str(source), "-o"]
    said = ""
    # Some compilers come without OpenMP; then rows are not split over threads.
    for threads in (["-fopenmp"], []):
        try:
            done = subprocess.run(
                [*command, *threads, "-w", *arguments, str(library)],
                capture_output=True,
                check=False,
                env={**os.environ, "TMPDIR": str(place)},
                errors="replace",
            )
        except OSError as error:
            raise BuildError(
                f"{' '.join(command)} cannot be started: {error}; let CXX name another compiler"
            ) from error
        if done.returncode == 0 and library.exists():
            return library.read_bytes()
        said = said or done.stderr.strip()
    made = "" if done.returncode else " and made no library"
    words = f"It said:\n{said[-4000:]}" if said else "It said nothing."
    raise BuildError(
        f"{' '.join(command)} ended with {done.returncode}{made}; let CXX name another compiler, "
        f"or repair this one. {words}"
    )
