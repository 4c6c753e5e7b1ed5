"""Programs as functions: from the process, from the disk, or built."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from tileops_tilelang.cpu import build as build_module
from tileops_tilelang.cpu import functions, toolchain

pytestmark = pytest.mark.usefixtures("compiler")

NAME, FACTS = "gated:gated", {"dtype": "float32", "function": "silu"}


@pytest.fixture(scope="module")
def built():
    """What a build of the program gives."""
    return build_module.build(NAME, FACTS)


@pytest.fixture
def builds(built, own_cache, monkeypatch):
    """The builds of a test, which cost nothing and go to a cache of its own."""
    calls = []

    def build(name, facts):
        calls.append((name, facts))
        return built

    monkeypatch.setattr(build_module, "build", build)
    return calls


@pytest.fixture
def fresh():
    """``fresh()`` forgets what this process has loaded, as another process has loaded nothing."""
    before = functions._functions

    def forget():
        functions._functions = type(before)()
        functions._store_in.cache_clear()

    forget()
    yield forget
    functions._functions = before
    functions._store_in.cache_clear()


def works(run):
    x, y = torch.randn(3, 8), torch.full((3, 4), 77.0)
    run(x.data_ptr(), y.data_ptr(), 4, 3, 1)
    gate, value = x.chunk(2, 1)
    torch.testing.assert_close(y, torch.nn.functional.silu(gate) * value)
    return True


def kept(own_cache):
    return list(own_cache.rglob("*.so"))


def test_a_process_loads_a_program_once(builds, fresh):
    run = functions.function(NAME, **FACTS)
    assert functions.function(NAME, **dict(reversed(FACTS.items()))) is run
    assert works(run)
    assert builds == [(NAME, FACTS)]


def test_the_next_process_gets_it_from_the_disk(builds, fresh, own_cache):
    functions.function(NAME, **FACTS)
    fresh()
    assert works(functions.function(NAME, **FACTS))
    assert len(builds) == 1
    assert len(kept(own_cache)) == 1


def rewrite(path, data):
    """In a new file: this process has mapped the old one, which must not change under it."""
    path.unlink()
    path.write_bytes(data)
    path.chmod(0o500)


def cut(path):
    rewrite(path, path.read_bytes()[:1000])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    rewrite(path, data)


def empty(path):
    rewrite(path, b"")


def swap(path):
    """A sound library, of another program."""
    functions.function(NAME, dtype="float32", function="gelu")
    (other,) = set(path.parent.iterdir()) - {path}
    other.replace(path)


def replace_by_a_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [cut, flip, empty, swap, replace_by_a_directory])
def test_what_is_damaged_is_built_again(builds, fresh, own_cache, damage):
    functions.function(NAME, **FACTS)
    (path,) = kept(own_cache)
    damage(path)
    fresh()
    before = len(builds)
    assert works(functions.function(NAME, **FACTS))
    assert builds[before:] == [(NAME, FACTS)]


def test_what_cannot_be_loaded_any_more_is_built_again(builds, fresh, own_cache, caplog, built):
    """What a library is linked with may have gone since: sound, and of no use."""
    key = functions._key(NAME, FACTS)
    about = {"program": NAME, "facts": FACTS, "arguments": built[1]}
    path = functions._store().put(key, b"no library of this machine", about)
    assert works(functions.function(NAME, **FACTS))
    assert len(builds) == 1
    assert f"{path} cannot be loaded and is built again" in caplog.text
    fresh()
    assert works(functions.function(NAME, **FACTS))
    assert len(builds) == 1


def test_another_directory_is_looked_into_when_the_environment_changes(
    builds, fresh, monkeypatch, tmp_path
):
    functions.function(NAME, **FACTS)
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path / "other"))
    functions.function(NAME, **FACTS)
    assert len(builds) == 2


def test_threads_that_come_first_together_build_once(builds, fresh):
    """PIPE-16."""
    gate, runs = threading.Barrier(8), []

    def work():
        gate.wait(30)
        runs.append(functions.function(NAME, **FACTS))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(builds) == 1
    assert len(runs) == 8
    assert len(set(map(id, runs))) == 1


def test_libraries_of_processors_are_apart(builds, fresh, own_cache, monkeypatch):
    functions.function(NAME, **FACTS)
    monkeypatch.setattr(functions, "processor", lambda: "another-0123456789ab")
    fresh()
    functions.function(NAME, **FACTS)
    assert len(builds) == 2
    assert len({path.parent for path in kept(own_cache)}) == 2


def key(**facts):
    return functions._key(NAME, {**FACTS, **facts})


def test_the_key_tells_apart_whatever_a_library_depends_on(monkeypatch):
    keys = {key(), key(dtype="float16"), key(function="gelu"), key(more=True), key(more=False)}
    keys.add(functions._key("norm:rms_norm", FACTS))
    for name, value in (
        ("_tilelang_version", lambda: "9.9"),
        ("_c_library", lambda: "glibc 9.9"),
        ("_sources", lambda: "others"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(functions, name, value)
            keys.add(key())
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "FLAGS", (*toolchain.FLAGS, "-g"))
        keys.add(key())
    assert len(keys) == 10
    assert key() in keys


@pytest.mark.parametrize("changed", ["programs/norm.py", "cpu/prelude.h", "cpu/source.py"])
def test_the_key_changes_with_the_sources(monkeypatch, tmp_path, changed):
    import shutil

    copy = tmp_path / "tileops_tilelang"
    shutil.copytree(functions._PACKAGE, copy)
    before = functions._sources()
    monkeypatch.setattr(functions, "_PACKAGE", copy)
    assert functions._sources.__wrapped__() == before
    with (copy / changed).open("a") as file:
        file.write("\n")
    assert functions._sources.__wrapped__() != before


RACE = """
    import sys, torch
    from tileops_core import ops
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    op = ops.RMSNormFwdOp(8, target="tilelang")
    print("ready", flush=True)
    sys.stdin.readline()
    torch.testing.assert_close(op(x), torch.nn.functional.rms_norm(x, (8,)))
"""


@pytest.mark.slow
def test_processes_that_come_first_together_are_all_right_and_leave_one_file(own_cache):
    import textwrap

    command = [sys.executable, "-c", textwrap.dedent(RACE)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    children = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors
    (path,) = kept(own_cache)
    assert path.suffix == ".so"
    assert Path(path).stat().st_mode & 0o777 == 0o500


def test_the_key_tells_the_compilers_options_apart(monkeypatch):
    real = " ".join(toolchain.compiler())
    before = key()
    monkeypatch.setenv("CXX", f"{real} -O1")
    assert key() != before
