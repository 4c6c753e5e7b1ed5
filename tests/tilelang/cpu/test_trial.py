"""A compiler is tried before anything is left to it."""

from __future__ import annotations

import os

import pytest
import torch

from tileops_core import BUILTIN, ops
from tileops_core.errors import DispatchError
from tileops_tilelang.cpu import toolchain
from tileops_tilelang.cpu.trial import fault

pytestmark = pytest.mark.usefixtures("compiler", "own_cache")

X = torch.ones(2, 8)


@pytest.fixture
def compiler_that(tmp_path, monkeypatch):
    """Lets CXX name a script; every start of it adds a line to the log it returns."""

    def put(text):
        path, log = tmp_path / "cxx", tmp_path / "log"
        path.write_text(f"#!/bin/sh\necho start >> {log}\n{text}\n")
        path.chmod(0o700)
        monkeypatch.setenv("CXX", str(path))
        return log

    return put


def test_asked_for_by_name_a_compiler_that_fails_refuses_in_its_own_words(compiler_that):
    compiler_that("echo math.h: no such file >&2; exit 1")
    with pytest.raises(DispatchError, match=r"math\.h: no such file") as told:
        ops.RMSNormFwdOp(8, target="tilelang")(X)
    assert "let CXX name another compiler" in str(told.value)


def test_where_nobody_is_named_the_reference_serves_for_a_compiler_that_fails(compiler_that):
    compiler_that("exit 1")
    op = ops.RMSNormFwdOp(8, target=BUILTIN)
    torch.testing.assert_close(op(X), X)
    assert set(op.last_call.served_by.backends.values()) == {"reference"}


def test_a_bad_compiler_is_tried_once_in_a_process_and_again_when_it_changed(compiler_that):
    log = compiler_that("exit 1")
    for _ in range(3):
        assert "ended with 1" in toolchain.missing()
    assert log.read_text().count("start") == 2  # with OpenMP and without
    real = " ".join(toolchain._compiler("c++", os.environ["PATH"]))
    compiler_that(f'exec {real} "$@"')
    assert toolchain.missing() is None


def test_a_good_answer_is_kept_on_the_disk(compiler_that, own_cache):
    from tileops_tilelang.cpu import trial

    real = " ".join(toolchain._compiler("c++", os.environ["PATH"]))
    log = compiler_that(f'exec {real} "$@"')
    for _ in range(3):
        trial._fault.cache_clear()  # as in another process
        assert toolchain.missing() is None
    assert log.read_text().count("start") == 1


def test_where_nothing_can_be_kept_the_answer_is_the_same(compiler_that, monkeypatch, tmp_path):
    real = " ".join(toolchain._compiler("c++", os.environ["PATH"]))
    compiler_that(f'exec {real} "$@"')
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path / "file"))
    assert toolchain.missing() is None


def test_a_compiler_that_is_gone_is_told():
    assert "No such file" in fault(("/no/such/compiler",))


def test_a_compiler_that_makes_nothing_has_failed(compiler_that):
    compiler_that("exit 0")
    assert "ended with 0 and made no library" in toolchain.missing()
    assert "It said nothing." in toolchain.missing()
    assert torch.equal(ops.RMSNormFwdOp(8, target=BUILTIN)(X), X)


def test_a_place_that_cannot_be_looked_at_keeps_nothing(monkeypatch, tmp_path):
    """Too long a name is refused by the system even to the user who may look everywhere."""
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path / ("a" * 300)))
    assert toolchain.missing() is None
    torch.testing.assert_close(ops.RMSNormFwdOp(8, target=BUILTIN)(X), X)


@pytest.mark.parametrize("option", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_an_option_that_would_switch_denormals_off_is_refused(monkeypatch, option):
    real = " ".join(toolchain.compiler())
    monkeypatch.setenv("CXX", f"{real} {option}")
    assert f"CXX asks for {option}" in toolchain.missing()
