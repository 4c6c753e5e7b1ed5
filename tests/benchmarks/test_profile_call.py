from __future__ import annotations

import ast

import pytest
import torch
from rich.console import Console

from benchmarks import profile_call
from benchmarks.null_ops import NullTwoFwdOp


def profiled() -> list[profile_call.Cost]:
    return profile_call.profile(NullTwoFwdOp(), (torch.ones(2, 3), torch.ones(3)), 2, 2)


def test_every_step_of_a_known_call_is_listed_in_order() -> None:
    texts = [cost.text for cost in profiled()]
    wanted = ["the call itself, empty", "if _compiling()", "if _modes()", "weight.is_neg(),"]
    wanted += ["_result = _call(x, weight)", "return _result"]
    found = [next(i for i, text in enumerate(texts) if text.strip() == want) for want in wanted]
    assert found == sorted(found)


def test_what_a_known_call_does_not_run_is_no_step() -> None:
    texts = " ".join(cost.text for cost in profiled())
    assert not any(name in texts for name in ("_miss", "_unusual", "_recheck", "_blame"))


def test_the_steps_of_one_branch_are_those_that_run() -> None:
    source = "def f(x):\n    if x:\n        a = 1\n    else:\n        b = 2\n    return x\n"
    found: dict[str, object] = {}
    exec(source, found)
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    for given, branch in ((1, "a = 1"), (0, "b = 2")):
        lines = profile_call.executed(found["f"], (given,))  # type: ignore[arg-type]
        texts = [text for text, _ in profile_call.steps_of(function.body, lines)]
        assert texts == ["if x", branch, "return x"]


def test_a_call_cut_off_has_the_op_s_state() -> None:
    source = "def __call__(self, x):\n    y = self._binding\n    return y\n"
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    op = NullTwoFwdOp()
    whole = profile_call.standing_in(op, profile_call.cut(function, function.body, {}))
    shorter = profile_call.standing_in(op, profile_call.cut(function, function.body[:1], {}))
    assert (whole(0), shorter(0)) == (op._binding, None)


def test_the_command_prints_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    profile_call.main(["null_2", "--rounds", "1", "--loops", "1"])
    printed = capsys.readouterr().out
    assert "RMSNormFwdOp" in printed
    assert "beyond the kernel" in printed


def test_a_case_that_is_none_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        profile_call.main(["nonsense"])
    assert "null_1" in capsys.readouterr().err


def test_brackets_of_a_step_are_printed() -> None:
    console = Console(record=True, width=80)
    profile_call.show("a call", [profile_call.Cost("a[0] = b[red]", 1e-3)], 0.0, console)
    assert "a[0] = b[red]" in console.export_text()
