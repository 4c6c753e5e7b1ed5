"""What a process pays before its first call: import, first construction, peak memory.

Every case is a process of its own, which tells how long after `import torch` it was done: of two
processes, one of them with torch alone, the difference would be less than that import varies by.
The cases of both libraries are started in turn; the first starts do not count, for they compile
bytecode. It lies in a folder of the run's own, so that it is there whatever the environment says
about writing it: what users install has it, too.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.rows import Effort, Section, Value, measured

SECTION = Section("Cold start")

PACKAGES = {"ours": "tileops_core.ops", "peer": "tileops"}
EVERYTHING = {
    "ours": """
import tileops_core.ops
found = {name: getattr(tileops_core.ops, name) for name in tileops_core.ops.__all__}
ops = [name for name in found if name.endswith("Op")]
""",
    "peer": """
import tileops
families = [getattr(tileops, name) for name in dir(tileops) if name[0].islower()]
names = [name for family in families for name in getattr(family, "__all__", ())]
ops = [name for name in names if name.endswith("Op")]
""",
}
CONSTRUCTIONS = """
from {package}.norm import LayerNormFwdOp, RMSNormFwdOp
from {package}.elementwise import ReLUFwdOp
from {package}.gemm import GEMMFwdOp
from {package}.reduction import SoftmaxFwdOp
for make in (
    lambda: RMSNormFwdOp((64,)), lambda: LayerNormFwdOp((64,)), ReLUFwdOp, GEMMFwdOp,
    lambda: SoftmaxFwdOp(-1),
):
    start = time.perf_counter()
    make()
    times.append(time.perf_counter() - start)
"""
# The peak of this very program: `ru_maxrss` would include what its parent held at the fork.
PROGRAM = """
import time, torch
times, ops = [], []
begin = time.perf_counter()
{body}
seconds = time.perf_counter() - begin
def peak():
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        return None
import json
print(json.dumps({{"peak": peak(), "times": times, "ops": len(ops), "seconds": seconds}}))
"""
LONG = ("all",)
"""Cases that are started every second time only."""


@dataclass
class Samples:
    """What the processes of one library gave, by case; `torch` is `import torch` alone.

    Args:
        printed: What each process found out about itself.
        failures: The last line that a failed process wrote.
    """

    printed: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def check(self, case: str) -> None:
        """Raise what stopped the case's processes, if anything did."""
        if case in self.failures:
            raise RuntimeError(self.failures[case])

    def beyond_torch(self, case: str) -> float:
        """Median wall time from `import torch` to the end of the case, seconds."""
        self.check(case)
        return statistics.median(found["seconds"] for found in self.printed[case])  # type: ignore[type-var, return-value]

    def peak(self, case: str) -> float:
        """Median peak resident memory, MiB."""
        self.check(case)
        peaks = [found["peak"] for found in self.printed[case]]
        if None in peaks:
            raise RuntimeError("this system does not tell a process its peak memory")
        return statistics.median(peaks)  # type: ignore[type-var, return-value]

    def constructions(self) -> list[list[float]]:
        """Seconds of the first construction of each class, per process."""
        self.check("construct")
        return [found["times"] for found in self.printed["construct"]]  # type: ignore[misc]


@SECTION.add("import_one", "one op class imported, beyond `import torch`", "s", 0.15)
def _import_one(samples: Samples) -> float:
    return samples.beyond_torch("one")


# Not compared: the row after it says of how many ops.
@SECTION.add("import_all", "all families imported, beyond `import torch`", "s", 0.6, compared=False)
def _import_all(samples: Samples) -> float:
    return samples.beyond_torch("all")


@SECTION.add("ops", "ops in all families", "", None, compared=False)
def _ops(samples: Samples) -> float:
    samples.check("all")
    return samples.printed["all"][0]["ops"]  # type: ignore[return-value]


@SECTION.add("first_construction", "the very first construction of a process", "ms", 20.0)
def _first_construction(samples: Samples) -> float:
    return 1e3 * statistics.median(times[0] for times in samples.constructions())


@SECTION.add("class_construction", "first construction of a further class", "ms", 3.0)
def _class_construction(samples: Samples) -> float:
    return 1e3 * statistics.median(
        value for times in samples.constructions() for value in times[1:]
    )


@SECTION.add("peak", "peak memory, one op class imported, beyond torch", "MiB", 15.0)
def _peak(samples: Samples) -> float:
    return samples.peak("one") - samples.peak("torch")


def programs_of(library: str) -> dict[str, str]:
    """The programs of one library: case to Python text."""
    package = PACKAGES[library]
    bodies = {
        "torch": "",
        "one": f"from {package}.norm import RMSNormFwdOp",
        "all": EVERYTHING[library],
        "construct": CONSTRUCTIONS.format(package=package),
    }
    return {case: PROGRAM.format(body=body) for case, body in bodies.items()}


def run(
    environments: Mapping[str, Mapping[str, str]], effort: Effort
) -> dict[str, dict[str, Value]]:
    """Start the processes in turn and work out the rows.

    Args:
        environments: The environment variables of each library's processes, by its name.
        effort: How many processes per case.

    Returns:
        Per library the rows' values by key.
    """
    samples = {library: Samples() for library in environments}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(effort.warm_starts + effort.starts):
            counted = number >= effort.warm_starts
            for library, environment in environments.items():
                for case, program in programs_of(library).items():
                    if case in samples[library].failures or (case in LONG and number % 2):
                        continue
                    with_bytecode = keeping_bytecode(environment, folder)
                    _start(samples[library], case, program, with_bytecode, counted)
    return {
        library: {row.key: measured(row, found) for row in SECTION}
        for library, found in samples.items()
    }


def keeping_bytecode(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment of a process that writes its bytecode into a folder, and finds it there."""
    kept = {k: v for k, v in environment.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


def _start(
    samples: Samples, case: str, program: str, environment: Mapping[str, str], counted: bool
) -> None:
    """Run one process to its end and file what it printed."""
    process = subprocess.run(
        [sys.executable, "-c", program], env=dict(environment), capture_output=True, text=True
    )
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        samples.failures[case] = lines[-1]
    elif counted:
        found = json.loads(process.stdout.splitlines()[-1])
        samples.printed.setdefault(case, []).append(found)
