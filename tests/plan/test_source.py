"""Generated code has a text: tracebacks show it, debuggers list it and step into it."""

from __future__ import annotations

import inspect
import io
import linecache
import pdb  # noqa: T100 - the debugger is what is tested
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from plan_support import OP, facts, plan, spec, statics

from tileops_core.errors import SignatureError
from tileops_core.ops import RMSNormFwdOp
from tileops_core.plan.source import LateSource, SourceWriter, compile_source


def lines(text, **names):
    writer = SourceWriter()
    for name, value in names.items():
        writer.use(name, value)
    for line in text.splitlines():
        writer.line(line)
    return writer


@pytest.fixture
def checks():
    return plan("M N", {"x": "[M, 2*N]"}, shape_rules=["M > 1"])


def test_a_traceback_shows_the_generated_line(checks):
    with pytest.raises(SignatureError) as caught:
        facts(checks, {"x": spec(1, 2)})
    shown = "".join(traceback.format_exception(caught.value))
    assert f'File "<tileops plan {OP}>", line ' in shown
    assert "raise _sites[" in shown
    assert ".rule({'M': M})" in shown


def test_a_traceback_shows_the_line_where_a_call_runs():
    op = RMSNormFwdOp((4,))
    with pytest.raises(SignatureError) as caught:
        op(torch.ones(2, 3))
    shown = "".join(traceback.format_exception(caught.value))
    assert 'File "<tileops call RMSNormFwdOp>"' in shown
    assert "return _miss(self, _key, (x, weight, ))" in shown


def test_the_text_stays_when_files_are_checked_for_changes(checks):
    linecache.checkcache()
    assert "".join(linecache.getlines(checks.filename)) == checks.source


def test_the_source_of_a_generated_function_can_be_asked_for(checks):
    source = inspect.getsource(checks.check)
    assert source.startswith("def check(_static, x):")
    assert source in checks.source


def test_a_debugger_lists_and_steps_through_generated_code(checks):
    out = io.StringIO()
    typed = io.StringIO("step\nlist\nstep\nwhere\nquit\n")
    debugger = pdb.Pdb(stdin=typed, stdout=out, nosigint=True)
    debugger.use_rawinput = False
    debugger.runcall(checks.check, statics(checks), spec(2, 4))
    text = out.getvalue()
    assert f"> <tileops plan {OP}>(" in text
    assert "_device = x.device" in text
    assert "def check(_static, x):" in text


def test_the_same_name_compiled_again_replaces_the_text():
    first = compile_source(lines("def f(): return 1"), "<test of a text>")
    second = compile_source(lines("def f():\n    return 2"), "<test of a text>")
    assert (first["f"](), second["f"]()) == (1, 2)
    assert linecache.getline("<test of a text>", 2) == "    return 2\n"


def test_only_functions_of_the_source_itself_come_back():
    functions = compile_source(
        lines("def f(x): return used(x)\ng = used\nh = 3", used=len), "<test of names>"
    )
    assert list(functions) == ["f"]
    assert functions["f"]([1, 2]) == 2


def test_blocks_indent_what_they_hold_and_nothing_after():
    writer = SourceWriter()
    with writer.block("def f(x):"), writer.block("if x:"):
        writer.line("return 1")
    writer.line("y = 2")
    assert writer.text() == "def f(x):\n    if x:\n        return 1\ny = 2\n"


def test_two_sources_do_not_share_their_globals():
    one = compile_source(lines("def f(): return value", value=1), "<test one>")["f"]
    two = compile_source(lines("def f(): return value", value=2), "<test two>")["f"]
    assert (one(), two()) == (1, 2)


def test_a_module_name_says_where_a_function_is_from(checks):
    assert checks.check.__module__ == f"tileops.plan.{OP}"


# -- source that few need ---------------------------------------------------------------------


def test_late_source_is_compiled_when_a_function_is_asked_for():
    filename = "<tileops test of late source>"
    linecache.cache.pop(filename, None)
    late = LateSource(
        lambda: lines("def f():\n    return a\ndef g():\n    return f()", a=7), filename
    )
    assert "def g():" in late.text()
    assert filename not in linecache.cache
    assert late["g"]() == 7
    assert "".join(linecache.getlines(filename)) == late.text()
    assert late["f"] is late["f"]
    assert late["g"].__globals__ is late["f"].__globals__


def test_threads_that_ask_at_once_get_one_function():
    late = LateSource(lambda: lines("def f():\n    pass"), "<tileops test of threads>")
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(lambda _: late["f"], range(64))}) == 1


def test_a_thread_does_not_wait_for_another_that_compiles():
    """A process that is forked meanwhile would wait for ever: nobody compiles there."""
    begun, go_on = threading.Event(), threading.Event()

    def write():
        if threading.current_thread() is thread:
            begun.set()
            assert go_on.wait(20)
        return lines("def f():\n    return 1")

    late, got = LateSource(write, "<tileops test of waiting>"), []
    thread = threading.Thread(target=lambda: got.append(late["f"]), daemon=True)
    other = threading.Thread(target=lambda: got.append(late["f"]), daemon=True)
    thread.start()
    assert begun.wait(20)
    other.start()
    other.join(2)
    assert len(got) == 1
    go_on.set()
    thread.join(20)
    assert got[0] is got[1]
