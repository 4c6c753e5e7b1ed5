"""What the library's loggers say, to whom, and when they cost nothing."""

from __future__ import annotations

import logging
import re

import pytest
import torch
from call_support import faulty, good, op_class, python, small, target

from tileops_core import BUILTIN
from tileops_core.call import logs, resolve

SECONDS = r"in \d+\.\d{3} s"


def probe(**more):
    """An instance in the short form, with a kernel type ``fast`` of its own and some more."""
    interfaces, fast = faulty.in_tree(good)
    request = interfaces["probe"].request

    def call_spec(self, x):
        return request(device=x.device, dtype=x.dtype, shape=tuple(x.shape))

    kernel_types = {"fast": fast, **{key: type(key, (fast,), body) for key, body in more.items()}}
    return op_class(
        "ProbeFwdOp", interfaces=interfaces, kernel_types=kernel_types, call_spec=call_spec
    )(target=BUILTIN)


def said(caplog, logger):
    return [record.getMessage() for record in caplog.records if record.name == logger]


@pytest.fixture
def tileops_logger():
    """The library's logger, as it was before afterwards."""
    logger = logging.getLogger("tileops")
    level, handlers = logger.level, logger.handlers[:]
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


# -- what is said -------------------------------------------------------------------------------


def test_a_build_names_op_kernel_tensors_device_and_seconds(caplog):
    caplog.set_level(logging.INFO, logger="tileops")
    probe()(small(3, 4))
    (line,) = said(caplog, "tileops.build")
    assert re.fullmatch(
        r"ProbeFwdOp: built kernel 'fast' \(of the op itself\) for x: float32\[3, 4\] on cpu "
        + SECONDS,
        line,
    )


def test_a_targets_build_names_the_target_and_the_tensors_that_were_passed(caplog):
    caplog.set_level(logging.INFO, logger="tileops")
    with target(op="ProbePairFwdOp"):
        op = op_class("ProbePairFwdOp")(target="acme")
        op(small(3, 4))
        op(small(3, 4, dtype=torch.float16), small(3, 4, dtype=torch.float16))
    first, second = said(caplog, "tileops.build")
    begins = r"ProbePairFwdOp: built the kernel of target 'acme' for "
    assert re.fullmatch(f"{begins}x: float32\\[3, 4\\] on cpu {SECONDS}", first)
    assert re.fullmatch(
        f"{begins}x: float16\\[3, 4\\], z: float16\\[3, 4\\] on cpu {SECONDS}", second
    )


def test_a_build_that_a_body_asks_for_names_its_call_spec(caplog):
    """A body may ask for kernels of other tensors than those that the op was called with."""
    caplog.set_level(logging.INFO, logger="tileops")
    op = probe()
    op.kernel_for("probe", op.call_spec(torch.empty(2, 5)))
    (line,) = said(caplog, "tileops.build")
    assert " for ProbeCall(device=cpu, dtype=torch.float32, shape=(2, 5)) on cpu in " in line


def test_a_selection_is_told_with_its_reasons(caplog):
    caplog.set_level(logging.DEBUG, logger="tileops")
    probe()(small(3, 4))
    chosen, kernel = said(caplog, "tileops.select")
    assert chosen == (
        "ProbeFwdOp: BUILTIN serves on cpu: target=BUILTIN was given to the constructor; "
        "in-tree kernels run on cpu"
    )
    assert kernel.startswith("ProbeFwdOp: kernel type 'fast' (of the op itself) for ProbeCall(")
    assert kernel.endswith(": 'fast' (of the op itself): serves this call")


def test_every_kernel_type_that_does_not_serve_is_told_with_its_reason(caplog):
    caplog.set_level(logging.DEBUG, logger="tileops")
    probe(other={"refusal": classmethod(lambda cls, call: "too small")})(small(3, 4))
    _, kernel = said(caplog, "tileops.select")
    assert kernel.endswith("; 'other' (of the op itself): refuses: too small")


# -- when it costs nothing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [lambda op, x: op(x), lambda op, x: op.kernel_for("probe", op.call_spec(x))],
    ids=["call", "kernel_for"],
)
def test_a_hit_says_nothing(caplog, call):
    caplog.set_level(logging.DEBUG, logger="tileops")
    op, x = probe(), small(3, 4)
    call(op, x)
    assert caplog.records
    caplog.clear()
    call(op, x)
    assert caplog.records == []


def test_nothing_is_put_into_words_that_nobody_reads(caplog, monkeypatch):
    caplog.set_level(logging.WARNING, logger="tileops")

    def fail(*_):
        raise AssertionError("in words, for nobody")

    for name in ("_tensors", "_title"):
        monkeypatch.setattr(resolve, name, fail)
    assert torch.equal(probe()(small(3, 4)), good(small(3, 4)))


# -- TILEOPS_LOG ----------------------------------------------------------------------------------

CALL = """
    import torch
    from tileops_core.ops import ReLUFwdOp
    op = ReLUFwdOp(target="reference")
    for _ in range(2):
        op(torch.ones(2, 3))
"""


@pytest.mark.parametrize("value", ["debug", " INFO "])
def test_the_variable_prints_the_log_on_stderr_without_code(value):
    done = python(CALL, TILEOPS_LOG=value)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    builds = [line for line in lines if line.startswith("INFO tileops.build: ReLUFwdOp: built ")]
    selections = [line for line in lines if line.startswith("DEBUG tileops.select: ReLUFwdOp: ")]
    assert len(builds) == 1
    assert len(selections) == (2 if value == "debug" else 0)
    assert lines == [*selections, *builds]


@pytest.mark.parametrize("value", ["", " "])
def test_without_the_variable_nothing_is_changed(tileops_logger, monkeypatch, value):
    before = tileops_logger.level, tileops_logger.handlers[:]
    monkeypatch.setenv("TILEOPS_LOG", value)
    logs.follow_environment()
    assert (tileops_logger.level, tileops_logger.handlers) == before


def test_a_level_that_is_none_is_one_line_that_names_the_levels(
    tileops_logger, monkeypatch, caplog
):
    before = tileops_logger.level, tileops_logger.handlers[:]
    monkeypatch.setenv("TILEOPS_LOG", "inof")
    logs.follow_environment()
    assert said(caplog, "tileops") == [
        "TILEOPS_LOG='inof' is no level (did you mean 'info'?); it takes debug or info"
    ]
    assert (tileops_logger.level, tileops_logger.handlers) == before


def test_a_level_that_is_none_changes_nothing_else_even_where_warnings_are_errors():
    code = "from tileops_core.op import Op"
    done = python(code, PYTHONWARNINGS="error", TILEOPS_LOG="loud")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)


def test_a_second_look_adds_no_second_handler(tileops_logger, monkeypatch):
    monkeypatch.setenv("TILEOPS_LOG", "info")
    logs.follow_environment()
    handlers = tileops_logger.handlers[:]
    logs.follow_environment()
    assert tileops_logger.handlers == handlers
    assert tileops_logger.level == logging.INFO


def test_an_applications_own_handlers_get_the_same_lines(tileops_logger, monkeypatch, caplog):
    monkeypatch.setenv("TILEOPS_LOG", "info")
    logs.follow_environment()
    probe()(small(3, 4))
    assert len(said(caplog, "tileops.build")) == 1
