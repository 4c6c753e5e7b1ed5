"""Packages import their public names late, and threads may import any of them first."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from pathlib import Path

import pytest
from call_support import python

import tileops_core
from tileops_core.lazily import lazily

LAZY = (
    "tileops_core.backend",
    "tileops_core.kernels",
    "tileops_core.op",
    "tileops_core.record",
    "tileops_core.signature.generators",
    "tileops_core.signature.primitives",
)


def _tree(package):
    return ast.parse(Path(importlib.import_module(package).__file__).read_text(encoding="utf-8"))


def _imports(body):
    """The modules that statements import, without what only a checker reads."""
    for node in body:
        if isinstance(node, ast.ImportFrom):
            yield from (node.module, *(f"{node.module}.{a.name}" for a in node.names))
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, (ast.With, ast.Try)):
            yield from _imports(node.body)


@pytest.mark.parametrize("package", LAZY)
def test_a_package_imports_none_of_its_own_modules(package):
    assert not [name for name in _imports(_tree(package).body) if name.startswith(f"{package}.")]


@pytest.mark.parametrize("package", LAZY)
def test_a_checker_finds_names_where_they_are_found_at_run_time(package):
    (checked,) = (
        n
        for n in _tree(package).body
        if isinstance(n, ast.If) and not n.orelse and (isinstance(n.test, ast.Name))
    )
    found = {
        alias.name: node.module.removeprefix("tileops_core.")
        for node in checked.body
        for alias in node.names
    }
    module = importlib.import_module(package)
    assert found == module._HOMES
    assert sorted(found) == sorted(module.__all__)
    assert set(found) <= set(dir(module))


@pytest.mark.parametrize("package", [*LAZY, "tileops_core"])
def test_no_public_name_is_that_of_a_module(package):
    module = importlib.import_module(package)
    modules = {info.name for info in pkgutil.iter_modules(module.__path__)}
    assert not modules & set(module._HOMES)


def test_a_name_is_imported_once_and_kept(monkeypatch):
    package = type(sys)("made_up")
    monkeypatch.setitem(sys.modules, "made_up", package)
    package.__getattr__, _ = lazily("made_up", {"did_you_mean": "suggest"})
    from tileops_core.suggest import did_you_mean

    assert package.did_you_mean is did_you_mean
    assert vars(package)["did_you_mean"] is did_you_mean


def test_an_unknown_name_is_refused_in_pythons_own_words():
    with pytest.raises(
        AttributeError, match=r"^module 'tileops_core.op' has no attribute 'Opp'"
    ) as e:
        tileops_core.op.Opp  # noqa: B018
    assert (e.value.name, e.value.obj) == ("Opp", tileops_core.op)


RACE = """
import faulthandler, importlib, sys, threading
faulthandler.dump_traceback_later(100, exit=True)
import torch
{first}
sys.setswitchinterval(1e-5)
names = {names}
barrier = threading.Barrier(len(names))
failed = []

def run(name):
    barrier.wait()
    try:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            getattr(module, public)
    except BaseException as error:
        failed.append((name, error))

threads = [threading.Thread(target=run, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
"""
FAMILIES = [f"tileops_core.ops.{f}" for f in importlib.import_module("tileops_core.ops").FAMILIES]
DOORS = [
    "tileops_core",
    "tileops_core.backend",
    "tileops_core.errors",
    "tileops_core.interfaces.norm",
    "tileops_core.kernels",
    "tileops_core.ops",
    "tileops_core.ops.moe",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "names"), [("import tileops_core", FAMILIES), ("", DOORS)], ids=["families", "doors"]
)
def test_threads_may_import_the_library_at_once(first, names):
    done = python(RACE.format(first=first, names=names))
    assert done.returncode == 0, done.stderr
