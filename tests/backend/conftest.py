"""Made-up distributions, and registries of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest

from tileops_core.backend.discovery import Found, discover, normalized
from tileops_core.backend.registry import Registry

HEADER = "from tileops_core.backend import *\n"


class Site:
    """A folder on ``sys.path`` with distributions in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: set[str] = set()
        folder.mkdir(exist_ok=True)

    def module(self, name: str, body: str) -> None:
        """Write a module that sees all that a backend imports."""
        (self.folder / f"{name}.py").write_text(HEADER + textwrap.dedent(body))

    def distribution(
        self,
        name: str,
        body: str | None = None,
        *,
        version: str = "1.0",
        points: str | None = None,
        kind: str = "dist-info",
    ) -> None:
        """Write a distribution's metadata, and its plugin module unless ``body`` is None."""
        backend = name.replace("-", "_")
        stem = f"{backend}-{version}" if version else backend
        info = self.folder / f"{stem}.{kind}"
        info.mkdir()
        file = "METADATA" if kind == "dist-info" else "PKG-INFO"
        (info / file).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version or 0}\n")
        if points is None:
            points = f"[tileops.backends]\n{backend} = {backend}_plugin\n"
        (info / "entry_points.txt").write_text(points)
        if body is not None:
            self.module(f"{backend}_plugin", body)
        self.names.add(normalized(name))

    def find(self) -> list[Found]:
        """What ``discover`` finds of the distributions written here."""
        return [found for found in discover() if found.distribution in self.names]

    def registry(self) -> Registry:
        """A registry that knows these distributions only."""
        return Registry(self.find)


class Run(Protocol):
    def __call__(
        self, code: str, *options: str, **environment: str
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TILEOPS_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield Site(tmp_path / "site")
    for name in set(sys.modules) - before:
        if name.endswith(("_plugin", "_kernels")):
            del sys.modules[name]


@pytest.fixture
def run(site: Site) -> Run:
    """Run Python in a process of its own, with the site's distributions on its path."""

    def run(code: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(site.folder), *filter(None, sys.path)])
        return subprocess.run(
            [sys.executable, *options, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def plugin(**hooks: Callable[[], Any]) -> ModuleType:
    """A plugin module with these hooks, by their names without ``tileops_``."""
    from tileops_core.backend import hookimpl

    module = ModuleType("made_up_plugin")
    for name, function in hooks.items():
        setattr(module, f"tileops_{name}", hookimpl(function))
    return module


@pytest.fixture
def found() -> Callable[..., Found]:
    """Make an entry point in memory: ``found("acme", targets=lambda: [...])``."""

    def found(name: str, distribution: str | None = None, **hooks: Callable[[], Any]) -> Found:
        return Found(
            name,
            f"{name}_plugin",
            distribution or normalized(name),
            lambda: plugin(**hooks),
            lambda: "1.0",
        )

    return found


@pytest.fixture
def registry() -> Registry:
    """An empty registry."""
    return Registry(lambda: ())
