from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from benchmarks import peer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEOPS_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(peer, "NEEDS", ())
    return tmp_path


def pip_that(monkeypatch: pytest.MonkeyPatch, outcome) -> list[list[str]]:
    commands: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return outcome(Path(command[command.index("--dest") + 1]))

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def a_wheel(folder: Path) -> subprocess.CompletedProcess[str]:
    with zipfile.ZipFile(folder / "tileops-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tileops/__init__.py", "")
    return subprocess.CompletedProcess([], 0, "", "")


def test_the_peer_is_downloaded_once_into_its_own_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = pip_that(monkeypatch, a_wheel)
    folder = peer.fetch()
    assert folder == peer.fetch() == cache / "tileops-0.1.0"
    assert (folder / "tileops" / "__init__.py").is_file()
    assert len(commands) == 1
    assert "tileops==0.1.0" in commands[0]
    assert "--no-deps" in commands[0]


def test_a_failed_download_says_why_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_that(monkeypatch, lambda folder: subprocess.CompletedProcess([], 1, "", "no network\n"))
    with pytest.raises(peer.NoPeerError, match="could not be fetched: no network"):
        peer.fetch()
    assert list(cache.iterdir()) == []


def test_a_missing_requirement_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "NEEDS", ("no_such_module",))
    with pytest.raises(peer.NoPeerError, match="needs no_such_module"):
        peer.fetch()


def test_the_peers_sources_stand_first_on_the_path() -> None:
    found = peer.environment(Path("/peer"), {"PYTHONPATH": "/ours", "HOME": "/h"})
    assert found == {"PYTHONPATH": f"/peer{os.pathsep}/ours", "HOME": "/h"}
    assert peer.environment(Path("/peer"), {})["PYTHONPATH"] == "/peer"
