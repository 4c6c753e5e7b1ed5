"""What the validator takes: the whole manifest with code, and the largest family without."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.rows import Effort, Section, Value, measured

SECTION = Section("The validator")
NO_PEER = "it has no validator"

# The command itself, as a shell starts it, but for the start of Python and the imports.
FAMILY = """
import contextlib, io, time
from importlib import resources
import tileops_core.validate
from tileops_core.cli import tileops
from tileops_core.cli.validate import validate
spec = resources.files("tileops_manifest") / "spec"
paths = sorted(str(f) for f in spec.iterdir() if f.name.startswith("attention"))
start = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    tileops(["validate", "--no-code", *paths], standalone_mode=False)
print(time.perf_counter() - start)
"""


@SECTION.add(
    "validate_all", "the whole manifest with code, a process", "s", 10.0, not_at_peer=NO_PEER
)
def _whole(environment: Mapping[str, str], effort: Effort) -> float:
    def one() -> float:
        start = time.perf_counter()
        _output(["-m", "tileops_core", "validate"], environment)
        return time.perf_counter() - start

    return statistics.median(one() for _ in range(effort.starts))


@SECTION.add(
    "validate_family",
    "attention, the largest family, without code, beyond imports",
    "s",
    0.5,
    not_at_peer=NO_PEER,
)
def _family(environment: Mapping[str, str], effort: Effort) -> float:
    return statistics.median(
        float(_output(["-c", FAMILY], environment)) for _ in range(effort.starts)
    )


def run(environment: Mapping[str, str], effort: Effort) -> dict[str, Value]:
    """The rows' values by key.

    Args:
        environment: The environment variables of our processes.
        effort: How many processes per row.
    """
    return {row.key: measured(row, environment, effort) for row in SECTION}


def _output(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a Python process prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout
