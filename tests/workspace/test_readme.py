"""What the README shows works as it shows it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tileops_core
from tileops_core.cli import tileops
from tileops_core.errors import SignatureError
from tileops_tilelang.cpu import toolchain

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
VENDOR = [text for text in PYTHON if text.startswith("# tileops_acme.py")]
EXAMPLE, REFUSED = (text for text in PYTHON if text not in VENDOR)
(PYPROJECT,) = (text for language, text in BLOCKS if language == "toml")
SHELL = [
    line.partition("#")[0].strip()
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
]


def test_the_example_runs_and_a_refused_call_is_refused_in_those_words() -> None:
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    call, told = REFUSED.strip().splitlines()
    error, _, message = told.removeprefix("# ").partition(": ")
    with pytest.raises(SignatureError) as caught:
        exec(call, names)
    assert error == "SignatureError"
    assert re.fullmatch(re.escape(message).replace(r":\.\.\.", r":\d+"), str(caught.value))


def test_the_example_is_served_by_whom_it_says() -> None:
    names: dict[str, Any] = {}
    (said,) = re.findall(r"who did it: (.+)", EXAMPLE)
    with tileops_core.default_target(tileops_core.BUILTIN):  # whoever else is installed here
        exec(EXAMPLE, names)
    if toolchain.missing():  # the README's reader has a compiler
        said = said.replace("tilelang", "reference")
    assert str(names["op"].last_call.served_by) == said


@pytest.fixture
def vendor(tmp_path: Path) -> Callable[[str], str]:
    """Install the vendor's project as shown, and run code in a process that finds it."""
    project = tomllib.loads(PYPROJECT)["project"]
    (tmp_path / "tileops_acme.py").write_text("\n".join(VENDOR), encoding="utf-8")
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
            for group, points in project["entry-points"].items()
        )
    )

    def run(code: str) -> str:
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-W", "error", *("-c", textwrap.dedent(code))],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_vendors_builder_serves_and_is_called_as_often_as_it_says(vendor) -> None:
    told = vendor(
        """
        import tileops_acme, torch
        from tileops_core.ops import RMSNormFwdOp

        calls, build = [], tileops_acme.build_rms_norm
        tileops_acme.build_rms_norm = lambda *a, **k: calls.append(a) or build(*a, **k)
        op = RMSNormFwdOp((32,), target="acme")
        for rows, weight in ((8, None), (8, None), (4, None), (4, torch.ones(32)), (8, None)):
            x = torch.randn(rows, 32)
            torch.testing.assert_close(op(x, weight), RMSNormFwdOp((32,))(x, weight))
        print(len(calls), op.serving_target)
        """
    )
    assert told == "3 acme\n"


def test_the_vendors_kernel_type_serves_defers_and_refuses_as_it_says(vendor) -> None:
    told = vendor(
        """
        import torch
        from tileops_core.ops import SoftmaxFwdOp

        op = SoftmaxFwdOp(dim=-1)
        for x in (torch.randn(8, 32), torch.tensor(1.0), torch.randn(8, 32).half()):
            y = op(x)
            torch.testing.assert_close(y, SoftmaxFwdOp(dim=-1, target="reference")(x))
            print(op.last_call.served_by)
        """
    )
    first, *others = told.splitlines()
    assert first == "BUILTIN (acme:fast)"
    # Whichever of the library's own: that depends on whether there is a compiler.
    assert len(others) == 2
    assert set(others) <= {"BUILTIN (tilelang:tilelang)", "BUILTIN (reference:reference)"}


def test_all_is_well_with_the_vendors_project(vendor) -> None:
    report = json.loads(
        vendor("from tileops_core.cli import tileops; tileops(['doctor', '--json'])")
    )
    (acme,) = (backend for backend in report["backends"] if backend["name"] == "acme")
    assert (acme["distribution"], acme["version"]) == ("tileops-acme", "0.1")
    assert [target["builders"] for target in acme["targets"]] == [1]
    assert report["failures"] == []


def test_it_names_every_environment_variable_that_is_read() -> None:
    files = (path for folder in ("core", "backends") for path in (ROOT / folder).rglob("*.py"))
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    variables = re.compile(r"TILEOPS_[A-Z_]*[A-Z]")
    assert set(variables.findall(README)) == set(variables.findall(code))


def test_every_function_of_its_table_is_in_the_package() -> None:
    (table,) = re.findall(r"^\| to change or to ask \|.*?\n\n", README, re.MULTILINE | re.DOTALL)
    names = re.findall(r"(\w+)\(", table)
    assert names == ["set_backend_order", "load_failures", "checks"]
    assert [name for name in names if not hasattr(tileops_core, name)] == []


@pytest.mark.parametrize("command", [line for line in SHELL if line.startswith("tileops ")])
def test_a_command_that_is_shown_works(command: str) -> None:
    words = shlex.split(command)[1:]
    if words[0] == "doctor":  # tells of this process too, where other tests have failed on purpose
        done = subprocess.run(
            [sys.executable, "-m", "tileops_core", *words], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return
    result = CliRunner().invoke(tileops, words, prog_name="tileops")
    assert result.exit_code == 0, result.output


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (line,) = (line for line in SHELL if line.endswith("nox -s tests"))
    for step in line.split(" && "):
        words = step.replace("python3", '"${PYTHON:-python3}"').replace(
            "install", "install --quiet"
        )
        assert words in ci, step


def test_every_folder_that_it_names_is_there() -> None:
    folders = re.findall(r"^\| `(\w+/)` \|", README, re.MULTILINE)
    assert folders
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_it_installs_all_four_distributions_in_one_command() -> None:
    (line,) = (line for line in SHELL if line.startswith("pip install"))
    named = {
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "name"
        ]
        for folder in line.split()[2:]
    }
    assert named == {"tileops-manifest", "tileops-core", "tileops-reference", "tileops-tilelang"}
