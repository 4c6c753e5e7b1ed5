"""Every task a person runs; `nox --list` shows them.

One environment, `dev`, serves all sessions but `wheels`, because torch and TileLang make it more
than a gigabyte. `wheels` always starts from nothing: it asks whether what we ship works for
somebody who has never seen this folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import nox

ROOT = Path(__file__).parent
DISTRIBUTIONS = {  # package -> folder, in the order of their dependencies
    "tileops_manifest": ROOT / "manifest",
    "tileops_core": ROOT / "core",
    "tileops_reference": ROOT / "backends" / "tileops_reference",
    "tileops_tilelang": ROOT / "backends" / "tileops_tilelang",
}
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
DEV = ROOT / ".nox" / "dev"
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests"]


def groups(*names: str) -> tuple[str, ...]:
    """The requirements of dependency groups of pyproject.toml."""
    pyproject = nox.project.load_toml(ROOT / "pyproject.toml")
    return tuple(nox.project.dependency_groups(pyproject, *names))


def run(session: nox.Session, program: str, *args: str, **env: str) -> None:
    """Run a program of the `dev` environment in the repository's root."""
    session.run(str(DEV / SCRIPTS / program), *args, external=True, env=env)


@nox.session
def dev(session: nox.Session) -> None:
    """Install the four distributions, editable, and every development tool."""
    if sys.version_info < (3, 11):  # import-linter and numpy ask for it, the distributions do not
        session.error(
            "development needs Python 3.11 or newer (the distributions run on 3.10): "
            f"nox runs on {sys.version.split()[0]}"
        )
    digest = hashlib.sha256()
    for path in [ROOT / "VERSION", ROOT / "constraints.txt", ROOT / "pyproject.toml"]:
        digest.update(path.read_bytes())
    for folder in DISTRIBUTIONS.values():
        digest.update((folder / "pyproject.toml").read_bytes())
    stamp = Path(session.virtualenv.location) / "installed.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        session.log("everything is installed")
        return
    session.install(*CONSTRAINTS, *groups("build"))
    editable = [arg for folder in DISTRIBUTIONS.values() for arg in ("-e", str(folder))]
    session.install(*CONSTRAINTS, "--no-build-isolation", *editable, *groups("dev"))
    stamp.write_text(digest.hexdigest())


@nox.session(venv_backend="none", requires=["dev"])
def demo(session: nox.Session) -> None:
    """Encode sentences with a real model, then run a block of Llama: every computation an op."""
    run(session, "python", "examples/sentences.py", *session.posargs)
    run(session, "python", "examples/llama_block.py")


@nox.session(venv_backend="none", requires=["dev"])
def tests(session: nox.Session) -> None:
    """Run the test suite on all cores; arguments after `--` go to pytest."""
    # One thread per worker: two workers with a thread pool each are three times slower than one.
    run(session, "pytest", "-n", "auto", *session.posargs, OMP_NUM_THREADS="1")


@nox.session(venv_backend="none", requires=["dev"])
def loopback(session: nox.Session) -> None:
    """Run the tests that call ops once more, every op served by a whole-op target of a stranger's.

    Without the slow tests: those of calls have a short form among the others. Tests of entries, of
    what is made of them and of the docs ask nobody to compute anything.
    """
    others = ("docs", "manifest", "pages", "plan", "signature", "spec", "validate", "workspace")
    ignored = [f"--ignore=tests/{folder}" for folder in others]
    plugin = ("-p", "loopback", "--through-loopback", "-m", "not slow", *ignored)
    plugins = str(ROOT / "tests" / "plugins")
    args = ("-n", "auto", *plugin, *session.posargs)
    run(session, "pytest", *args, OMP_NUM_THREADS="1", PYTHONPATH=plugins)


@nox.session(venv_backend="none", requires=["dev"])
def lint(session: nox.Session) -> None:
    """Check style, format, and what the workspace promises of itself (layers, sizes, news)."""
    run(session, "ruff", "check")
    run(session, "ruff", "format", "--check")
    run(session, "pytest", "-q", "tests/workspace")  # lint-imports is among them
    version = (ROOT / "VERSION").read_text().strip()
    run(session, "towncrier", "build", "--draft", "--version", version)


@nox.session(venv_backend="none", requires=["dev"])
def types(session: nox.Session) -> None:
    """Check types: strict on all four packages."""
    run(session, "mypy")


@nox.session(venv_backend="none", requires=["dev"])
def docs(session: nox.Session) -> None:
    """Build the documentation site into docs/_build/html; whatever is odd about it is an error."""
    folder = ROOT / "docs"
    built = folder / "_build" / "html"
    options = ("-W", "--keep-going", "--quiet", "--jobs", "auto")
    run(session, "sphinx-build", *options, str(folder), str(built), *session.posargs)
    session.log(f"open {built / 'index.html'}")


