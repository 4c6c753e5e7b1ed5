from __future__ import annotations

import pytest

from tileops_core.conformance.outcomes import Result
from tileops_core.conformance.xfails import Xfails

TEXT = """\
# acme on the CPU

SumFwdOp/empty/*            # no launch of zero blocks
SumFwdOp/parameter/dim=[0]
SumFwdOp/leak/big           # known  # and more
"""


@pytest.fixture
def xfails(tmp_path):
    path = tmp_path / "xfails.txt"
    path.write_text(TEXT)
    return Xfails.read(path)


def result(check, outcome="failed"):
    op, column, name = check.split("/", 2)
    return Result(op, "reduction", column, name, outcome, message="differs")


def test_lines_are_patterns_with_reasons(xfails):
    assert [(x.line, x.pattern, x.reason) for x in xfails.lines] == [
        (3, "SumFwdOp/empty/*", "no launch of zero blocks"),
        (4, "SumFwdOp/parameter/dim=[0]", ""),
        (5, "SumFwdOp/leak/big", "known  # and more"),
    ]


@pytest.mark.parametrize("text", ["SumFwdOp", "SumFwdOp/empty", "just words"])
def test_a_line_that_is_no_check_is_refused_with_its_number(text, tmp_path):
    path = tmp_path / "xfails.txt"
    path.write_text(f"SumFwdOp/a/b\n{text}\n")
    with pytest.raises(ValueError, match=f"line 2: '{text}' is no check; one is called OP/COLUMN"):
        Xfails.read(path)


def test_a_failure_that_is_expected_is_no_failure(xfails):
    judged = xfails.judge(result("SumFwdOp/empty/S[0]=0"))
    assert judged.outcome == "xfailed"
    assert judged.message == "expected: no launch of zero blocks; differs"


def test_an_id_with_brackets_stands_for_itself(xfails):
    assert xfails.judge(result("SumFwdOp/parameter/dim=[0]")).outcome == "xfailed"


def test_an_expected_failure_that_passes_is_told(xfails):
    judged = xfails.judge(result("SumFwdOp/leak/big", "passed"))
    assert judged.outcome == "xpassed"
    assert "line 5 of" in judged.message


@pytest.mark.parametrize("outcome", ["skipped", "refused"])
def test_what_was_not_looked_at_is_neither(xfails, outcome):
    assert xfails.judge(result("SumFwdOp/leak/big", outcome)).outcome == outcome


def test_lines_that_hold_no_longer_are_told(xfails):
    found = [
        xfails.judge(result("SumFwdOp/empty/a", "passed")),
        xfails.judge(result("SumFwdOp/empty/b", "passed")),
        xfails.judge(result("SumFwdOp/leak/big", "passed")),
    ]
    one, two, three = xfails.told(found)
    assert one.endswith("line 3: SumFwdOp/empty/*: all 2 of them pass; remove it")
    assert two.endswith("line 4: SumFwdOp/parameter/dim=[0] is no check of this run")
    assert three.endswith("line 5: SumFwdOp/leak/big: it passes; remove it")
    assert len(xfails.told(found, whole=False)) == 2


def test_a_pattern_of_which_some_fail_stays(xfails):
    found = [xfails.judge(result("SumFwdOp/empty/a", o)) for o in ("passed", "failed")]
    assert xfails.told(found, whole=False) == []


def test_a_file_that_is_no_text_is_refused_with_its_name(tmp_path):
    path = tmp_path / "xfails.txt"
    path.write_bytes(b"SumFwdOp/a/\xff\n")
    with pytest.raises(ValueError, match=r"xfails.txt is no text in UTF-8"):
        Xfails.read(path)
