"""From a program to the bytes of a shared library. Imports TileLang, so only a build does."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tileops_tilelang.cpu import toolchain


class BuildError(RuntimeError):
    """A program could not be compiled; holds what the compiler said."""


def build(name: str, facts: Mapping[str, Any]) -> tuple[bytes, list[str]]:
    """Compile a program.

    Args:
        name: ``module:function`` of ``tileops_tilelang.programs``.
        facts: the function's arguments.

    Returns:
        The library, and the kinds of its entry's arguments.

    Raises:
        BuildError: No compiler, or one that fails.
    """
    with tempfile.TemporaryDirectory(prefix="tileops-build-") as directory:
        place = Path(directory)
        # Here: importing TileLang takes seconds, and nothing but a build needs it.
        from tileops_tilelang.cpu import source
        from tileops_tilelang.programs.c_schedule import CSchedule

        module, _, function = name.partition(":")
        make = getattr(import_module(f"tileops_tilelang.programs.{module}"), function)
        program = make(CSchedule(), **facts)
        text = source.source(program)
        command = toolchain.compiler()
        if command is None:
            raise BuildError(toolchain.missing() or "no C++ compiler found")
        library = compiled(command, text, place, source.include_directory())
        return library, source.arguments(program)


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
        if done.returncode == 0:
            return library.read_bytes()
        said = said or done.stderr.strip()
    raise BuildError(
        f"{' '.join(command)} ended with {done.returncode}; let CXX name another compiler, or "
        f"repair this one. It said:\n{said[-4000:]}"
    )
