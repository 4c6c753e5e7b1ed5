"""What was not looked at is told."""

from __future__ import annotations

import gc

import pytest
from call_support import op_class

from tileops_core.backend import registered
from tileops_core.backend.contract import ManifestPath
from tileops_core.op import Op
from tileops_core.validate import Report, validate
from tileops_core.validate.examples import OP, entry_text

ROWS = """
    - {label: with, M: 2, N: 3, S: [4], some: [w], dtype_cases: [{T: float16}]}
    - {label: without, M: 2, N: 3, S: [4], dtype_cases: [{T: float16}]}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "probe.yaml"
    text = entry_text({"status": "implemented", "workloads": ROWS})
    path.write_text(text, encoding="utf-8")
    return path


def notes(report: Report) -> tuple[str, ...]:
    assert list(report) == []
    return report.notes


def test_a_class_that_is_due_and_was_not_looked_for_is_noted_with_how_to_have_it_checked(path):
    (note,) = notes(validate(path))
    assert note.startswith(f"no class was checked of {OP}, because nobody installed the file")
    assert "tileops_manifest_paths" in note
    assert "spec" in note


def test_a_class_that_was_dropped_is_not_looked_for(path):
    """Even if the collector has not come by since: it seldom looks through what is old."""
    dropped = op_class(OP)
    gc.collect()
    del dropped
    (note,) = notes(validate(path))
    assert note.startswith(f"no class was checked of {OP}")


def test_nothing_is_noted_of_an_op_that_needs_no_class(path):
    path.write_text(entry_text(), encoding="utf-8")
    assert notes(validate(path)) == ()


def test_nothing_is_noted_of_classes_where_none_was_asked_for(path):
    assert notes(validate(path, code=False)) == ()


def test_one_sentence_is_said_of_many_ops(tmp_path):
    text = entry_text({"status": "implemented", "workloads": ROWS})
    many = "".join(text.replace(OP, f"Probe{n}FwdOp") for n in range(9))
    (tmp_path / "probe.yaml").write_text(many, encoding="utf-8")
    (note,) = notes(validate(tmp_path))
    assert "Probe3FwdOp and 5 more" in note


def test_a_file_that_a_backend_names_is_installed_however_it_is_given(path):
    with registered(ManifestPath(path)):
        (note,) = notes(validate(path))
    assert note.startswith(f"no class was checked of {OP}, because nothing imported one")


def test_a_file_whose_class_is_given_with_it_counts_once_and_its_class_is_checked(path):
    cls = type(OP, (Op,), {"spec": path})
    report = validate([path, cls])
    assert notes(report) == ()
    assert (report.counts.entries, report.counts.classes) == (1, 1)


def test_a_class_counts_once(path):
    cls = type(OP, (Op,), {"spec": path})
    assert validate([cls, cls]).counts.entries == 1
