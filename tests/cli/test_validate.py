"""``tileops validate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tileops_core.validate.examples import OP, entry_text


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "probe.yaml"
    path.write_text(entry_text(), encoding="utf-8")
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad" / "probe.yaml"
    path.parent.mkdir()
    path.write_text(entry_text({"signature.shape_rules": "- M > Q"}), encoding="utf-8")
    return str(path)


def test_nothing_found_is_one_line_and_exit_status_0(run, good) -> None:
    done = run("validate", "--no-code", good)
    assert done.exit_code == 0
    assert done.stdout == (
        "no findings: checked 1 entry in 1 file, 0 of 0 rules, 1 branch, 1 case\n"
    )


def test_a_finding_is_exit_status_1(run, bad) -> None:
    assert run("validate", "--no-code", bad).exit_code == 1


def test_a_finding_shows_place_text_caret_code_and_hint(run, bad) -> None:
    lines = run("validate", "--no-code", bad).stdout.splitlines()
    assert lines[0].startswith(f"{bad}:")
    assert lines[0].endswith(f"{OP}: 'Q' is not declared  [unknown-name]")
    number, column = lines[0].split(":")[1:3]
    assert lines[1] == f"  {number} |       - M > Q"
    assert lines[2].index("^") == lines[1].index("Q")
    assert lines[1].index("Q") == len(f"  {number} | ") + int(column) - 1
    assert lines[3].startswith("  hint: declared are ")


def test_json_holds_all_of_it(run, bad) -> None:
    found = json.loads(run("validate", "--no-code", "--format", "json", bad).stdout)
    finding = found["findings"][0]
    assert (finding["code"], finding["op"], finding["path"]) == ("unknown-name", OP, bad)
    assert finding["text"][finding["column"] - 1 :][: finding["length"]] == "Q"
    assert found["counts"]["rules"] == 1
    assert (
        run("validate", "--no-code", "--json", bad).stdout
        == run("validate", "--no-code", "--format", "json", bad).stdout
    )


def test_github_gets_one_workflow_command_for_each(run, bad) -> None:
    first, *_ = run("validate", "--no-code", "--format", "github", bad).stdout.splitlines()
    assert first.startswith(f"::error file={bad},line=")
    assert ",title=unknown-name::" in first
    assert first.partition("::error ")[2].partition("::")[2].startswith(f"{OP}: 'Q' is not")
    assert "%0Ahint: declared are " in first


def test_signs_that_mean_something_to_github_are_escaped() -> None:
    from tileops_core.cli.validate import annotation
    from tileops_core.spans import Span
    from tileops_core.validate import Finding

    text = annotation(Finding("row", "50% of a\nline", "", Span("a,b:c.yaml", 3, 4, 2)))
    assert text == (
        "::error file=a%2Cb%3Ac.yaml,line=3,col=4,endColumn=6,title=row::50%25 of a%0Aline"
    )


def test_a_code_is_explained(run) -> None:
    text = run("validate", "--explain", "use-present").stdout
    assert "is asked with present(x)" in text
    assert "cap is None" in text
    assert "not present(cap)" in text


def test_an_unknown_code_is_a_misuse(run) -> None:
    done = run("validate", "--explain", "use-presnt")
    assert done.exit_code == 2
    assert "did you mean 'use-present'" in done.output


def test_a_path_that_is_not_there_is_a_misuse(run) -> None:
    done = run("validate", "nowhere.yaml")
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1


def test_without_a_path_all_that_is_installed_is_checked(shell, install, outside) -> None:
    broken = outside.read_text(encoding="utf-8").replace('"[N]"', '"[N, Q]"')
    outside.write_text(broken, encoding="utf-8")
    hook = (
        "from tileops_core.backend import hookimpl\n"
        "@hookimpl\n"
        f"def tileops_manifest_paths(): return [{str(outside)!r}]\n"
    )
    install("acme", hook)
    done = shell("validate")
    assert done.returncode == 1, done.stderr
    assert "AcmeScaleFwdOp: 'Q' is not declared" in done.stdout
    assert "norm.yaml:" not in done.stdout


def test_a_class_that_states_its_entry_is_checked_with_its_backend(shell, install) -> None:
    source = """
from tileops_core.op import Op
class AcmeTwiceFwdOp(Op):
    spec = {
        "family": "acme", "status": "implemented",
        "signature": {
            "forall": {"N": "Dim", "T": "DType[float32]"},
            "inputs": {"x": {"dtype": "T", "shape": "[N]"}},
            "outputs": {"y": {"dtype": "T", "shape": "[N]"}},
        },
        "workloads": [{"label": "small", "N": 8, "dtype_cases": [{"T": "float32"}]}],
    }
    def forward(self, data): ...
"""
    install("acme", source)
    done = shell("validate")
    assert done.returncode == 1, done.stderr
    assert "AcmeTwiceFwdOp.forward takes data, the entry's inputs are x" in done.stdout


def test_a_backend_that_cannot_be_loaded_is_noted(shell, one_broken) -> None:
    done = shell("validate", "--no-code")
    assert done.returncode == 0
    assert "note: backend broken cannot be loaded" in done.stdout


def test_entries_are_checked_without_torch(shell, good, python) -> None:
    code = (
        "import sys; from tileops_core.validate import validate; "
        f"assert not validate({good!r}, code=False); print('torch' in sys.modules)"
    )
    assert python("-c", code).stdout == "False\n"
