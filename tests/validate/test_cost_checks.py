"""The cost of every row is one, and is 0 only where nothing is done."""

from __future__ import annotations

import pytest


def findings(check, roofline, **more):
    return [f for f in check({"roofline": roofline, **more}, code=True) if f.code == "roofline"]


NO_COST = [
    ("{flops: M // (N - 3)}", "tiny-float16: the flops of its roofline, M // (N - 3), cannot be"),
    ("{flops: 'S[M]'}", "it reads an axis that is not there, with S=(4,), M=2"),
    ("{flops: M - N}", "tiny-float16: the flops of its roofline, M - N, is -1, a cost is a whole"),
    ("{flops: M, bytes: M - N}", "the bytes of its roofline, M - N, is -1"),
    ("{flops: M, bytes: 0 * M}", "the call has data, and its cost is 2 operations and 0 bytes"),
    ("{flops: 0, bytes: 0}", "the call has data, and its cost is 0 operations and 0 bytes"),
    ("{flops: M // 512}", "the call has data, and its flops are rounded down to 0"),
    ("{flops: N * (M // 512)}", "rounded down to 0"),
    ("{flops: M // 512 if not flag else 1}", "rounded down to 0"),
]


@pytest.mark.parametrize(("roofline", "message"), NO_COST)
def test_what_is_no_cost_is_a_finding_at_the_formula(check, roofline, message):
    (finding,) = findings(check, roofline)
    assert message in finding.message
    key = "bytes: " if "bytes" in roofline else "flops: "
    start = finding.span.text.index(key) + len(key)
    assert finding.span.text[start : finding.span.column - 1] in ("", "'")


def test_a_quantity_that_is_rounded_to_0_is_seen_through(check):
    let = {"signature.let": "part: M // 512"}
    (finding,) = findings(check, "{flops: part * N}", **let)
    assert "rounded down to 0" in finding.message


COSTS = [
    "{flops: 0}",  # moves data
    "{flops: 0, bytes: 2 * bytes(x)}",
    "{flops: 0 * M}",
    "{flops: 0 if not flag else M // 512}",  # on a branch only
    "{flops: N * (M - 2)}",  # sums of one term
    "{flops: M * N // 2}",
    "{flops: 'ceil_div(M, 512)'}",
    "{flops: M // 2}",
]


@pytest.mark.parametrize("roofline", COSTS)
def test_a_cost_may_be_0_where_nothing_is_computed(check, roofline):
    assert findings(check, roofline) == []


@pytest.mark.parametrize("sizes", ["M: 0, N: 3, S: [4]", "M: 2, N: 3, S: [0]"])
def test_a_row_without_data_costs_nothing(check, sizes):
    rows = f"- {{label: tiny, {sizes}, dtype_cases: [{{T: float16}}]}}"
    assert findings(check, "{flops: M * prod(S)}", workloads=rows) == []


COSTLY = """
def cost(record):
    return {}
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1", "gives 1, due is (flops, bytes)"),
        ("(1, -1)", "gives (1, -1), due is"),
        ("(1, 0)", "1 operations and 0 bytes"),
        ("record.indices['Q']", "fails with KeyError: 'Q'"),
    ],
)
def test_a_function_that_gives_no_cost_is_a_finding(tmp_path, monkeypatch, given, message):
    from call_support import faulty, op_class

    from tileops_core.validate import validate

    module = f"costly_{abs(hash(given))}"
    (tmp_path / f"{module}.py").write_text(COSTLY.format(given), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    spec = {**faulty.SPECS["ProbeFwdOp"], "roofline": {"func": f"{module}.cost"}}
    found = [f for f in validate(op_class("ProbeFwdOp", spec=spec)) if f.code == "roofline"]
    assert found
    assert all(message in f.message for f in found)


def test_a_function_may_give_0_operations(tmp_path, monkeypatch):
    from call_support import faulty, op_class

    from tileops_core.validate import validate

    (tmp_path / "costly_nothing.py").write_text(COSTLY.format((0, 8)), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    spec = {**faulty.SPECS["ProbeFwdOp"], "roofline": {"func": "costly_nothing.cost"}}
    assert [f for f in validate(op_class("ProbeFwdOp", spec=spec)) if f.code == "roofline"] == []
