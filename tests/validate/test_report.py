"""Of very many strays in one place the first are told, and how many more there are."""

from __future__ import annotations

import pytest

from tileops_core.validate.examples import entry_text

LINES = {
    "entry": "  stray{n}: 1\n",
    "params": "      stray{n}: 1\n",
    "inputs": "      stray{n}: [M]\n",
    "outputs": "      stray{n}: true\n",
}


def with_strays(place: str, count: int = 300) -> str:
    """The small entry with keys that mean nothing, as a whole section shifted by two columns."""
    text = entry_text()
    lines = "".join(LINES[place].format(n=n) for n in range(count))
    if place == "entry":
        return text + lines
    key = f"    {place}:"
    head, _, tail = text.partition(key)
    line, _, rest = tail.partition("\n")
    if line:  # its declaration stands on the same line
        rest = f"      {line.strip()}\n{rest}"
    return f"{head}{key}\n{lines}{rest}"


@pytest.mark.parametrize("place", LINES)
def test_stray_keys_are_counted_where_they_stand(check, place):
    report = check(with_strays(place))
    assert len(report) == 11
    assert len(report.codes) == 1
    assert "290 more" in report.findings[-1].message


def test_stray_values_of_a_row_are_counted(check):
    strays = ", ".join(f"stray{n}: 1" for n in range(300))
    row = f"- {{label: tiny, M: 2, N: 3, S: [4], {strays}, dtype_cases: [{{T: float16}}]}}"
    report = check({"workloads": row})
    assert len(report) == 11
    assert report.findings[-1].message == "tiny: 290 more names are nothing that a row gives here"


@pytest.mark.parametrize("value", ["1", "{dtype: T}", "[M]"])
def test_stray_keys_of_a_file_are_counted(check, value):
    report = check(entry_text() + "".join(f"stray{n}: {value}\n" for n in range(300)))
    assert len(report) == 21
    assert "280 more keys of the file have no entry" in {f.message for f in report}


def test_it_is_the_same_each_time(check):
    assert check(with_strays("entry")).findings == check(with_strays("entry")).findings


def test_ten_strays_are_all_told(check):
    assert len(check(with_strays("entry", 10))) == 10
    assert check(with_strays("entry", 11)).findings[-1].message == (
        "the entry has 1 more keys that it does not know"
    )


def test_faults_that_are_no_strays_are_all_told(check):
    rules = "\n".join(f"- Q{n} > 0" for n in range(30))
    assert len(check({"signature.shape_rules": rules})) == 30
