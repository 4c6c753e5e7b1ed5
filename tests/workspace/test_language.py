"""The page about the language: every feature is there, and is used where the page says."""

from __future__ import annotations

from pathlib import Path

import language
import pytest
import yaml

from tileops_core.validate import validate

ROWS = {(group, name): use for group, name, use in language.rows(language.PAGE.read_text())}
FEATURES = {(feature.group, feature.name): feature for feature in language.features()}
REMEDY = "run python tests/support/language.py"


def test_the_page_lists_every_feature_and_no_other() -> None:
    assert list(ROWS) == list(FEATURES), REMEDY


@pytest.mark.parametrize("key", ROWS, ids=" ".join)
def test_a_feature_is_used_where_the_page_says(key: tuple[str, str]) -> None:
    entry = language.entries()[ROWS[key]]
    assert FEATURES[key].used(*entry), REMEDY


@pytest.mark.parametrize("key", ROWS, ids=" ".join)
def test_the_page_names_an_op_where_one_uses_the_feature(key: tuple[str, str]) -> None:
    if ROWS[key].startswith("tests/"):
        assert str(language.use_of(FEATURES[key])).startswith("tests/"), REMEDY


def test_the_page_says_what_the_library_says() -> None:
    """All but who uses what, which other tests compare."""

    def without_uses(text: str) -> list[str]:
        return [line.rpartition(" | ")[0] or line for line in text.splitlines()]

    page = language.PAGE.read_text(encoding="utf-8")
    assert without_uses(page) == without_uses(language.page()), REMEDY


@pytest.mark.parametrize("name", ["gallery.yaml", "hard_entries.yaml"])
def test_the_entries_of_the_tests_have_no_finding(name: str, tmp_path: Path) -> None:
    """Files by family, as a manifest has them."""
    text = (language.SUPPORT / name).read_text(encoding="utf-8")
    families: dict[str, dict[str, object]] = {}
    for op, entry in yaml.safe_load(text).items():
        families.setdefault(entry["family"], {})[op] = entry
    for family, entries in families.items():
        path = tmp_path / f"{family}.yaml"
        path.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    report = validate(tmp_path)
    assert list(report) == []
    assert report.counts.rules_checked == report.counts.rules > 0
