from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from benchmarks import kernel_cases, kernel_grid, kernel_report, kernels
from benchmarks.kernel_cases import SUBJECTS, Case, Subject, grid_cases
from benchmarks.kernel_times import Times, copy_bandwidth, measure
from tileops_core import BUILTIN, default_target

ROOT = Path(__file__).resolve().parents[2]
COPY = {1: 1e10, 2: 2e10}

needs_kernels = pytest.mark.skipif(
    kernels.why_not() is not None, reason="TileLang's kernels are not built on this machine"
)
each = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.key)


def a_point(key: str, rows: int = 16, columns: int = 64, dtype: str = "float32") -> Case:
    (subject,) = kernel_cases.subjects_named([key])
    (case,) = grid_cases(subject, (rows,), (columns,), (dtype,))
    return case


def times(
    key: str,
    dtype: str,
    over_torch: float,
    over_general: float = 2.0,
    served_by: str = "tilelang",
    threads: int = 1,
    kind: str = "workload",
) -> Times:
    case = dataclasses.replace(a_point(key, dtype=dtype), kind=kind)
    ours = 1e-3
    return Times(
        case,
        threads,
        ours,
        over_torch * ours,
        over_general * ours,
        2 * ours,
        served_by,
        moved=5_000_000,
    )


FOUND = [
    times("rms_norm", "float32", 1.0),
    times("rms_norm", "float16", 4.0),
    times("rms_norm", "float16", 0.5, served_by="reference"),
    times("rms_norm", "bfloat16", 16.0),
    times("softmax", "float32", 0.9, kind="decode"),
    times("softmax", "float16", 1.2, 0.5, served_by="reference"),
    times("softmax", "bfloat16", 3.0, 3.0, served_by="reference"),
    times("rms_norm", "float32", 100.0, threads=2),
]


@needs_kernels
def test_a_quick_run_writes_the_table_with_figures(tmp_path: Path) -> None:
    out, data = tmp_path / "KERNELS.md", tmp_path / "kernels.json"
    asked = ["--only", "rms_norm", "ArgmaxFwdOp", "--dtypes", "float32", "--threads", "1"]
    kernels.main(["--quick", *asked, "--out", str(out), "--json", str(data)])
    found = json.loads(data.read_text())
    assert {row["subject"] for row in found} == {"rms_norm", "argmax"}
    for row in found:
        assert min(row["ours"], row["torch"], row["reference"], row["moved"]) > 0
    (loads,) = re.findall(r"From the disk: ([\d.]+) ms .* ([\d.]+) ms", out.read_text())
    assert min(map(float, loads)) > 0
    lines = [line for line in out.read_text().splitlines() if "| float32 | " in line]
    lines = [line for line in lines if not line.startswith("| op |")]
    assert len(lines) == len(found)
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert all(float(cell.replace(",", "")) > 0 for cell in cells[5:10])


def test_a_machine_without_a_compiler_is_told_so_and_nothing_fails(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "TILEOPS_CACHE_DIR": str(tmp_path)}
    environment.pop("CXX", None)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", "--quick"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"Nothing is measured: .*no\s+C\+\+\s+compiler", done.stdout, re.S)


def test_means_are_geometric_and_over_what_dispatch_gives_to_tilelang_at_one_thread() -> None:
    lines = {line[0]: line[1:] for line in kernel_report.means(FOUND)}
    assert lines["RMSNorm"] == ["3 of 4", "1.00", "4.00", "16.0", "4.00", "1.00"]
    assert lines["Softmax"] == ["1 of 3", "0.90", "-", "-", "0.90", "0.90"]
    assert lines["All"][:3] == ["4 of 7", "0.95", "4.00"]


def test_the_goals_are_of_workload_rows_in_two_dtypes_and_of_the_worst_case() -> None:
    mean, worst = kernel_report.verdicts(FOUND)
    assert "geometric mean of torch / ours 2.00, goal 1.5: kept" in mean
    assert "0.90 (Softmax, 16x64, step, float32, 1 thread), goal 0.95: missed; 1 of 4" in worst


def test_goals_of_nothing_are_neither_kept_nor_missed() -> None:
    assert kernel_report.verdicts([FOUND[2]]) == []


def test_a_loss_is_against_the_faster_of_torch_and_the_reference() -> None:
    lost = kernel_report.losses(FOUND)
    assert [round(line.over_best or 0, 2) for line in lost] == [0.5, 0.5, 0.9]


def test_what_would_win_and_does_not_serve_is_told() -> None:
    assert kernel_report.given_away(FOUND) == [FOUND[6]]


def test_a_case_that_tilelang_refuses_has_no_ratio_and_counts_nowhere() -> None:
    refused = dataclasses.replace(FOUND[0], ours=None, through_op=None)
    assert refused.over_torch is None
    assert kernel_report.given([refused]) == kernel_report.losses([refused]) == []
    cells = kernel_report.cells(refused, COPY)
    assert cells[5:] == ["-", "-", "1,000", "2,000", "-", "-", "-", "-"]


