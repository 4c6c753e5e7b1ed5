"""Where things are kept that last longer than a process."""

from __future__ import annotations

from pathlib import Path

from tileops_core.kernels import cache_directory


def test_the_directory_is_the_one_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path / "ours"))
    assert cache_directory() == tmp_path / "ours"
    monkeypatch.setenv("TILEOPS_CACHE_DIR", "~/mine")
    assert cache_directory() == tmp_path / "home" / "mine"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEOPS_CACHE_DIR", "here")
    assert cache_directory() == tmp_path / "here"
    for unset in ("TILEOPS_CACHE_DIR", ""):
        monkeypatch.setenv("TILEOPS_CACHE_DIR", "")
        monkeypatch.delenv(unset, raising=False) if unset else None
        assert cache_directory() == tmp_path / "caches" / "tileops"
    for no_path in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", no_path)
        assert cache_directory() == tmp_path / "home" / ".cache" / "tileops"


def test_a_user_without_a_home_has_no_directory(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", staticmethod(no_home))
    monkeypatch.delenv("TILEOPS_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() is None
