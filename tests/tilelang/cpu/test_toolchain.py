"""Which compiler builds programs, and what a machine without one is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from click.testing import CliRunner

from tileops_core import BUILTIN, ops
from tileops_core.cli import tileops
from tileops_core.errors import DispatchError
from tileops_tilelang.cpu import toolchain


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A directory that is the whole path; ``programs("g++")`` puts a program there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    def put(name, script='for last; do :; done; echo library > "$last"'):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        return str(path)

    return put


def test_the_usual_names_are_looked_for_in_order(programs):
    assert toolchain.compiler() is None
    for name in ("clang++", "g++", "c++"):
        path = programs(name)
        # What is found is kept by the environment, which has to change for another answer.
        toolchain._compiler.cache_clear()
        assert toolchain.compiler() == (path,)


def test_cxx_stands_above_them_words_and_all(programs, monkeypatch):
    programs("g++")
    ccache = programs("ccache")
    monkeypatch.setenv("CXX", "ccache 'my compiler' -m64")
    assert toolchain.compiler() == (ccache, "my compiler", "-m64")
    monkeypatch.setenv("CXX", f"{ccache} g++")
    assert toolchain.compiler() == (ccache, "g++")


@pytest.mark.parametrize(
    "cxx", ["", "  ", "no-such-compiler", "/no/such/compiler -O2", "'g++", '"']
)
def test_a_cxx_that_names_nothing_leaves_the_usual_names(programs, monkeypatch, cxx):
    path = programs("g++")
    monkeypatch.setenv("CXX", cxx)
    assert toolchain.compiler() == (path,)
    assert toolchain.missing() is None


def test_what_is_missing_is_told_with_what_to_do(programs, monkeypatch):
    assert "no C++ compiler found" in toolchain.missing()
    assert "install" in toolchain.missing()
    programs("g++")
    toolchain._compiler.cache_clear()
    assert toolchain.missing() is None
    monkeypatch.setattr(toolchain, "_has_tilelang", lambda: False)
    assert "pip install tilelang" in toolchain.missing()
    monkeypatch.setattr(toolchain.sys, "platform", "darwin")
    assert "on Linux only" in toolchain.missing()


def test_no_flag_changes_arithmetic():
    """-ffast-math would switch denormals off for the whole process."""
    loose = ("fast-math", "unsafe-math", "finite-math", "associative", "reciprocal", "-Ofast")
    assert not [flag for flag in toolchain.FLAGS for word in loose if word in flag]


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)


X = torch.ones(2, 8)


@pytest.mark.usefixtures("no_compiler")
def test_asked_for_by_name_a_missing_compiler_is_an_error_with_the_way_out():
    with pytest.raises(DispatchError, match="RMSNormFwdOp: ") as told:
        ops.RMSNormFwdOp(8, target="tilelang")(X)
    assert toolchain.missing() in str(told.value)
    assert "apt install g++" in str(told.value)


@pytest.mark.usefixtures("no_compiler")
def test_where_nobody_is_named_the_reference_serves_without_a_compiler():
    op = ops.RMSNormFwdOp(8, target=BUILTIN)  # which no target that is installed claims
    torch.testing.assert_close(op(X), X)
    assert set(op.last_call.served_by.backends.values()) == {"reference"}


def doctor(*arguments, **environment):
    return CliRunner(env=environment).invoke(tileops, ["doctor", *arguments])


def test_doctor_tells_a_missing_compiler_and_is_well():
    # In a process of its own: in this one other tests may have left failures, which are told too.
    done = subprocess.run(
        [sys.executable, "-m", "tileops_core", "doctor"],
        env={**os.environ, "PATH": "", "CXX": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tilelang: C++ compiler: no C++ compiler found" in " ".join(done.stdout.split())


@pytest.mark.usefixtures("compiler")
def test_doctor_says_nothing_of_a_compiler_that_is_there():
    assert "C++ compiler" not in doctor().output
    rows = json.loads(doctor("--json").stdout)["backends"]
    (ours,) = [row for row in rows if row["name"] == "tilelang"]
    assert ours["diagnostics"] == [{"name": "C++ compiler", "finding": None}]
