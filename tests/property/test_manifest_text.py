"""Any text where an expression may stand is read or refused: it never runs, and nothing crashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileops_core.validate import validate
from tileops_core.validate.examples import OP, entry_text

PLACES = (
    ("signature", "inputs", "x", "dtype"), ("signature", "inputs", "x", "shape"),
    ("signature", "inputs", "x", "mutated"), ("signature", "inputs", "w", "optional"),
    ("signature", "inputs", "w", "values"), ("signature", "inputs", "w", "requires"),
    ("signature", "outputs", "y", "shape"), ("signature", "outputs", "y", "dtype"),
    ("signature", "outputs", "y", "nullable"), ("signature", "let"), ("signature", "shape_rules"),
    ("signature", "params", "cap", "default"), ("signature", "params", "cap", "type"),
    ("signature", "forall", "M"), ("workloads", 0, "M"), ("workloads", 0, "S"),
    ("roofline", "flops"), ("roofline", "bytes"), ("roofline", "func"), ("ref_api",),
    ("composition",),
)  # fmt: skip
PIECES = st.sampled_from(
    [
        *("M", "N", "S", "T", "x", "w", "flag", "cap", ".value", ".shape", ".__class__", "[0]"),
        *("(", ")", "[", "]", "*", "**", "//", "%", "+", "-", "<", "==", " and ", " or ", " not "),
        *(" if ", " else ", " for i in ", "i", "len", "prod", "sum", "present", "bytes", "lambda:"),
        *("'a'", '"b"', "1", "0.5", "10 ** 9", "inf", ",", ":", ".", "\n", "__import__", "\\", "#"),
        *("repeat(", "prefix_sum(", "in_range(", "balanced_sizes(", "{", "}", "!", "&a", "os"),
    ]
)
TEXT = st.one_of(st.lists(PIECES, max_size=14).map("".join), st.text(max_size=30))
PROFILE = settings(
    max_examples=250,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ATTACKS = (
    "__import__('pathlib').Path('witness').touch()",
    "[*open('witness', 'w')]",
    "().__class__.__base__.__subclasses__()",
    "(lambda: open('witness', 'w'))()",
    "{open('witness', 'w')}",
    "present.__globals__['open']('witness', 'w')",
    "sum(open('witness', 'w') for i in S)",
    "witness_module.touch",
    "os.system",
)


def put(place: tuple[Any, ...], text: str) -> str:
    """The small entry with a text at a place; where names are due, as the value of one."""
    entry = yaml.safe_load(entry_text({"roofline": "{flops: M}"}))[OP]
    here = entry
    for step in place[:-1]:
        here = here[step]
    last = place[-1]
    if last == "let":
        here[last] = {"L": text}
    elif last in ("shape_rules", "requires"):
        here[last] = [text]
    elif last == "func":
        here.clear()
        here[last] = text
    else:
        here[last] = text
    return yaml.safe_dump({OP: entry}, sort_keys=False, width=10**6)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(map(str, place)))
def test_any_text_is_read_or_refused(place: tuple[Any, ...], tmp_path: Path) -> None:
    """MAN-11."""
    path = tmp_path / "probe.yaml"

    @settings(PROFILE, max_examples=40)
    @given(TEXT)
    def check(text: str) -> None:
        path.write_text(put(place, text), encoding="utf-8")
        report = validate(path)
        assert "library-fault" not in report.codes, report.findings

    check()


def test_nothing_of_an_entry_runs_when_it_is_validated(tmp_path: Path) -> None:
    """MAN-11."""
    (tmp_path / "witness_module.py").write_text("open('witness', 'w')", encoding="utf-8")
    for number, attack in enumerate(ATTACKS):
        for place in PLACES:
            folder = tmp_path / f"{number}-{place[-1]}-{place[0]}-{len(place)}"
            folder.mkdir(exist_ok=True)
            (folder / "probe.yaml").write_text(put(place, attack), encoding="utf-8")
    code = f"from tileops_core.validate import validate; validate({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert not (tmp_path / "witness").exists()
