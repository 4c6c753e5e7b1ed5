"""Building: by the compiler that is named, and when it fails."""

from __future__ import annotations

import logging
import os
import re
import subprocess

import pytest
import torch
from call_support import in_threads

from tileops_core import ops
from tileops_tilelang.cpu import build as module
from tileops_tilelang.cpu import toolchain
from tileops_tilelang.cpu.build import BuildError

pytestmark = pytest.mark.usefixtures("compiler", "own_cache")

X = torch.randn(3, 8)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def at_programs(path, text):
    """A compiler that passes its trial, and then does this instead of compiling."""
    real = " ".join(toolchain.compiler())
    tried = (
        f'for word; do case "$word" in *program.cc) grep -q tileops_trial "$word" && exec {real}'
    )
    return script(path, f'{tried} "$@";; esac; done\n{text}')


def files(directory):
    return list(directory.rglob("*.so"))


@pytest.fixture
def op():
    return ops.SiLUAndMulFwdOp(target="tilelang")


def silu_and_mul(x):
    gate, value = x.chunk(2, 1)
    return torch.nn.functional.silu(gate) * value


def test_cxx_builds_with_all_its_words(op, tmp_path, monkeypatch):
    log, real = tmp_path / "log", " ".join(toolchain.compiler())
    wrapper = script(tmp_path / "wrapper", f'echo "$@" >> {log}\nshift\nexec {real} "$@"')
    monkeypatch.setenv("CXX", f"{wrapper} word -DACME=1")
    torch.testing.assert_close(op(X), silu_and_mul(X))
    lines = log.read_text().splitlines()
    assert len(lines) == 2  # its trial, and the program
    for line in lines:
        assert line.startswith("word -DACME=1 -fopenmp ")
        assert set(toolchain.FLAGS) <= set(line.split())


def test_a_compiler_that_fails_is_quoted_nothing_is_kept_and_a_better_one_works(
    op, tmp_path, monkeypatch, own_cache
):
    """DIS-01."""
    better = " ".join(toolchain.compiler())
    monkeypatch.setenv(
        "CXX", at_programs(tmp_path / "bad", "echo no licence for this host >&2; exit 3")
    )
    for _ in range(2):
        with pytest.raises(BuildError, match="no licence for this host") as told:
            op(X)
        assert "ended with 3; let CXX name another compiler" in str(told.value)
        assert any("SiLUAndMulFwdOp" in note for note in told.value.__notes__)
        assert any("tilelang" in note for note in told.value.__notes__)
        assert files(own_cache) == []
    monkeypatch.setenv("CXX", better)
    torch.testing.assert_close(op(X), silu_and_mul(X))
    assert len(files(own_cache)) == 1


@pytest.mark.parametrize(
    "text", [r"printf '\377\376 bad \200' >&2; exit 1", "exit 1", "kill -9 $$"]
)
def test_whatever_a_compiler_says_is_an_error_of_the_build(op, tmp_path, monkeypatch, text):
    monkeypatch.setenv("CXX", at_programs(tmp_path / "bad", text))
    with pytest.raises(BuildError, match="let CXX name another compiler"):
        op(X)


def test_a_compiler_that_cannot_be_started_is_an_error_of_the_build(tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(b"\x00\x01 no program of this machine")
    path.chmod(0o700)
    with pytest.raises(BuildError, match=rf"{path} cannot be started: .*; let CXX name another"):
        module.compiled((str(path),), "int x;", tmp_path, tmp_path)


def test_a_compiler_that_goes_between_the_look_and_the_build_is_an_error_of_the_build(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError, match="no C\\+\\+ compiler found"):
        module.build("gated:gated", {"dtype": "float32", "function": "silu"})


def test_a_compiler_without_openmp_builds_all_the_same(op, tmp_path, monkeypatch, two_threads):
    real = " ".join(toolchain.compiler())
    text = f'case "$*" in *-fopenmp*) echo no OpenMP >&2; exit 1;; esac\nexec {real} "$@"'
    monkeypatch.setenv("CXX", script(tmp_path / "plain", text))
    x = torch.randn(3000, 64)
    torch.testing.assert_close(op(x), silu_and_mul(x))


def test_what_cannot_be_loaded_is_told_with_what_to_do(op, tmp_path, monkeypatch):
    """A file system that forbids to run files looks like this."""
    text = 'while [ "$1" != -o ]; do shift; done; echo no library > "$2"'
    monkeypatch.setenv("CXX", at_programs(tmp_path / "bad", text))
    with pytest.raises(BuildError, match=r"cannot be loaded: .*TILEOPS_CACHE_DIR"):
        op(X)


def test_a_first_build_is_one_line_of_information_with_its_seconds(op, caplog):
    caplog.set_level(logging.INFO, "tileops")
    op(X)
    op(X)
    (line,) = [record for record in caplog.records if record.levelno == logging.INFO]
    assert line.name.startswith("tileops")
    assert re.search(r"SiLUAndMulFwdOp.*tilelang.*in \d+\.\d+ s", line.getMessage())


def test_threads_that_come_first_together_build_once(monkeypatch, own_cache):
    """PIPE-16: several ops of one program, several shapes."""
    builds, real = [], module.build
    monkeypatch.setattr(module, "build", lambda *args: builds.append(args) or real(*args))
    made = [ops.SiLUAndMulFwdOp(target="tilelang") for _ in range(2)]
    inputs = [torch.randn(rows, 8) for rows in range(1, 9)]
    outcomes = in_threads(*(lambda i=i: made[i % 2](inputs[i]) for i in range(8)))
    for outcome, x in zip(outcomes, inputs, strict=True):
        assert outcome.error is None, outcome.error
        torch.testing.assert_close(outcome.result, silu_and_mul(x))
    assert len(builds) == 1
    assert len(files(own_cache)) == 1


def test_no_build_leaves_files_behind(op, tmp_path, monkeypatch, own_cache):
    """Neither the compiler's nor TileLang's, after a build and after a failure."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    op(X)
    assert files(own_cache)
    assert os.listdir(temporary) == []
    text = 'echo > "$TMPDIR/left"; exit 1'
    monkeypatch.setenv("CXX", at_programs(tmp_path / "bad", text))
    with pytest.raises(BuildError):
        ops.ArgmaxFwdOp(target="tilelang")(X)
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("named", [False, True])
def test_where_tilelang_cannot_make_its_cache_is_built_all_the_same(
    tmp_path, own_cache, python, named
):
    """Its import makes one, in a home that many containers do not have."""
    home = tmp_path / "home"
    home.write_text("no directory")
    said = python(
        """
        import os, torch
        from tileops_core.ops import RMSNormFwdOp

        before = dict(os.environ)
        op = RMSNormFwdOp((4,), target="tilelang")
        print(op(torch.ones(2, 4)).sum().item(), dict(os.environ) == before)
        """,
        HOME=str(home),
        **({"TILELANG_CACHE_DIR": str(home / "cache")} if named else {}),
    )
    assert said.stdout.split() == ["8.0", "True"]


def test_what_the_c_compiler_reads_holds_no_header_of_tilelangs():
    from tileops_tilelang.cpu import source
    from tileops_tilelang.programs.c_schedule import CSchedule
    from tileops_tilelang.programs.gated import gated

    text = source.source(gated(CSchedule(), "float16", function="gelu"))
    assert re.findall(r"#include.*", text) == ['#include "prelude.h"']
    done = subprocess.run(
        [*toolchain.compiler(), "-fsyntax-only", "-xc++", f"-I{source.include_directory()}", "-"],
        input=text.encode(),
        check=False,
    )
    assert done.returncode == 0
