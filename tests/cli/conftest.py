"""Run the command, in this process or in one of its own with made-up distributions."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tileops_core.cli import tileops

Run = Callable[..., Result]
Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """``run("ops", "--json")`` in this process."""

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(tileops, list(arguments), prog_name="tileops")

    return call


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str, str], None]:
    """``install("acme", source)`` makes distribution tileops-acme with module tileops_acme."""

    def make(name: str, source: str, entry_point: str | None = None) -> None:
        (tmp_path / f"tileops_{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        info = tmp_path / f"tileops_{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tileops-{name}\nVersion: 1.2")
        value = entry_point or f"tileops_{name}"
        (info / "entry_points.txt").write_text(f"[tileops.backends]\n{name} = {value}\n")

    return make


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """``shell("doctor")`` in a new process that sees what was installed."""

    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.run(
            [sys.executable, "-m", "tileops_core", *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return call
