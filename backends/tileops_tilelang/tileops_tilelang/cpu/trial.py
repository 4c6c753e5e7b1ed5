"""Whether a compiler compiles: tried once per compiler, and a good answer kept on disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from pathlib import Path

from tileops_core.kernels import cache_directory
from tileops_tilelang.cpu.build import BuildError, compiled
from tileops_tilelang.cpu.processor import processor
from tileops_tilelang.cpu.toolchain import FLAGS

# What every program needs: the prelude, the mathematics of the C library, a loop.
_TEXT = """
#include "prelude.h"
#include <math.h>
extern "C" void tileops_trial(float* x, int n) {
  for (int i = 0; i < n; ++i) x[i] = expf(x[i]);
}
"""


def fault(command: tuple[str, ...]) -> str | None:
    """Why a compiler's command does not compile programs, in its own words; None when it does."""
    try:
        state = os.stat(command[0])
    except OSError as error:
        return str(error)
    return _fault(command, state.st_mtime_ns, state.st_size, cache_directory())


@functools.lru_cache(maxsize=8)
def _fault(command: tuple[str, ...], changed: int, size: int, directory: Path | None) -> str | None:
    facts = repr((command, changed, size, FLAGS, _TEXT))
    mark = directory and (
        directory
        / "tilelang"
        / processor()
        / f"compiler-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"
    )
    if mark and _is_there(mark):
        return None
    with tempfile.TemporaryDirectory(prefix="tileops-build-") as place:
        try:
            compiled(command, _TEXT, Path(place), Path(__file__).parent)
        except BuildError as error:
            return str(error)
    if mark:
        with contextlib.suppress(OSError):  # then the next process tries again
            mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.touch()
    return None


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except OSError:  # nor is one that this user may not look at
        return False
    return True