def test_bandwidth_is_told_as_a_share_of_the_copys_at_as_many_threads() -> None:
    assert kernel_report.cells(FOUND[0], COPY)[-2:] == ["5.00", "50%"]
    assert kernel_report.cells(FOUND[-1], COPY)[-2:] == ["5.00", "25%"]


def test_the_file_holds_every_case_the_facts_and_the_lists() -> None:
    text = kernel_report.markdown(FOUND, COPY, {"Machine": "a machine"})
    assert text.count("\n| 16x64") == len(FOUND)
    assert "- Machine: a machine" in text
    assert "### TileLang loses to torch or to the reference: Softmax" in text
    assert "### TileLang would win and does not serve: Softmax" in text


@needs_kernels
def test_who_serves_is_what_dispatch_says() -> None:
    case = a_point("rms_norm")
    with default_target(BUILTIN):
        (found,) = measure(case, [1], 0.0, 1)
        op = case.op()
        op(*case.tensors())
        ((interface, _),) = op.last_call.served_by.kernels.items()
        call = op.call_spec(*case.tensors())
        assert found.served_by == op.key_for(interface, call)
    with default_target("reference"):
        (found,) = measure(case, [1], 0.0, 1)
        assert found.served_by == "reference"
        assert not found.is_ours


@each
@pytest.mark.parametrize("dtype", kernel_cases.DTYPES)
def test_what_torch_computes_is_what_the_op_computes(subject: Subject, dtype: str) -> None:
    case = a_point(subject.key, dtype=dtype)
    tensors = case.tensors()
    expected, found = case.op(target="reference")(*tensors), case.eager()(*tensors)
    # In 16 bits torch rounds after every step.
    near = 1e-4 if dtype == "float32" else 0.1
    torch.testing.assert_close(found, expected, rtol=near, atol=near)


def test_a_rotation_of_some_features_leaves_the_others() -> None:
    (subject,) = kernel_cases.subjects_named(["rope_position_ids"])
    found = [c for c in kernel_cases.decode_cases(subject) if c.call.params["rotary_dim"]]
    case = next(case for case in found if case.dtype == "float32")
    expected = case.op(target="reference")(*case.tensors())
    torch.testing.assert_close(case.eager()(*case.tensors()), expected, rtol=1e-4, atol=1e-4)


@each
def test_cases_come_from_the_manifest_and_fit(subject: Subject) -> None:
    labels = {row.label for row in kernel_cases.signature_of(subject).workloads}
    cases = [*kernel_cases.workload_cases(subject), *kernel_cases.decode_cases(subject)]
    assert {case.label for case in cases} <= labels
    assert bool(cases) is subject.rows_too
    assert {case.dtype for case in cases} == (set(kernel_cases.DTYPES) if cases else set())
    assert max((case.bytes for case in cases), default=0) <= kernel_cases.MOST_BYTES


def test_every_workload_row_belongs_to_one_subject_or_does_not_fit() -> None:
    for op in {subject.op for subject in SUBJECTS}:
        subjects = [subject for subject in SUBJECTS if subject.op == op and subject.rows_too]
        seen = [{case.label for case in kernel_cases.workload_cases(s)} for s in subjects]
        labels = [label for group in seen for label in group]
        rows = kernel_cases.signature_of(subjects[0]).workloads
        assert len(labels) == len(set(labels))
        assert {row.label for row in rows} == set(labels)


def test_tensors_of_a_case_are_the_same_in_every_run() -> None:
    case = a_point("rope_position_ids")
    assert all(map(torch.equal, case.tensors(), case.tensors()))


def test_measuring_leaves_the_threads_as_they_were() -> None:
    before = torch.get_num_threads()
    assert copy_bandwidth(before + 1, 0.0, 1 << 10) > 0
    assert torch.get_num_threads() == before


def test_a_grid_shows_both_ratios_and_who_does_not_serve() -> None:
    out = io.StringIO()
    found = [times("rms_norm", "float32", 0.5, 2.0, served_by="reference")]
    kernel_grid.show(found, Console(file=out, width=160))
    assert "0.50 2.00 *" in out.getvalue()
    assert "gives none of it to TileLang" in out.getvalue()


def test_a_grid_is_summed_up() -> None:
    out = io.StringIO()
    kernel_grid.show(FOUND[:4], Console(file=out, width=400))
    text = out.getvalue()
    assert "gives 3 of 4 to TileLang: geometric mean of torch / ours 4.00, smallest 1.00" in text


@pytest.mark.parametrize(
    ("arguments", "writes"),
    [([], True), (["--quick"], False), (["--only", "all"], False), (["--sweep", "all"], False)],
)
def test_only_a_whole_run_writes_the_committed_file(arguments: list[str], writes: bool) -> None:
    assert (kernels.parsed(arguments).out == kernel_report.KERNELS) is writes


def test_an_unknown_op_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kernels.parsed(["--sweep", "Relu"])
    assert "'Relu' is none of" in capsys.readouterr().err
