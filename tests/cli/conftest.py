"""Run the command, in this process or in one of its own with made-up distributions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tileops_core.cli import tileops
from tileops_core.spec.generate_index import index_text

Run = Callable[..., Result]
Shell = Callable[..., "subprocess.CompletedProcess[str]"]

OUTSIDE = """
AcmeScaleFwdOp:
  family: acme
  status: spec-only
  signature:
    forall: {N: Dim, T: "DType[float32]"}
    params:
      factor: {type: float, default: 2.0}
    inputs:
      x: {dtype: T, shape: "[N]"}
    outputs:
      y: {dtype: T, shape: "[N]"}
  workloads:
    - {label: small, N: 8, dtype_cases: [{T: float32}]}
"""


@pytest.fixture
def run() -> Run:
    """``run("ops", "--json")`` in this process."""

    def call(*arguments: str, **env: str) -> Result:
        return CliRunner(env=env).invoke(tileops, list(arguments), prog_name="tileops")

    return call


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A spec file with ``AcmeScaleFwdOp``, an op of nobody here."""
    path = tmp_path / "acme.yaml"
    path.write_text(OUTSIDE, encoding="utf-8")
    return path


def make_distribution(
    folder: Path, name: str, source: str = "", entry_point: str | None = None
) -> None:
    """Put distribution tileops-``name`` 1.2 with module tileops_``name`` into a folder."""
    (folder / f"tileops_{name}.py").write_text(source, encoding="utf-8")
    info = folder / f"tileops_{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tileops-{name}\nVersion: 1.2\n")
    value = entry_point or f"tileops_{name}"
    (info / "entry_points.txt").write_text(f"[tileops.backends]\n{name} = {value}\n")


def python_in(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a new process that finds a folder's distributions."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def python(tmp_path: Path) -> Shell:
    """``python("-c", code)`` in a new process."""
    return partial(python_in, tmp_path)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """``shell("doctor")`` in a new process."""
    return partial(python_in, tmp_path, "-m", "tileops_core")


@pytest.fixture
def contracts(tmp_path: Path) -> None:
    """A copy of the manifest, for ``python`` and ``shell``, in which three ops have no class.

    ``AcmeScaleFwdOp`` and ``AcmeShiftFwdOp`` are all of their family, ``ClampedNormFwdOp`` is one
    of a family that has classes.
    """
    package = tmp_path / "tileops_manifest"
    shutil.copytree(str(files("tileops_manifest")), package)
    spec = package / "spec"
    second = OUTSIDE.replace("AcmeScaleFwdOp", "AcmeShiftFwdOp")
    (spec / "acme.yaml").write_text(OUTSIDE + second, encoding="utf-8")
    third = OUTSIDE.replace("AcmeScaleFwdOp", "ClampedNormFwdOp").replace("acme", "norm")
    (spec / "norm_clamped.yaml").write_text(third, encoding="utf-8")
    (package / "index.json").write_text(index_text(package), encoding="utf-8")


@pytest.fixture
def install(tmp_path: Path) -> Callable[..., None]:
    """``install(name, source)`` makes a distribution that ``python`` and ``shell`` find."""
    return partial(make_distribution, tmp_path)


@pytest.fixture
def one_broken(install: Callable[..., None]) -> None:
    """A backend whose import raises, for ``shell``."""
    install("broken", "raise RuntimeError('no license')")


@pytest.fixture(scope="session")
def sick(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """``tileops doctor`` where four backends fail to load, each in a way of its own."""
    folder = tmp_path_factory.mktemp("sick")
    make_distribution(folder, "raises", "raise RuntimeError('no license')")
    make_distribution(folder, "needs", "import driver_of_acme.lib")
    make_distribution(folder, "gone", entry_point="tileops_vanished.plugin")
    make_distribution(folder, "exits", "raise SystemExit(3)")
    return python_in(folder, "-m", "tileops_core", "doctor")
