"""Instructions are counted where valgrind is, and where it is not somebody says so."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import counting, instructions
from benchmarks.counting import CannotCountError
from benchmarks.rows import Unmeasured

on_x86_64 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="requests are written for x86-64"
)


def test_without_valgrind_every_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    values = instructions.run({"ours": {}, "peer": {}}, "smoke")
    assert {*values} == {"ours", "peer"}
    expected = Unmeasured("valgrind is not installed here")
    for rows in values.values():
        assert rows == {row.key: expected for row in instructions.SECTION}


def test_another_processor_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(CannotCountError, match="x86-64 alone"):
        counting.command(tmp_path)


@on_x86_64
def test_a_process_of_its_own_counts_nothing() -> None:
    with pytest.raises(CannotCountError, match="does not run under valgrind"):
        counting.instructions(lambda: None)


@on_x86_64
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_twice_the_work_is_twice_the_instructions(tmp_path: Path) -> None:
    """Of a loop of the interpreter, whose length is known to be proportional."""
    program = """
from itertools import repeat
from benchmarks.counting import instructions, per_call

def flipping(loops):
    def block():
        bit = 0
        for _ in repeat(None, loops):
            bit ^= 1
    return block

flipping(10_000)()
print(instructions(flipping(10_000)), instructions(flipping(20_000)), per_call(flipping, 10_000))
"""
    command = [*counting.command(tmp_path), sys.executable, "-c", program]
    root = Path(counting.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root), counting.FOLDER: str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    once, twice, each = map(float, done.stdout.split())
    assert twice == pytest.approx(2 * once, rel=0.05)
    assert each == pytest.approx((twice - once) / 10_000, rel=0.05)
    assert 10 < each < 1_000
