"""Nothing that a user may meet is missing from the docs."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tileops_core import errors
from tileops_core.backend.hookspecs import HOOKS
from tileops_core.cli import COMMANDS
from tileops_core.validate.codes import CODES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HAND_WRITTEN = "\n".join(
    path.read_text(encoding="utf-8")
    for path in [*DOCS.glob("*.md"), *DOCS.glob("reference/*.md"), *DOCS.glob("tutorials/*.md")]
)
CODE = [path for part in ("core", "backends") for path in (ROOT / part).rglob("*.py")]
ERRORS = [name for name, value in vars(errors).items() if isinstance(value, type)]
FACADES = ["tileops_core", "tileops_core.backend", "tileops_core.kernels", "tileops_core.op"]


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_a_section_with_its_registration(hook: str) -> None:
    (section,) = re.findall(
        rf"^## `{hook}`\n(.*?)(?=^## |\Z)", page("reference/hooks.md"), re.M | re.S
    )
    assert f"`{hook}() -> Iterable[" in section


@pytest.mark.parametrize("hook", HOOKS)
def test_the_table_of_hooks_says_what_a_hook_returns(hook: str) -> None:
    (row,) = re.findall(rf"^\| \[\]\(#{hook}\) \| (.*) \|$", page("reference/hooks.md"), re.M)
    kind = HOOKS[hook]
    fields = ", ".join(field.name for field in kind.__attrs_attrs__)
    assert row == f"`{kind.__name__}({fields})`" or kind.__name__ == "ManifestPath"


@pytest.mark.parametrize("name", [n for n in ERRORS if issubclass(getattr(errors, n), Exception)])
def test_an_error_is_in_the_table_with_what_it_also_is(name: str) -> None:
    (also,) = re.findall(rf"^\| `{name}` \|(.*?)\|", page("reference/errors.md"), re.M) or [None]
    if name != "TileOpsError":
        assert also is not None, "docs/reference/errors.md does not mention it"
        bases = {base.__name__ for base in getattr(errors, name).__bases__} - {"TileOpsError"}
        assert set(re.findall(r"\w+", also)) == bases
    assert f".. autoclass:: tileops_core.errors.{name}\n" in page("reference/errors.md")


@pytest.mark.parametrize("code", CODES)
def test_a_problem_code_has_a_section(code: str) -> None:
    assert f"\n## {code}\n" in page("problems.md")


def test_every_environment_variable_that_is_read_is_in_the_table() -> None:
    asked = re.compile(r"environ(?:\.get\(|\[)\"([A-Z_]+)\"")
    ours = re.compile(r"\bTILEOPS_[A-Z_]*[A-Z]")
    code = [path.read_text(encoding="utf-8") for path in CODE]
    read = {name for text in code for name in [*asked.findall(text), *ours.findall(text)]}
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", page("reference/environment.md"), re.M))
    assert read - {"PATH", "PYTHONPATH"} == listed


@pytest.mark.parametrize("facade", FACADES)
def test_every_public_name_is_in_the_reference(facade: str) -> None:
    module = import_module(facade)
    names = [name for name in module.__all__ if not hasattr(getattr(module, name), "__path__")]
    shown = re.compile(r"^\.\. (?:auto\w+|py:\w+):: tileops_core\.(?:[\w.]+\.)?(\w+)(?:\(|$)", re.M)
    assert [n for n in names if n not in shown.findall(HAND_WRITTEN) and n != "errors"] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_used_somewhere_besides_its_reference(command: str) -> None:
    others = HAND_WRITTEN.replace(page("command-line.md"), "")
    assert f"tileops {command}" in others


def test_every_module_of_interfaces_is_in_the_reference() -> None:
    folder = ROOT / "core" / "tileops_core" / "interfaces"
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    shown = re.findall(
        r"^\.\. automodule:: tileops_core\.interfaces\.(\w+)$",
        page("reference/interfaces.md"),
        re.M,
    )
    assert set(shown) == modules


def test_the_tables_of_contents_have_every_page_and_no_other() -> None:
    """A page that no table of contents lists fails the build; one that is not there does too."""
    listed = re.findall(r"^[\w/-]+$", page("index.md"), re.M)
    here = [p for p in DOCS.rglob("*.md") if "extension" not in p.parts]
    names = {path.relative_to(DOCS).with_suffix("").as_posix() for path in here}
    by_folder = ("contract/", "decisions/", "ops/", "_build/")
    hand_written = {name for name in names if not name.startswith(by_folder)} - {"index"}
    indexes = {"contract/README", "decisions/README", "ops/index"}
    assert set(listed) == hand_written | indexes


PAGES = [*ROOT.glob("*/README.md"), *ROOT.glob("backends/*/README.md")]
PAGES += [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), *DOCS.glob("reference/*.md")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_reference_is_said_to_serve_the_ops_that_have_a_class(path: Path) -> None:
    """Most entries have none yet: "every op" would be wrong of its kernels and of its oracles."""
    text = " ".join(path.read_text(encoding="utf-8").split())
    claims = re.findall(r"[^.]*\b(?:every|each) (?:TileOPs )?op\b[^.]*", text)
    claims = [claim for claim in claims if re.search("tileops-reference`|plain PyTorch", claim)]
    assert [claim for claim in claims if "a class" not in claim] == []
