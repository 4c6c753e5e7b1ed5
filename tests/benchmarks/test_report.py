from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from benchmarks.report import Line, facts, figure, geometric_mean, lines_of, markdown, show, summary
from benchmarks.rows import Section, Unmeasured

SECTION = Section("The call")
SECTION.add("fast", "a fast row", "us", 2.0)(float)
SECTION.add("slow", "a slow row", "us", 2.0)(float)
SECTION.add("alone", "a row of ours", "B", None, not_at_peer="it has none")(float)
SECTION.add("times", "a ratio", "x", 1.5, compared=False)(float)
SECTION.add("lost", "a lost row", "us", 1.0)(float)
VALUES = {
    "ours": {
        "fast": 1.5,
        "slow": 4.0,
        "alone": 1234.0,
        "times": 1.2,
        "lost": Unmeasured("KeyError: x"),
    },
    "peer": {
        "fast": 15.0,
        "slow": 8.0,
        "alone": Unmeasured("it has none"),
        "times": 3.3,
        "lost": 9.0,
    },
}


def lines() -> dict[str, Line]:
    return {line.row.key: line for line in lines_of([SECTION], VALUES)}


def test_the_ratio_is_ours_over_the_peers() -> None:
    assert lines()["fast"].ratio == pytest.approx(0.1)


@pytest.mark.parametrize("key", ["alone", "times", "lost"])
def test_there_is_no_ratio_where_it_says_nothing(key: str) -> None:
    assert lines()[key].ratio is None


def test_a_budget_is_kept_missed_or_not_judged() -> None:
    kept = {key: line.within_budget for key, line in lines().items()}
    assert kept == {"fast": True, "slow": False, "alone": None, "times": True, "lost": None}


def test_a_library_that_was_not_run_has_a_reason_in_every_line() -> None:
    (first, *_) = lines_of([SECTION], {"ours": VALUES["ours"]})
    assert first.peer == Unmeasured("not run")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.234, "1.23 us"), (12.34, "12.3 us"), (1234.5, "1,234 us"), (Unmeasured("why"), "-")],
)
def test_a_figure_has_the_digits_that_mean_something(value: float, text: str) -> None:
    assert figure(value, "us") == text


def test_the_geometric_mean_is_of_the_ratios() -> None:
    assert geometric_mean([0.1, 0.4]) == pytest.approx(0.2)
    assert geometric_mean([]) is None


def test_the_summary_counts_budgets_and_the_peers_quarter() -> None:
    budgets, compared = summary(list(lines().values()))
    assert budgets == "Budgets kept: 2 of 3."
    assert compared.startswith("At most 0.25 of the peer's: 1 of 2 rows; geometric mean 0.22")


def test_the_markdown_holds_every_row_the_facts_and_the_reasons() -> None:
    text = markdown(list(lines().values()), {"Date": "2026-01-01", "Machine": "a machine"})
    assert "| a fast row | 2.00 us | 1.50 us | 15.0 us | 0.10 | kept |" in text
    assert "| a slow row | 2.00 us | 4.00 us | 8.00 us | 0.50 | missed |" in text
    assert "| a lost row | 1.00 us | - | 9.00 us | - | not measured |" in text
    assert "- Machine: a machine" in text
    assert "- ours: KeyError: x (a lost row)" in text
    assert "- peer: it has none (a row of ours)" in text


def test_the_printed_table_says_why_a_figure_is_missing() -> None:
    out = io.StringIO()
    show(list(lines().values()), "title", Console(file=out, width=120))
    text = out.getvalue()
    assert "ours: KeyError: x (a lost row)" in text
    assert "not measured" in text


def test_the_facts_name_the_machine_its_load_and_the_versions() -> None:
    found = facts("a peer", "0.5")
    assert list(found) == ["Date", "Machine", "Load", "Python", "Versions", "Peer"]
    assert found["Load"].startswith("0.5 before the run")
    assert f"torch {torch.__version__}" in found["Versions"]
