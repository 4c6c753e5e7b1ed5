"""What is wrong with a file whatever its entries say."""

from __future__ import annotations

import json
import os
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


TYPES = "Layout:\n  flat: {python: a.Flat, fields: {width: int}}\n"


def test_a_folder_of_types_alone_is_a_finding(tmp_path):
    write(tmp_path, "types.yaml", TYPES)
    assert found(tmp_path) == [("empty-file", "")]


def test_types_are_checked_when_their_file_is_given(tmp_path):
    path = write(tmp_path, "types.yaml", TYPES)
    report = validate(path, code=False)
    assert not report
    assert (report.counts.types, report.counts.entries) == (1, 0)
    assert found(write(tmp_path, "types.yaml", "# none\n")) == [("empty-file", "")]


def test_no_path_at_all_is_no_success():
    with pytest.raises(ValueError, match="no path"):
        validate([])


@pytest.mark.parametrize("name", ["probe.yml", "probe.YAML", "probe.Yml", "probe.YML"])
@pytest.mark.parametrize("given", ["the folder", "the file"])
def test_another_suffix_is_a_finding_that_names_the_right_one(tmp_path, name, given):
    path = write(tmp_path, name, entry_text({"signature.let": "L: Q"}))
    report = validate(tmp_path if given == "the folder" else path, code=False)
    assert {finding.code for finding in report} == {"file-suffix", "unknown-name"}
    (suffix,) = (finding for finding in report if finding.code == "file-suffix")
    assert suffix.hint == "call it probe.yaml"
    assert report.counts.entries == 1


def test_types_under_another_suffix_are_a_finding(tmp_path):
    write(tmp_path, "probe.yaml", entry_text())
    write(tmp_path, "types.yml", TYPES)
    (finding,) = validate(tmp_path, code=False)
    assert (finding.code, finding.hint) == ("file-suffix", "call it types.yaml")


def test_a_file_with_another_suffix_is_not_missing_in_the_index(tmp_path):
    row = {"family": "probe", "file": "probe.yaml", "status": "spec-only"}
    folder = manifest(tmp_path, entry_text(), {"ops": {OP: row}})
    write(folder, "spec/probe_more.yml", entry_text().replace(OP, "MoreFwdOp"))
    assert found(folder) == [("file-suffix", "")]


def test_files_that_look_like_no_spec_file_are_passed_over(tmp_path):
    write(tmp_path, "probe.yaml", entry_text())
    for name in ("notes.txt", "probe.yaml~", "yaml", "probe.json"):
        write(tmp_path, name, "nothing")
    assert found(tmp_path) == []


def test_a_file_counts_once_whatever_leads_to_it(tmp_path):
    path = write(tmp_path / "a", "probe.yaml", entry_text({"signature.let": "L: Q"}))
    link = tmp_path / "probe_link.yaml"
    link.symlink_to(path)
    folder = tmp_path / "b"
    folder.symlink_to("a")
    for paths in (
        [path, path],
        [path, tmp_path / "a" / ".." / "a" / "probe.yaml"],
        [path, link],
        [path, tmp_path / "a"],
        [tmp_path / "a", path],
        [folder, tmp_path / "a"],
        [tmp_path, tmp_path],
    ):
        report = validate(paths, code=False)
        assert (report.counts.files, report.counts.entries, len(report)) == (1, 1, 1), paths


def test_an_index_is_compared_with_all_files_of_its_folder_whoever_gave_them(tmp_path):
    row = {"family": "probe", "file": "probe.yaml", "status": "spec-only"}
    folder = manifest(tmp_path, entry_text(), {"ops": {OP: row}})
    assert list(validate([folder / "spec" / "probe.yaml", folder], code=False)) == []


def test_links_between_folders_are_told_and_not_followed(tmp_path):
    write(tmp_path / "a", "probe.yaml", entry_text())
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    report = validate(tmp_path / "a", code=False)
    assert list(report) == []
    assert report.counts.files == 1
    (note,) = report.notes
    assert note.endswith("up is a link to a folder and was not followed")


def test_what_is_no_regular_file_is_a_finding_and_is_not_opened(tmp_path):
    write(tmp_path, "probe.yaml", entry_text())
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "gone.yaml").symlink_to("nowhere.yaml")
    (tmp_path / "round.yaml").symlink_to("round.yaml")
    report = validate(tmp_path, code=False)
    assert {finding.code for finding in report} == {"file-unreadable"}
    names = {Path(finding.span.path).name for finding in report}
    assert names == {"pipe.yaml", "zero.yaml", "gone.yaml", "round.yaml"}
    assert report.counts.entries == 1


def test_types_that_are_no_regular_file_are_a_finding(tmp_path):
    write(tmp_path, "probe.yaml", entry_text())
    os.mkfifo(tmp_path / "types.yaml")
    (finding,) = validate(tmp_path / "probe.yaml", code=False)
    assert finding.code == "file-unreadable"
    assert finding.span.path.endswith("types.yaml")


def test_a_folder_that_may_not_be_read_is_a_finding(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)  # root may read everything
    (finding,) = validate(tmp_path, code=False)
    assert finding.code == "file-unreadable"
    assert "permission denied" in finding.message.lower()


def test_a_fault_of_a_file_as_a_whole_is_shown_without_a_line(tmp_path):
    (finding,) = validate(tmp_path / "gone.yaml", code=False)
    assert finding.place == str(tmp_path / "gone.yaml")


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
    write(tmp_path, "types.yaml", TYPES)
    assert found(tmp_path) == []
    write(tmp_path, "types.yaml", TYPES.replace("int", "integer"))
    assert ("unknown-type", "") in found(tmp_path)


def test_a_path_is_shown_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (finding,) = validate(write(tmp_path, "other.yaml", entry_text()), code=False)
    assert finding.place == "other.yaml:1:1"


def test_the_installed_manifest_has_no_finding():
    report = validate(str(files("tileops_manifest")))
    assert list(report) == []
    assert report.counts.classes == report.counts.entries > 10
