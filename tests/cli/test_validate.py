"""``tileops validate``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tileops_core.cli.validate import MOST, annotation, lines_of
from tileops_core.spans import Span
from tileops_core.validate import Finding
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


def test_half_a_surrogate_pair_in_a_label_is_a_finding(run, outside) -> None:
    text = outside.read_text(encoding="utf-8").replace("label: small", 'label: "small\\ud800"')
    outside.write_text(text, encoding="utf-8")
    result = run("validate", "--no-code", str(outside))
    assert result.exit_code == 1
    assert "found invalid Unicode character escape code" in result.stdout


def test_half_a_surrogate_pair_in_a_label_of_a_class_is_told(shell, install) -> None:
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
        "workloads": [{"label": "small\\ud800", "N": 8, "dtype_cases": [{"T": "float32"}]}],
    }
"""
    install("acme", source)
    done = shell("doctor", PYTHONIOENCODING="utf-8:strict")
    assert done.returncode == 1
    assert done.stderr == ""
    assert "is no label" in done.stdout


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


@pytest.fixture
def many(tmp_path: Path) -> str:
    """A file with more findings than a person is shown."""
    path = tmp_path / "probe.yaml"
    rules = "\n".join(f"- Q{n} > 0" for n in range(MOST + 5))
    path.write_text(entry_text({"signature.shape_rules": rules}), encoding="utf-8")
    return str(path)


def test_of_many_findings_of_a_file_the_first_are_shown_and_how_to_see_all(run, many) -> None:
    done = run("validate", "--no-code", many)
    assert done.exit_code == 1
    assert done.stdout.count("[unknown-name]") == MOST
    assert f"{many}: 5 more findings; --all shows all, as do --format json and github" in (
        done.stdout.splitlines()
    )
    assert f"{MOST + 5} findings in 1 place" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("options", [["--all"], ["--json"], ["--format", "github"]])
def test_nothing_is_left_out_where_all_is_asked_for(run, many, options) -> None:
    text = run("validate", "--no-code", *options, many).stdout
    assert len(re.findall(r"'Q\d+' is not declared", text)) >= MOST + 5
    assert "more finding" not in text


def test_what_is_left_out_is_counted_by_file(run, many, bad) -> None:
    text = run("validate", "--no-code", many, bad).stdout
    assert text.count("[unknown-name]") == MOST + 1
    assert text.count("more finding") == 1


def test_json_has_a_finding_in_a_line(run, many) -> None:
    lines = run("validate", "--no-code", "--json", many).stdout.splitlines()
    assert len(lines) == MOST + 5 + 2


def test_a_very_long_line_is_shown_in_part(run, tmp_path) -> None:
    path = tmp_path / "probe.yaml"
    stray = ", ".join(f"stray{n}: 1" for n in range(10_000))
    text = entry_text({"signature.outputs": f'y: {{dtype: T, shape: "[M, N, *S]", {stray}}}'})
    path.write_text(text, encoding="utf-8")
    human = run("validate", "--no-code", "--all", str(path)).stdout
    assert max(map(len, human.splitlines())) < 1000
    found = json.loads(run("validate", "--no-code", "--json", str(path)).stdout)["findings"]
    assert max(len(finding["text"]) + len(finding["snippet"]) for finding in found) < 1000


def test_a_fault_of_a_file_as_a_whole_has_no_line(run, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    path = str(tmp_path / "empty")
    assert run("validate", "--no-code", path).stdout.startswith(f"{path}: the folder has no entry")
    (finding,) = json.loads(run("validate", "--no-code", "--json", path).stdout)["findings"]
    assert (finding["line"], finding["column"]) == (None, None)
    github = run("validate", "--no-code", "--format", "github", path).stdout
    assert github == f"::error file={path},title=empty-file::the folder has no entry\n"


def test_a_fault_of_an_entry_in_python_has_keys_and_no_line() -> None:
    span = Span("<spec of X>", 7, 8, 1, "shape: [Q]", "signature.inputs.x.shape")
    finding = Finding("unknown-name", "'Q' is not declared", "X", span)
    assert [line.plain for line in lines_of(finding)] == [
        "<spec of X> signature.inputs.x.shape: X: 'Q' is not declared  [unknown-name]",
        "  shape: [Q]",
        "         ^",
    ]
    assert annotation(finding) == (
        "::error title=unknown-name::X: signature.inputs.x.shape: 'Q' is not declared"
    )
    assert finding.as_dict()["line"] is None
    assert finding.as_dict()["keys"] == "signature.inputs.x.shape"


def test_a_link_that_leads_nowhere_is_a_finding_under_its_own_name(run, tmp_path) -> None:
    link = tmp_path / "probe.yaml"
    link.symlink_to("gone.yaml")
    done = run("validate", "--no-code", str(link))
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{link}: the file cannot be read: it is a link to gone.yaml")


def test_shared_types_are_counted(run, tmp_path) -> None:
    path = tmp_path / "types.yaml"
    path.write_text("L:\n  flat: {python: a.Flat, fields: {width: int}}\n", encoding="utf-8")
    done = run("validate", "--no-code", str(path))
    assert done.exit_code == 0
    assert done.stdout.startswith("no findings: checked 1 shared type, 0 entries in 1 file")


def test_a_word_of_the_language_is_explained(run) -> None:
    text = run("validate", "--explain", "ceil_div").stdout
    assert text.startswith("ceil_div (primitive)\n")
    assert "    >>> ceil_div(7, 2)\n    4\n" in text
    found = json.loads(run("validate", "--explain", "ceil_div", "--json").stdout)
    assert found["means"][0]["examples"][0] == ["ceil_div(7, 2)", "4"]


def test_a_code_that_is_a_word_too_is_explained_as_both(run) -> None:
    text = run("validate", "--explain", "composition").stdout
    assert "refused:" in text
    assert "composition (key of the entry)" in text
