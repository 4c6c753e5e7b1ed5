from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parent


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(PLUGINS), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_option_serves_every_op_by_the_loopback(tmp_path: Path) -> None:
    (tmp_path / "test_ops.py").write_text(
        """
import torch, pytest
from tileops_core.backend.registry import REGISTRY
from tileops_core.ops import ReLUFwdOp

def test_relu():
    op = ReLUFwdOp()
    assert op(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    assert op.serving_target == "loopback"

def test_every_op_has_a_builder():
    assert REGISTRY.load_failures() == ()
    assert all("loopback" in REGISTRY.targets_of(e.op) for e in REGISTRY.registered_by("reference")
               if hasattr(e, "key"))

@pytest.mark.parametrize("server", ["in_tree", "loopback"])
def test_who_chooses_is_left_out(server):
    raise AssertionError
"""
    )
    result = run(tmp_path, "-p", "loopback", "--through-loopback")
    assert "2 passed, 2 deselected" in result.stdout, result.stdout
