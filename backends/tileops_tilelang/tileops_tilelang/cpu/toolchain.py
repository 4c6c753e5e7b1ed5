"""What a machine needs so that programs can be built on it."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shlex
import shutil
import sys

FLAGS = (
    "-std=c++17",
    "-O3",
    "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native",
    # Nothing reads errno or the exception flags. Everything else stays as IEEE 754 has it: what
    # may be reordered, a program says itself. -ffast-math must never come in here: a library
    # linked with it switches denormals off for the whole process when it is loaded.
    "-fno-math-errno",
    "-fno-trapping-math",
    # Makes glibc declare the vector forms of exp, erf and tanh; it changes nothing else.
    "-D__FAST_MATH__",
    # TileLang reinterprets bits through pointers.
    "-fno-strict-aliasing",
    # Only the entry is seen from outside, so that everything else may be inlined.
    "-fvisibility=hidden",
    "-fPIC",
    "-shared",
)
"""What every library is compiled with."""

_LOOSE = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations")

_NAMES = ("c++", "g++", "clang++")


def compiler() -> tuple[str, ...] | None:
    """The command of a C++ compiler: ``CXX``, else the first of the usual names on the path."""
    return _compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _compiler(wanted: str, path: str) -> tuple[str, ...] | None:
    try:
        words = shlex.split(wanted)
    except ValueError:  # a quotation that does not end
        words = []
    for command, *options in ([words] if words else []) + [[name] for name in _NAMES]:
        found = shutil.which(command, path=path)
        if found:
            return (found, *options)
    return None


def missing() -> str | None:
    """Why programs cannot be built here and what to do about it; None when they can."""
    if sys.platform != "linux":
        return (
            f"TileLang kernels for the CPU are built on Linux only, this is {sys.platform}; "
            "the reference serves instead"
        )
    command = compiler()
    if command is None:
        return (
            f"no C++ compiler found (looked for CXX, {', '.join(_NAMES)}); install one, for "
            "instance with apt install g++ or dnf install gcc-c++, or let CXX name it"
        )
    loose = [word for word in command[1:] if word.startswith(_LOOSE)]
    if loose:
        return (
            f"CXX asks for {loose[0]}, which would switch denormal numbers off for the whole "
            "process when a library is loaded; leave it out"
        )
    if not _has_tilelang():
        return "tilelang is not installed; pip install tilelang"
    # Here, because trying one is a build, which asks this module for a compiler.
    from tileops_tilelang.cpu.trial import fault

    return fault(command)


@functools.lru_cache(maxsize=1)
def _has_tilelang() -> bool:
    return importlib.util.find_spec("tilelang") is not None
