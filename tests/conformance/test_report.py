from __future__ import annotations

import html.parser
import json
import re
import shutil
from pathlib import Path

import pytest

from tileops_core.conformance.checks import ALL_COLUMNS
from tileops_core.conformance.outcomes import OUTCOMES, Result
from tileops_core.conformance.report import Report, matrix

RESULTS = (
    Result("SumFwdOp", "reduction", "workload", "a", "passed", 0.1),
    Result(
        "SumFwdOp", "reduction", "empty", "S[0]=0", "failed", 0.1, "value: <b>bold</b> </script>"
    ),
    Result("SumFwdOp", "reduction", "empty", "S[1]=0", "passed", 0.1),
    Result("TanhFwdOp", "elementwise", "workload", "a", "refused", 0.1, "no"),
    Result("TanhFwdOp", "elementwise", "leak", "a", "xfailed", 0.1, "expected: known"),
    Result("TanhFwdOp", "elementwise", "compile", "a", "skipped", 0.1, "no operator"),
)


@pytest.fixture
def report():
    return Report("acme", "cpu", 7, ALL_COLUMNS, RESULTS, ("line 3 is stale",), {"torch": "2.13"})


def test_the_sentence_tells_failures_ops_and_what_was_left_out(report):
    assert report.sentence() == (
        "acme on cpu: 1 of 6 checks fail, in 1 op of 2, 1 refused, 1 skipped, 1 failed as expected"
    )
    assert not report.passed


def test_the_sentence_of_a_good_run(report):
    good = Report("acme", "cpu", 0, ALL_COLUMNS, RESULTS[:1])
    assert good.sentence() == "acme on cpu: 1 op as the manifest says, 1 checks passed"
    assert good.passed


@pytest.mark.parametrize("results", [(), RESULTS[3:4], RESULTS[5:]])
def test_a_run_that_looked_at_nothing_has_not_passed(results):
    assert not Report("acme", "cpu", 0, ALL_COLUMNS, results).passed


def test_json_holds_everything(report):
    data = json.loads(report.json())
    assert data["counts"]["failed"] == 1
    assert data["outcomes"] == OUTCOMES
    assert [r["id"] for r in data["results"]][1] == "SumFwdOp/empty/S[0]=0"
    assert data["notes"] == ["line 3 is stale"]


def test_text_holds_the_matrix_and_the_failures(report):
    text = report.text()
    assert "SumFwdOp/empty/S[0]=0\n    value: <b>bold</b>" in text
    assert "note: line 3 is stale" in text


def test_a_cell_tells_how_many_of_how_many():
    head, one, two = matrix(RESULTS, tuple(ALL_COLUMNS))
    assert head.split() == ["workload", "empty", "leak", "compile"]
    assert one.split() == ["SumFwdOp", "1", "1!2"]
    assert two.split() == ["TanhFwdOp", "~", "1x1", "-"]


@pytest.mark.parametrize("ending", [".json", ".html", ".txt"])
def test_the_ending_decides_the_form(report, tmp_path, ending):
    path = tmp_path / f"report{ending}"
    report.write(path)
    text = path.read_text()
    assert text[:1] == {".json": "{", ".html": "<", ".txt": "a"}[ending]


def test_another_ending_is_refused(report, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.json, \.html or \.txt, not .*report\.pdf"):
        report.write(tmp_path / "report.pdf")


class Links(html.parser.HTMLParser):
    """Everything that a page would fetch, and how often a script ends."""

    def __init__(self):
        super().__init__()
        self.fetched, self.scripts = [], 0

    def handle_starttag(self, tag, attributes):
        self.fetched += [v for k, v in attributes if k in ("src", "href", "srcset", "action")]
        self.fetched += [tag] if tag in ("link", "iframe", "img", "object", "embed") else []

    def handle_endtag(self, tag):
        self.scripts += tag == "script"


def test_the_page_needs_nothing_else(report):
    page, links = report.html(), Links()
    links.feed(page)
    assert links.fetched == []
    assert links.scripts == 2  # a message cannot end one
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttpRequest", page)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def page(report, tmp_path):
    """The report in a browser, as a person sees it; a request or an error on the page fails."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium; `apt-get install chromium` brings one")
    path = Path(tmp_path / "report.html")
    report.write(path)
    wrong: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        shown = browser.new_page()
        shown.on("pageerror", lambda error: wrong.append(str(error)))
        shown.on("console", lambda said: wrong.append(said.text))
        shown.on("request", lambda asked: wrong.append(asked.url))
        shown.goto(path.as_uri())
        yield shown
        assert wrong == [path.as_uri()]
        browser.close()


def rows(page):
    return [row.inner_text() for row in page.locator("tbody tr[data-op] th").all()]


def test_a_browser_shows_the_matrix_and_filters_it(page):
    assert page.title() == "acme on cpu: TileOPs conformance"
    assert rows(page) == ["SumFwdOp", "TanhFwdOp"]
    assert page.locator("#shown").inner_text() == "6 of 6 checks"
    page.locator("#words").fill("sum empty")
    assert rows(page) == ["SumFwdOp"]
    assert page.locator("#shown").inner_text() == "2 of 6 checks"
    page.locator("#words").fill("")
    page.locator("#family").select_option("elementwise")
    assert rows(page) == ["TanhFwdOp"]
    page.locator("#family").select_option("")
    page.locator("#outcome").select_option("failed")
    assert rows(page) == ["SumFwdOp"]
    assert page.locator("thead th").all_inner_texts() == ["op", "empty"]


def test_a_browser_shows_failures_first_and_a_cell_when_it_is_clicked(page):
    details = page.locator("#details")
    assert details.locator("h2").inner_text() == "Not as expected"
    assert "value: <b>bold</b> </script>" in details.inner_text()
    cell = page.get_by_role("button", name="TanhFwdOp, leak: xfailed")
    assert cell.inner_text() == "1"
    cell.click()
    assert details.locator("h2").inner_text() == "TanhFwdOp/leak"
    assert "expected: known" in details.inner_text()
    page.get_by_role("button", name="TanhFwdOp, leak: xfailed").click()
    assert details.locator("h2").inner_text() == "Not as expected"


@pytest.mark.parametrize("form", ["txt", "json", "html"])
def test_half_a_surrogate_pair_in_a_message_is_no_obstacle(form, tmp_path):
    """What a backend raises may hold any text."""
    result = Result("SumFwdOp", "reduction", "empty", "a", "failed", 0.1, "error: no \ud800 luck")
    path = tmp_path / f"report.{form}"
    Report("acme", "cpu", 7, ALL_COLUMNS, (result,)).write(path)
    assert "\\ud800 luck" in path.read_text(encoding="utf-8")
