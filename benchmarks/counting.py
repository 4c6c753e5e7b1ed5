"""Counts the instructions that a piece of this process takes, under valgrind's callgrind.

Callgrind starts and stops counting when the program says so, by a sequence of instructions that
does nothing on a processor and that valgrind knows (``valgrind.h`` describes it). Python has no
such sequence, so it is written into memory here and called; that is why there is one for x86-64
alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from benchmarks.timing import quiet_collector

FOLDER = "TILEOPS_BENCH_COUNTS"
"""The environment variable that says where callgrind writes what it counted."""

_NAME = "count"
_RUNNING_ON_VALGRIND = 0x1001
_CALLGRIND = (ord("C") << 24) | (ord("T") << 16)
_ZERO, _DUMP, _START, _STOP = _CALLGRIND + 1, _CALLGRIND, _CALLGRIND + 4, _CALLGRIND + 5
# A function of one argument, the address of a request; its result is valgrind's answer, or 0.
_REQUEST = bytes.fromhex(
    "4889f8"  # mov rax, rdi
    "31d2"  # xor edx, edx
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61, 51: once around
    "4887db"  # xchg rbx, rbx
    "4889d0"  # mov rax, rdx
    "c3"  # ret
)
_TOTAL = re.compile(r"^(?:totals|summary):\s*(\d+)", re.MULTILINE)


class CannotCountError(RuntimeError):
    """Instructions cannot be counted here; the message says why."""


def command(folder: Path) -> list[str]:
    """What stands before the command of a process that counts.

    Args:
        folder: Where it leaves its counts; goes into its environment as :data:`FOLDER`.

    Raises:
        CannotCountError: There is no valgrind, or no sequence for this processor.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise CannotCountError("valgrind is not installed here")
    if platform.machine() not in ("x86_64", "AMD64"):
        raise CannotCountError("requests to valgrind are written for x86-64 alone")
    return [
        valgrind,
        "--tool=callgrind",
        "--instr-atstart=no",
        "--quiet",
        f"--callgrind-out-file={folder / _NAME}",
    ]


def instructions(block: Callable[[], object]) -> int:
    """How many instructions a block takes, and what it takes to count them.

    Raises:
        CannotCountError: This process does not run under callgrind.
    """
    if not _ask(_RUNNING_ON_VALGRIND):
        raise CannotCountError("this process does not run under valgrind")
    folder = Path(os.environ[FOLDER])
    before = {*folder.iterdir()}
    with quiet_collector():
        _ask(_START)
        _ask(_ZERO)
        block()
        _ask(_DUMP)
        _ask(_STOP)
    (written,) = {*folder.iterdir()} - before
    totals = _TOTAL.findall(written.read_text(encoding="utf-8", errors="replace"))
    return int(totals[-1])


def per_call(block_of: Callable[[int], Callable[[], object]], loops: int) -> float:
    """Instructions of one call, with those of the loop around it.

    Args:
        block_of: Gives what makes so many calls.
        loops: How many the longer block makes more than the shorter one; what both take besides
            drops out.
    """
    shorter, longer = block_of(loops), block_of(2 * loops)
    longer()
    shorter()
    return (instructions(longer) - instructions(shorter)) / loops


def _ask(request: int) -> int:
    """Valgrind's answer; 0 where there is no valgrind."""
    words = (ctypes.c_uint64 * 6)(request)  # the request and its five arguments, none here
    return _function()(ctypes.addressof(words))


@cache
def _function() -> Callable[[int], int]:
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(_REQUEST)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(address)
    _KEPT.append(memory)
    return function


_KEPT: list[Sequence[int]] = []
# The memory that the function lies in.
