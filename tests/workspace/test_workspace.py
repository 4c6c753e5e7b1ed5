"""What the workspace promises of itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ["manifest", "core", "backends/tileops_reference", "backends/tileops_tilelang"]
MODULE_FOLDERS = ["manifest", "core", "backends", "examples", "benchmarks", "docs"]
FRAGMENT = re.compile(r"\+[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|deprecated|removed|fixed)\.md")


def pyproject_of(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def modules() -> list[Path]:
    found = [path for folder in MODULE_FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return [ROOT / "noxfile.py", *found]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_distribution_carries_the_same_license(folder: str) -> None:
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_distribution_carries_a_readme_and_says_that_it_is_typed(folder: str) -> None:
    (package,) = (ROOT / folder).glob("tileops_*/py.typed")
    assert package.read_bytes() == b""
    assert (ROOT / folder / "README.md").read_text().startswith("# tileops-")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_version_stands_in_one_place(folder: str) -> None:
    pyproject = pyproject_of(folder)
    source = pyproject["tool"]["uv-dynamic-versioning"]["from-file"]["source"]
    assert (ROOT / folder / source).resolve() == ROOT / "VERSION"
    assert "version" not in pyproject["project"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_our_distributions_pin_each_other_exactly(folder: str) -> None:
    hook = pyproject_of(folder)["tool"]["hatch"].get("metadata", {"hooks": {}})["hooks"]
    needed = hook.get("uv-dynamic-versioning", {"dependencies": []})["dependencies"]
    ours = [requirement for requirement in needed if requirement.startswith("tileops-")]
    assert [r for r in ours if not r.endswith("=={{ version }}")] == []


def test_no_module_is_longer_than_500_lines() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules()
    }
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_a_news_fragment_has_a_kind_that_towncrier_knows() -> None:
    """towncrier ignores a fragment of an unknown kind without a word."""
    names = [path.name for path in (ROOT / "changelog.d").iterdir()]
    assert [name for name in names if not FRAGMENT.fullmatch(name)] == []


def test_a_news_fragment_is_full_sentences() -> None:
    for path in (ROOT / "changelog.d").iterdir():
        text = path.read_text(encoding="utf-8").strip()
        assert text.endswith("."), path.name
        assert text[0].isupper() or text[0] == "`", path.name


def test_no_import_points_up() -> None:
    """The layers and contracts of pyproject.toml hold."""
    lint_imports = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint_imports, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
