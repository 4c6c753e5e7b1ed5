"""``tileops new-backend``: write the project of a backend, ready to install."""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib.metadata import packages_distributions, requires, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from tileops_core.backend.contract import is_name
from tileops_core.backend.discovery import discover, normalized
from tileops_core.backend.loader import RUNTIME
from tileops_core.cli.output import Page, json_option, print_json

TEMPLATE = files("tileops_core") / "cli" / "project"

PREFIX = "tileops"
LONGEST = 40
"""Letters of a name: lines of the written files have room for so many."""

RESERVED = {
    "reference": "is a backend of the library",
    "tilelang": "is a backend of the library",
    "core": "is the library itself",
    "manifest": "is the library itself",
    RUNTIME: "stands for what is registered at run time",
    "builtin": "is kept for in-tree kernels, which target=BUILTIN asks for",
    "default": "reads like the choice that nobody made",
    "none": "reads like the choice that nobody made",
    "any": "reads like the choice that nobody made",
    "cpu": "is a device's name, and any target may be for it",
    "cuda": "is a device's name, and any target may be for it",
    "meta": "is a device's name, and any target may be for it",
    "test": "is what everybody's tests are called",
    "tests": "is what everybody's tests are called",
}
"""Names that no backend can have, or that would mislead who reads them, and why."""

FILES = {
    # where it is written: where it stands in the template
    "pyproject.toml": "pyproject.toml.in",
    "README.md": "README.md.in",
    ".gitignore": "gitignore.in",
    "ci.sh": "ci.sh.in",
    "xfails.txt": "xfails.txt.in",
    "@package@/__init__.py": "package/__init__.py.in",
    "@package@/plugin.py": "package/plugin.py.in",
    "@package@/elementwise.py": "package/elementwise.py.in",
    "@package@/norm.py": "package/norm.py.in",
    "@package@/softmax.py": "package/softmax.py.in",
    "@package@/py.typed": "package/py.typed.in",
    "tests/test_@package@.py": "tests/test_package.py.in",
}
PROGRAMS = ("ci.sh",)


@click.command("new-backend")
@click.argument("name")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path())
@json_option
def new_backend(name: str, directory: str | None, as_json: bool) -> None:
    """Write the project of a backend called NAME into DIR, ./tileops-NAME if it is left out.

    The project installs, serves three ops in plain PyTorch, and passes its own tests and the
    conformance suite. Its README is the tutorial. Nothing that exists is ever overwritten.
    """
    problem = problem_of(name)
    if problem is not None:
        raise click.UsageError(f"{name!r} {problem}", click.get_current_context())
    package = f"{PREFIX}_{name}"
    distribution = package.replace("_", "-")
    folder = Path(distribution if directory is None else directory)
    _check_folder(folder)
    values = {
        "name": name,
        "package": package,
        "distribution": distribution,
        # Without a local part, which no requirement may have.
        "version": version("tileops-core").partition("+")[0],
    }
    try:
        written = [_write(folder, path, source, values) for path, source in FILES.items()]
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}; name another folder"
        raise click.UsageError(message, click.get_current_context()) from None
    steps = [f"cd {shlex.quote(str(folder))}", "pip install -e '.[test]'", "./ci.sh"]
    facts = {
        "name": name,
        "package": package,
        "distribution": distribution,
        "folder": os.path.abspath(folder),
        "files": written,
        "next": steps,
    }
    if as_json:
        print_json(facts)
    else:
        _print(folder, facts)


def problem_of(name: str) -> str | None:
    """Why a backend cannot have a name, as the rest of a sentence; None where it can."""
    if name.casefold().startswith(PREFIX):
        return f"begins with {PREFIX!r}, which is put before it anyway{_guess(name)}"
    if re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) is None or not is_name(name):
        return (
            "is no name for Python and for package indexes: use small ASCII letters and digits, a "
            f"letter first, single underscores between them, and no keyword{_guess(name)}"
        )
    if len(name) > LONGEST:
        return f"is {len(name)} letters long; {LONGEST} are the most"
    if name in RESERVED:
        return f"{RESERVED[name]}; choose another name"
    for found in discover():
        if found.name == name:
            return f"is a backend that {found.distribution} has installed here; choose another name"
    package = f"{PREFIX}_{name}"
    if find_spec(package) is not None:
        return f"would make a package {package}, and there is one here already; choose another name"
    owner = _owner(name)
    if owner is not None:
        return f"is a module of {owner}, so target={name!r} would mislead; choose another name"
    return None


def _owner(module: str) -> str | None:
    """Whose module that is, if Python brings it or the library itself runs on it.

    Other packages that are installed may be what the backend is made with, and named after.
    """
    if module in sys.stdlib_module_names:
        return "Python's own"
    if find_spec(module) is None:
        return None
    needed = {normalized(re.split(r"[^\w.-]", text)[0]) for text in requires("tileops-core") or ()}
    owners = packages_distributions().get(module, ())
    return next((owner for owner in owners if normalized(owner) in needed), None)


def _guess(name: str) -> str:
    """A name near by that is one, as the end of a sentence."""
    bare = re.sub(rf"^{PREFIX}[-_.]*", "", name.lower())
    near = re.sub(r"[\W_]+", "_", bare).strip("_")
    return f" (did you mean {near!r}?)" if near != name and problem_of(near) is None else ""


def _check_folder(folder: Path) -> None:
    """Refuse a place where something is.

    Raises:
        click.UsageError: it is no folder, or not an empty one.
    """
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        what = "exists and is no folder"
    elif any(folder.iterdir()):
        what = "is not empty, and nothing is overwritten"
    else:
        return
    message = f"{folder} {what}; name another folder"
    raise click.UsageError(message, click.get_current_context())


def _write(folder: Path, path: str, source: str, values: dict[str, str]) -> str:
    """Write one file, which must not exist, and say where."""
    place = folder / filled(path, values)
    place.parent.mkdir(parents=True, exist_ok=True)
    text = filled((TEMPLATE / source).read_text(encoding="utf-8"), values)
    with open(place, "x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    if path in PROGRAMS:
        place.chmod(place.stat().st_mode | 0o111)
    return place.relative_to(folder).as_posix()


def filled(text: str, values: dict[str, str]) -> str:
    """The text with values in the places of ``@name@`` and its like."""
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _print(folder: Path, facts: dict[str, Any]) -> None:
    page = Page()
    page.line(f"{facts['distribution']}: a backend called {facts['name']}, in {folder}", "bold")
    for path in facts["files"]:
        page.line(f"  {path}")
    page.line()
    page.line("next:")
    for step in facts["next"]:
        page.line(f"  {step}")
    page.line("README.md says how to put your own kernels in")