@nox.session(venv_backend="none", requires=["dev"])
def bench(session: nox.Session) -> None:
    """Measure what calls and starts cost, then the kernels; see benchmarks/__init__.py.

    Arguments after `--` go to the first part; the second runs too if there are none, or `--quick`.
    """
    run(session, "python", "-m", "benchmarks", *session.posargs)
    if set(session.posargs) <= {"--quick"}:
        run(session, "python", "-m", "benchmarks.kernels", *session.posargs)


@nox.session(reuse_venv=False)
def wheels(session: nox.Session) -> None:
    """Build sdists and wheels, install the wheels into an empty environment, use them there."""
    session.install(*CONSTRAINTS, *groups("build"))
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for folder in DISTRIBUTIONS.values():
        # The wheel is built from the sdist, so this proves both.
        session.run("python", "-m", "build", "--no-isolation", "--outdir", str(dist), str(folder))
    built = sorted(dist.glob("*.whl"))
    for package, folder in DISTRIBUTIONS.items():
        compare_with_tree(session, package, folder / package, built)

    with tempfile.TemporaryDirectory(prefix="tileops-wheels-") as name:
        elsewhere = Path(name).resolve()
        programs = elsewhere / "venv" / SCRIPTS
        session.run("python", "-m", "venv", str(elsewhere / "venv"))
        with session.chdir(elsewhere):
            pip = (str(programs / "python"), "-m", "pip", "--disable-pip-version-check")
            session.run(*pip, "install", "-q", *CONSTRAINTS, *map(str, built), external=True)
            session.run(*pip, "check", external=True)
            # -I: neither this folder nor the user's own packages can stand in for a wheel.
            smoke = str(ROOT / "tests" / "installed" / "smoke.py")
            session.run(str(programs / "python"), "-I", smoke, external=True)
            checked = ["check-backend", "reference", "--family", "rope", "--quick"]
            for arguments in (["--version"], ["doctor"], ["ops"], checked):
                session.run(str(programs / "tileops"), *arguments, external=True)
        use_as_strangers(session, elsewhere, programs)


def use_as_strangers(session: nox.Session, elsewhere: Path, programs: Path) -> None:
    """Take the roads of others there: a backend written by the command, and an op from outside."""
    tileops, python = str(programs / "tileops"), str(programs / "python")
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    suite = ("-m", "pytest", "-q", "--pyargs", "tileops_core.conformance", "--tileops-target")
    with session.chdir(elsewhere):
        session.run(tileops, "new-backend", "acme", external=True)
    project = elsewhere / "tileops-acme"
    # A copy, because what is built in a source tree may leave something there.
    ops = Path(shutil.copytree(ROOT / "examples" / "acme_ops", elsewhere / "acme-ops"))
    for folder in (project, ops):
        built = ("--wheel", "--no-isolation", "--outdir", str(elsewhere / "wheels"), str(folder))
        session.run("python", "-m", "build", *built)
    wheels = sorted(map(str, (elsewhere / "wheels").glob("*.whl")))
    with session.chdir(project):
        session.run(*pip, "install", "-q", *CONSTRAINTS, *wheels, "pytest", external=True)
        session.run(*pip, "check", external=True)
        # The sources are away, so that only the wheel can be what is tested.
        shutil.rmtree(project / "tileops_acme")
        session.run(python, "-m", "pytest", "-q", external=True)
        session.run(python, *suite, "acme", "--tileops-xfails", "xfails.txt", external=True)
        session.run(tileops, "check-backend", "acme", "--op", "ReLUFwdOp", external=True)
    with session.chdir(elsewhere):
        shutil.rmtree(ops)
        known = ["show", "SoftcapFwdOp"], ["validate", "--no-code"]
        for arguments in (*known, ["check-backend", "acme_ops"]):
            session.run(tileops, *arguments, external=True)


def compare_with_tree(session: nox.Session, package: str, tree: Path, built: list[Path]) -> None:
    """Fail unless the wheel holds exactly the files that the package's folder holds.

    hatchling leaves out what git ignores, without a word; a family of ops would be gone.
    """
    here = {
        path.relative_to(tree.parent).as_posix()
        for path in tree.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wheel = next(path for path in built if path.name.startswith(f"{package}-"))
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if name.startswith(f"{package}/")}
    if here != there:
        session.error(
            f"{wheel.name} and {tree} differ: "
            f"only in the wheel {sorted(there - here)}, only in the tree {sorted(here - there)}"
        )
    session.log(f"{wheel.name}: all {len(here)} files of {package}")
