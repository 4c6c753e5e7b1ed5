"""``tileops new-backend``, and the project that it writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileops_core.cli.new_backend import FILES, LONGEST, RESERVED, TEMPLATE

PLUGIN = "tileops_core.conformance.pytest_plugin"
OPS = {"ReLUFwdOp", "RMSNormFwdOp", "SoftmaxFwdOp"}
LONG = "a_name_that_is_quite_as_long_as_it_may_be"[:LONGEST].rstrip("_")

Project = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- what is written ------------------------------------------------------------------------


def test_the_folder_is_named_after_the_distribution_by_default(run, here: Path) -> None:
    result = run("new-backend", "acme_ai")
    assert result.exit_code == 0, result.output
    assert (here / "tileops-acme-ai" / "tileops_acme_ai" / "plugin.py").is_file()
    assert 'acme_ai = "tileops_acme_ai.plugin"' in (
        here / "tileops-acme-ai" / "pyproject.toml"
    ).read_text(encoding="utf-8")


def test_a_folder_may_be_named_and_is_made(run, here: Path) -> None:
    assert run("new-backend", "acme", "deep/down").exit_code == 0
    assert (here / "deep" / "down" / "README.md").is_file()


def test_json_says_what_was_written_and_what_is_next(run, here: Path) -> None:
    facts = json.loads(run("new-backend", "acme", "a project", "--json").stdout)
    assert (facts["name"], facts["package"]) == ("acme", "tileops_acme")
    assert facts["distribution"] == "tileops-acme"
    folder = Path(facts["folder"])
    assert folder == here / "a project"
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert set(facts["files"]) == found
    assert facts["next"] == ["cd 'a project'", "pip install -e '.[test]'", "./ci.sh"]


def test_a_person_reads_the_same(run, here: Path) -> None:
    text = run("new-backend", "acme").stdout
    assert text.startswith("tileops-acme: a backend called acme, in tileops-acme\n")
    assert "  tileops_acme/plugin.py\n" in text
    assert "  ./ci.sh\n" in text


def test_it_asks_for_this_version_or_a_later_one(run, here: Path, monkeypatch) -> None:
    monkeypatch.setattr("tileops_core.cli.new_backend.version", lambda name: "1.2.dev3+g4")
    run("new-backend", "acme")
    text = (here / "tileops-acme" / "pyproject.toml").read_text(encoding="utf-8")
    assert '"tileops-core>=1.2.dev3"' in text


def test_every_file_of_the_template_is_written() -> None:
    folder = Path(str(TEMPLATE))
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert set(FILES.values()) == there


def test_nothing_is_left_to_fill_in(run, here: Path) -> None:
    run("new-backend", "acme")
    for path in here.rglob("*"):
        if path.is_file():
            assert not re.search(r"@[a-z]+@", path.read_text(encoding="utf-8")), path


@pytest.mark.skipif(os.name == "nt", reason="files are programs by their names there")
def test_what_ci_runs_is_a_program(run, here: Path) -> None:
    run("new-backend", "acme")
    script = here / "tileops-acme" / "ci.sh"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "is no name for Python and for package indexes"),
        ("9x", "a letter first"),
        ("class", "and no keyword"),
        ("acme-ai", "(did you mean 'acme_ai'?)"),
        ("Acme", "(did you mean 'acme'?)"),
        ("a__b", "(did you mean 'a_b'?)"),
        ("_acme", "(did you mean 'acme'?)"),
        ("acme.ai", "(did you mean 'acme_ai'?)"),
        ("../acme", "is no name"),
        ("ácme", "use small ASCII letters"),
        ("a\nb", "is no name"),
        ("tileops-acme", "is put before it anyway (did you mean 'acme'?)"),
        ("tileops", "is put before it anyway"),
        ("a" * (LONGEST + 1), f"letters long; {LONGEST} are the most"),
        ("torch", "is a module of torch, so target='torch' would mislead; choose another name"),
        ("yaml", "is a module of PyYAML, so target='yaml' would mislead; choose another name"),
        ("json", "is a module of Python's own, so target='json' would mislead"),
        ("Torch", "is no name for Python and for package indexes"),
        *((name, "choose another name") for name in sorted(RESERVED)),
    ],
)
def test_a_name_that_no_backend_can_have_is_a_misuse(run, here: Path, name, says) -> None:
    result = run("new-backend", name)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(here.iterdir()) == []


def test_the_name_of_an_installed_backend_is_taken(shell, install, tmp_path: Path) -> None:
    install("acme")
    done = shell("new-backend", "acme", str(tmp_path / "new"))
    assert done.returncode == 2
    assert "is a backend that tileops-acme has installed here" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_package_of_the_name_that_would_be_written_is_not_shadowed(shell, tmp_path) -> None:
    (tmp_path / "tileops_acme.py").touch()
    done = shell("new-backend", "acme", str(tmp_path / "new"))
    assert done.returncode == 2
    assert "would make a package tileops_acme, and there is one here already" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_backend_may_be_named_after_what_it_is_made_with(shell, tmp_path) -> None:
    """As tilelang is: the package that is written is tileops_NAME."""
    (tmp_path / "acme_compiler.py").touch()
    done = shell("new-backend", "acme_compiler", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr


def test_a_guess_is_a_name_that_can_be_had(run) -> None:
    assert "did you mean" not in run("new-backend", "Torch").stderr
    assert "did you mean" not in run("new-backend", "Reference").stderr


def test_nothing_is_ever_overwritten(run, here: Path) -> None:
    kept = here / "tileops-acme" / "README.md"
    kept.parent.mkdir()
    kept.write_text("mine")
    result = run("new-backend", "acme")
    assert result.exit_code == 2
    assert "tileops-acme is not empty, and nothing is overwritten" in result.stderr
    assert [path.name for path in kept.parent.iterdir()] == ["README.md"]
    assert kept.read_text() == "mine"


def test_a_file_in_the_folders_place_is_a_misuse(run, here: Path) -> None:
    (here / "tileops-acme").write_text("")
    result = run("new-backend", "acme")
    assert result.exit_code == 2
    assert "tileops-acme exists and is no folder" in result.stderr


def test_a_link_that_leads_nowhere_is_not_followed(run, here: Path) -> None:
    (here / "tileops-acme").symlink_to(here / "elsewhere")
    assert run("new-backend", "acme").exit_code == 2
    assert not (here / "elsewhere").exists()


def test_an_empty_folder_is_filled(run, here: Path) -> None:
    (here / "tileops-acme").mkdir()
    assert run("new-backend", "acme").exit_code == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do all")
def test_a_folder_that_cannot_be_made_is_one_line(run, here: Path) -> None:
    here.chmod(0o500)
    result = run("new-backend", "acme")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


# -- the project ----------------------------------------------------------------------------


def written(base: Path, name: str) -> Project:
    """A project written by the command and installed by pip; runs Python in its folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def python(*arguments: str, folder: Path = base / "project") -> Any:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    done = python("-m", "tileops_core", "new-backend", name, "project", folder=base)
    assert done.returncode == 0, done.stderr
    offline = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-index")
    done = python("-m", "pip", "install", "--quiet", *offline, "--target", "../site", ".")
    assert done.returncode == 0, done.stderr
    site = str(base / "site")
    environment["PYTHONPATH"] = os.pathsep.join([site, environment["PYTHONPATH"]])
    return python


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the project is, and what it is installed into."""
    return tmp_path_factory.mktemp("vendor")


@pytest.fixture(scope="module")
def project(folder: Path) -> Project:
    """The project of acme."""
    return written(folder, "acme")


def test_its_style_is_its_own_linters_whatever_its_name(tmp_path: Path, run) -> None:
    for name in ("x", LONG):
        run("new-backend", name, str(tmp_path / name))
        for command in (["check"], ["format", "--check"]):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *command, "--no-cache"],
                cwd=tmp_path / name,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_it_passes_its_own_tests(project: Project) -> None:
    done = project("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


@pytest.mark.slow
def test_doctor_has_nothing_against_it(project: Project) -> None:
    done = project("-m", "tileops_core", "doctor", "--json")
    assert done.returncode == 0, done.stdout
    (mine,) = (b for b in json.loads(done.stdout)["backends"] if b["name"] == "acme")
    assert mine["version"] == "0.1"


@pytest.mark.slow
def test_it_passes_the_suite_on_all_that_it_serves(project: Project, folder: Path) -> None:
    suite = ("-m", "pytest", "-q", "-p", PLUGIN, "--pyargs", "tileops_core.conformance")
    options = ("--tileops-target", "acme", "--tileops-xfails", "xfails.txt")
    report = ("--tileops-report", "report.json", "-p", "no:cacheprovider")
    done = project(*suite, *options, *report)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    data = json.loads((folder / "project" / "report.json").read_text())
    assert data["passed"]
    assert {result["op"] for result in data["results"]} == OPS
    assert data["counts"]["failed"] == 0


@pytest.mark.slow
def test_every_block_of_its_readme_works(project: Project, folder: Path) -> None:
    text = (folder / "project" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    first, *others = blocks
    assert len([line for line in first.splitlines() if line.strip()]) <= 10
    done = project("-c", first)
    assert done.stdout == "tensor([0., 2.])\n", done.stderr
    done = project("-c", "\n".join(others))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_command_of_its_readme_is_one(project: Project, folder: Path) -> None:
    text = (folder / "project" / "README.md").read_text(encoding="utf-8")
    shown = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    lines = [line.partition("  #")[0].strip() for line in shown.replace("\\\n", "").splitlines()]
    commands = [line.split()[1:] for line in lines if line.startswith("tileops ")]
    assert commands
    for command in commands:
        done = project("-m", "tileops_core", *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
