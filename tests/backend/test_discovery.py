from __future__ import annotations

import pathlib

import importlib_metadata
import pytest

from tileops_core.backend.discovery import discover

EMPTY = ""


def names(site) -> list[tuple[str, str, str]]:
    return [(f.name, f.value, f.distribution) for f in site.find()]


def test_every_entry_point_of_the_group_is_found(site) -> None:
    site.distribution(
        "acme-kernels",
        points="[console_scripts]\nx = y:z\n[tileops.backends]\none = a.b\ntwo = a.b:plugin\n",
    )
    assert names(site) == [
        ("one", "a.b", "acme-kernels"),
        ("two", "a.b:plugin", "acme-kernels"),
    ]


@pytest.mark.parametrize("kinds", [("dist-info", "egg-info"), ("egg-info", "dist-info")])
def test_a_distribution_with_two_kinds_of_metadata_counts_once(site, kinds) -> None:
    """REG-04"""
    for kind in kinds:
        site.distribution("acme", EMPTY, kind=kind)
    assert names(site) == [("acme", "acme_plugin", "acme")]


def test_an_egg_info_without_a_version_is_the_same_distribution(site) -> None:
    """REG-04"""
    site.distribution("acme", EMPTY, kind="egg-info", version="")
    site.distribution("acme", EMPTY)
    assert names(site) == [("acme", "acme_plugin", "acme")]


def test_a_line_that_is_there_twice_counts_once(site) -> None:
    """REG-04"""
    site.distribution("acme", points="[tileops.backends]\nacme = a\nacme = a\n")
    assert names(site) == [("acme", "a", "acme")]


def test_spellings_of_a_distributions_name_are_one_name(site, tmp_path, monkeypatch) -> None:
    """REG-04"""
    site.distribution("Acme_Kernels", EMPTY, points="[tileops.backends]\nacme = a\n")
    second = type(site)(tmp_path / "second")
    second.distribution("acme-kernels", points="[tileops.backends]\nacme = a\n")
    monkeypatch.syspath_prepend(second.folder)
    assert names(site) == [("acme", "a", "acme-kernels")]


@pytest.mark.parametrize("first_is_newer", [True, False])
def test_of_two_versions_the_first_on_the_path_counts(
    site, tmp_path, monkeypatch, first_is_newer
) -> None:
    """REG-06"""
    versions = ("2.0", "1.0") if first_is_newer else ("1.0", "2.0")
    site.distribution("acme", points="[tileops.backends]\nacme = later\n", version=versions[1])
    first = type(site)(tmp_path / "first")
    first.distribution("acme", points="[tileops.backends]\nacme = earlier\n", version=versions[0])
    monkeypatch.syspath_prepend(first.folder)
    (found,) = site.find()
    assert (found.value, found.read_version()) == ("earlier", versions[0])


@pytest.mark.parametrize("newest", ["2.0", "10.0", "1.0.1"])
def test_of_two_versions_in_one_folder_the_newer_counts(site, newest) -> None:
    """REG-06"""
    for version in sorted(["1.0", newest], key=len):
        value = "new" if version == newest else "old"
        points = f"[tileops.backends]\nacme = {value}\n"
        site.distribution("acme", points=points, version=version)
    assert names(site) == [("acme", "new", "acme")]


def test_what_an_interrupted_uninstall_left_does_not_count(site, tmp_path, monkeypatch) -> None:
    """REG-06"""
    site.distribution("acme", points="[tileops.backends]\nacme = whole\n")
    left = tmp_path / "left" / "acme-2.0.dist-info"
    left.mkdir(parents=True)
    (left / "entry_points.txt").write_text("[tileops.backends]\nacme = left_over\n")
    monkeypatch.syspath_prepend(left.parent)
    assert names(site) == [("acme", "whole", "acme")]


def test_the_order_comes_from_names_and_the_core_is_first(site) -> None:
    """REG-16"""
    for name in ("zeta", "acme", "tileops-core"):
        backend = "core" if name == "tileops-core" else "b"
        site.distribution(name, points=f"[tileops.backends]\n{backend}2 = m\n{backend} = m\n")
    found = names(site)
    assert found[0] == ("core", "m", "tileops-core")
    assert [(name, who) for name, _, who in found[1:]] == [
        ("b", "acme"),
        ("b2", "acme"),
        ("core2", "tileops-core"),
        ("b", "zeta"),
        ("b2", "zeta"),
    ]


def test_broken_metadata_of_others_is_passed_over(site) -> None:
    """REG-04"""
    site.distribution("acme", EMPTY)
    folder = site.folder / "a-1.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_bytes(b"\xff\xfe[tileops.backends]\nx = y\n")
    (site.folder / "file.egg-info").write_text("")
    (site.folder / "-1.0.dist-info").mkdir()
    assert names(site) == [("acme", "acme_plugin", "acme")]


def test_entry_points_that_cannot_be_read_are_a_backend_that_fails(site) -> None:
    site.distribution("acme-x", points="[tileops.backends]\nacme\n")
    for found in site.find():
        assert (found.name, found.distribution) == ("acme_x", "acme-x")
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the parser raises
            found.load()


def test_a_distribution_that_no_folder_holds_is_asked_for_its_name(monkeypatch) -> None:
    class InMemory(importlib_metadata.Distribution):
        def __init__(self, metadata: str) -> None:
            self.text = metadata

        def read_text(self, filename: str) -> str | None:
            points = "[tileops.backends]\nmemory = m\n"
            return {"METADATA": self.text, "entry_points.txt": points}.get(filename)

        def locate_file(self, path: str) -> pathlib.Path:
            return pathlib.Path(path)

    described = InMemory("Metadata-Version: 2.1\nName: In.Memory\nVersion: 3\n")
    monkeypatch.setattr(
        importlib_metadata, "distributions", lambda: [InMemory(""), described, described]
    )
    (found,) = discover()
    assert (found.name, found.distribution, found.read_version()) == ("memory", "in-memory", "3")


def test_the_version_comes_from_the_folder(site, monkeypatch) -> None:
    site.distribution("acme", EMPTY, version="1.0+cpu")
    (found,) = site.find()
    monkeypatch.setattr(importlib_metadata.Distribution, "metadata", property(lambda self: 1 / 0))
    assert found.read_version() == "1.0+cpu"


def test_a_version_that_nobody_states_is_unknown(site) -> None:
    site.distribution("acme", EMPTY, version="", kind="egg-info")
    (found,) = site.find()
    (site.folder / "acme.egg-info" / "PKG-INFO").write_text("Name: acme\n")
    assert found.read_version() is None
