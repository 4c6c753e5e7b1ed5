"""What is wrong with a file whatever its entries say."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tileops_core.validate import validate
from tileops_core.validate.examples import OP, entry_text


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def found(path: Path) -> list[tuple[str, str]]:
    return [(finding.code, finding.op) for finding in validate(path, code=False)]


def test_a_good_file_has_no_finding(tmp_path):
    assert found(write(tmp_path, "probe.yaml", entry_text())) == []


def test_a_file_that_is_not_there_is_a_finding(tmp_path):
    assert found(tmp_path / "gone.yaml") == [("file-unreadable", "")]


def test_a_file_that_is_no_text_is_a_finding(tmp_path):
    path = tmp_path / "probe.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert found(path) == [("file-unreadable", "")]


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]\n"])
def test_a_file_without_entries_is_a_finding(tmp_path, text):
    assert found(write(tmp_path, "probe.yaml", text)) == [("empty-file", "")]


def test_a_folder_without_files_is_a_finding(tmp_path):
    assert found(tmp_path) == [("empty-file", "")]


def test_a_file_is_named_after_the_family_of_its_entries(tmp_path):
    assert found(write(tmp_path, "other.yaml", entry_text())) == [("file-family", OP)]
    assert found(write(tmp_path, "probe_more.yaml", entry_text())) == []


def test_a_name_says_the_direction(tmp_path):
    text = entry_text().replace(OP, "ProbeOp")
    assert found(write(tmp_path, "probe.yaml", text)) == [("op-name", "ProbeOp")]


def test_an_op_stands_in_one_file(tmp_path):
    write(tmp_path, "probe.yaml", entry_text())
    write(tmp_path, "probe_more.yaml", entry_text())
    (finding,) = validate(tmp_path, code=False)
    assert (finding.code, finding.op) == ("duplicate-op", OP)
    assert finding.span.path.endswith("probe_more.yaml")
    assert "probe.yaml" in finding.message


def test_an_op_that_stands_twice_in_a_file_is_told_once(tmp_path):
    path = write(tmp_path, "probe.yaml", entry_text() + entry_text())
    assert found(path) == [("duplicate-key", "")]


def test_text_that_is_no_yaml_hides_no_other_entry(tmp_path):
    broken = "BrokenFwdOp: {family: [\n"
    second = entry_text({"signature.let": "L: Q"}).replace(OP, "SecondFwdOp")
    path = write(tmp_path, "probe.yaml", entry_text() + broken + second)
    codes = {code for code, _ in found(path)}
    assert codes == {"yaml-syntax", "unknown-name"}


def test_values_nested_too_deeply_are_a_finding(tmp_path):
    deep = "{a: " * 40 + "1" + "}" * 40
    codes = [code for code, _ in found(write(tmp_path, "probe.yaml", f"{OP}: {deep}\n"))]
    assert "yaml-depth" in codes


def manifest(folder: Path, text: str, index: object) -> Path:
    write(folder, "spec/probe.yaml", text)
    write(folder, "index.json", json.dumps(index))
    return folder


def test_an_index_says_what_the_entries_say(tmp_path):
    row = {"family": "probe", "file": "probe.yaml", "status": "spec-only"}
    assert found(manifest(tmp_path, entry_text(), {"ops": {OP: row}})) == []
    stale = [{"ops": {}}, {"ops": {OP: {**row, "status": "implemented"}}}]
    stale += [{"ops": {OP: row, "GoneFwdOp": row}}]
    for index in stale:
        (finding,) = validate(manifest(tmp_path, entry_text(), index), code=False)
        assert finding.code == "stale-data"
        assert "generate_index" in finding.hint


def test_an_index_that_cannot_be_read_is_a_finding(tmp_path):
    assert found(manifest(tmp_path, entry_text(), [])) == [("stale-data", "")]


def test_shared_types_are_checked_with_their_folder(tmp_path):
    write(tmp_path, "probe.yaml", entry_text({"signature.params": "layout: {type: Layout}",
          "workloads": "- {label: tiny, layout: {flat: {width: 2}}, M: 2, N: 3, S: [4], "
                       "dtype_cases: [{T: float16}]}"}))  # fmt: skip
    good = "Layout:\n  flat: {python: a.Flat, fields: {width: int}}\n"
    write(tmp_path, "types.yaml", good)
    assert found(tmp_path) == []
    write(tmp_path, "types.yaml", good.replace("int", "integer"))
    assert ("unknown-type", "") in found(tmp_path)


def test_a_path_is_shown_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (finding,) = validate(write(tmp_path, "other.yaml", entry_text()), code=False)
    assert finding.place == "other.yaml:1:1"


def test_the_installed_manifest_has_no_finding():
    report = validate(str(files("tileops_manifest")))
    assert list(report) == []
    assert report.counts.classes == report.counts.entries > 10
