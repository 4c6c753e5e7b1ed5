from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import cold_start, null_ops, validator, workers
from benchmarks.rows import SMOKE, Unmeasured


@pytest.mark.slow
def test_every_row_of_ours_can_be_measured() -> None:
    values = workers.run(command.IN_PROCESS, {"ours": dict(os.environ)}, "smoke")["ours"]
    # One round of two calls may come out as nothing at all, or less; it has to come out.
    assert [value for value in values.values() if isinstance(value, Unmeasured)] == []


@pytest.mark.slow
def test_every_cold_start_of_ours_can_be_measured() -> None:
    values = cold_start.run({"ours": dict(os.environ)}, SMOKE)["ours"]
    assert [value for value in values.values() if isinstance(value, Unmeasured)] == []


@pytest.mark.slow
def test_what_the_validator_takes_can_be_measured() -> None:
    values = validator.run(dict(os.environ), SMOKE)
    assert [value for value in values.values() if isinstance(value, Unmeasured)] == []


def test_a_cold_start_finds_the_bytecode_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "started.py").write_text("")
    unwilling = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    environment = cold_start.keeping_bytecode(unwilling, str(tmp_path / "bytecode"))
    subprocess.run([sys.executable, "-c", "import started"], env=environment, check=True)
    assert list((tmp_path / "bytecode").rglob("started.*.pyc"))


@pytest.mark.parametrize("op", [null_ops.NullTwoFwdOp, null_ops.NullByHandFwdOp])
def test_a_null_op_is_served_by_the_kernel_beside_it(op: type) -> None:
    instance, x = op(), torch.ones(2, 3)
    assert instance(x, torch.ones(3)).shape == x.shape
    assert dict(instance.last_call.served_by.kernels) == {"null": "null"}


def test_a_library_that_cannot_start_is_a_reason_in_every_row() -> None:
    values = workers.run(["construction"], {"nobody": dict(os.environ)}, "smoke")["nobody"]
    assert all(
        isinstance(value, Unmeasured) and "nobody" in value.reason for value in values.values()
    )
