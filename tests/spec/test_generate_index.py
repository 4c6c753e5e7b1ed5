from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from tileops_core.errors import ManifestError
from tileops_core.spec.generate_index import family_fits, index_text, main

ROOT = Path(str(files("tileops_manifest")))

ENTRY = """\
{op}:
  family: {family}
  status: spec-only
  signature: {{outputs: {{}}}}
  workloads: [{{label: row}}]
"""


def write(root: Path, **texts: str) -> Path:
    (root / "spec").mkdir(exist_ok=True)
    for name, text in texts.items():
        (root / "spec" / f"{name}.yaml").write_text(text)
    return root


def codes(root: Path) -> set[str]:
    with pytest.raises(ManifestError) as caught:
        index_text(root)
    return {problem.code for problem in caught.value.problems}


def test_the_index_in_the_package_is_fresh():
    assert (ROOT / "index.json").read_text(encoding="utf-8") == index_text(ROOT)


def test_writing_the_index_changes_nothing_that_is_fresh(capsys):
    before = (ROOT / "index.json").read_bytes()
    main()
    assert (ROOT / "index.json").read_bytes() == before
    assert "index.json" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["norm.yaml", "norm_fused.yaml"])
def test_a_file_is_named_after_its_family(name):
    assert family_fits("norm", name)


def test_a_file_named_after_something_else_is_refused(tmp_path):
    assert codes(write(tmp_path, norms=ENTRY.format(op="AFwdOp", family="norm"))) == {"file-family"}


def test_a_key_names_the_direction_last(tmp_path):
    assert codes(write(tmp_path, norm=ENTRY.format(op="NormFwd", family="norm"))) == {"op-name"}


def test_a_key_is_a_name_that_a_class_can_have(tmp_path):
    assert codes(write(tmp_path, norm=ENTRY.format(op="A-FwdOp", family="norm"))) == {"op-name"}


def test_a_family_is_a_name_that_a_module_can_have(tmp_path):
    text = ENTRY.format(op="AFwdOp", family="class")
    assert codes(write(tmp_path, **{"class": text})) == {"wrong-value"}


def test_an_op_in_two_files_is_refused(tmp_path):
    text = ENTRY.format(op="AFwdOp", family="norm")
    assert codes(write(tmp_path, norm_a=text, norm_b=text)) == {"duplicate-op"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    assert codes(write(tmp_path, norm=text)) == {"empty-file"}


@pytest.mark.parametrize("text", ["AFwdOp: [\n", " [ \n @ \n", "%\n"])
def test_a_file_that_is_no_yaml_is_refused(tmp_path, text):
    assert "yaml-syntax" in codes(write(tmp_path, norm=text))
