"""What only a process of its own can show."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import tileops_core.backend

GOOD = """
    @hookimpl
    def tileops_targets():
        return [TargetRegistration("acme", lambda device: device.type == "cpu")]

    @hookimpl
    def tileops_kernel_builders():
        return [BuilderRegistration("SumFwdOp", "acme", "acme_kernels:build")]
"""


def test_a_broken_backend_leaves_the_library_usable(site, run) -> None:
    """REG-01; a SystemExit at import reaches nobody"""
    site.distribution("acme", GOOD)
    site.distribution("bad", "import sys; sys.exit(3)")
    site.distribution("worse", "import no_such_module")
    result = run("""
        import torch
        from tileops_core.backend.registry import REGISTRY
        from tileops_core.backend.targets import check_target, select_target
        from tileops_core.errors import UnknownTargetError

        REGISTRY.ensure_loaded()
        chosen = select_target("SumFwdOp", None, torch.device("cpu"), in_tree=lambda backend: False)
        assert chosen.name == "acme"
        causes = {}
        for name in ("bad", "worse"):
            try:
                check_target("SumFwdOp", name)
            except UnknownTargetError as error:
                causes[name] = type(error.__cause__).__name__
        assert causes == {"bad": "SystemExit", "worse": "ModuleNotFoundError"}, causes
    """)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("RuntimeWarning: backend 'bad'") == 1
    assert result.stderr.count("RuntimeWarning: backend 'worse'") == 1


def test_warnings_that_are_errors_stop_the_first_use_only(site, run) -> None:
    site.distribution("acme", GOOD)
    site.distribution("bad", "raise RuntimeError")
    result = run(
        """
        from tileops_core.backend.registry import REGISTRY
        try:
            REGISTRY.ensure_loaded()
        except RuntimeWarning:
            print("warned")
        REGISTRY.ensure_loaded()
        assert "acme" in REGISTRY.target_names()
        """,
        "-W",
        "error::RuntimeWarning",
    )
    assert (result.returncode, result.stdout) == (0, "warned\n"), result.stderr


def test_discovery_starts_no_device_and_imports_no_kernel_code(site, run) -> None:
    """REG-11"""
    site.distribution("acme", GOOD)
    result = run("""
        import sys
        import torch
        from tileops_core.backend.registry import REGISTRY

        REGISTRY.ensure_loaded()
        assert "acme" in REGISTRY.target_names()
        assert not torch.cuda.is_initialized()
        assert not {"tilelang", "triton", "acme_kernels", "yaml"} & set(sys.modules)
    """)
    assert result.returncode == 0, result.stderr


def test_importing_the_facade_reads_no_installed_metadata(run) -> None:
    result = run("""
        import sys, torch
        before = set(sys.modules)
        import tileops_core.backend
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(*sorted(new))
    """)
    assert result.returncode == 0, result.stderr
    assert not set(result.stdout.split()) & {"importlib_metadata", "email", "yaml", "click", "rich"}


OPENED = """
        import os, sys
        opened = []
        def note(event, arguments):
            if event == "open" and "tileops_manifest" in str(arguments[0]):
                opened.append(os.path.basename(str(arguments[0])))
        sys.addaudithook(note)
"""
"""Keeps the names of the manifest's files that the process opens, its code aside."""


def test_a_process_that_only_registers_a_builder_reads_no_entry(run) -> None:
    """Peer fault 17"""
    result = run(f"""{OPENED}
        from tileops_core.backend import register_kernel_builder, register_target
        register_target("acme", lambda device: False)
        register_kernel_builder("RMSNormFwdOp", "acme", lambda *inputs, **params: print)
        assert "yaml" not in sys.modules
        print([name for name in opened if name.endswith((".yaml", ".json"))])
    """)
    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr


def test_an_op_reads_the_entries_of_its_family_and_no_others(run) -> None:
    """Peer fault 17"""
    result = run(f"""{OPENED}
        from tileops_core.ops import RMSNormFwdOp
        RMSNormFwdOp((8,))
        print(*sorted({{name for name in opened if name.endswith(".yaml")}}))
        print([name for name in set(opened) if opened.count(name) > 1 and ".yaml" in name])
    """)
    assert result.returncode == 0, result.stderr
    read, twice = result.stdout.splitlines()
    assert {name.removesuffix(".yaml").partition("_")[0] for name in read.split()} <= {
        "norm",
        "types",
    }
    assert "norm.yaml" in read.split()
    assert twice == "[]"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_use_the_registry(site, run) -> None:
    """REG-11; even when another thread of the parent held its lock at that moment"""
    site.distribution("acme", GOOD)
    result = run("""
        import os, threading
        from tileops_core.backend import register_target
        from tileops_core.backend.registry import REGISTRY

        held, done = threading.Event(), threading.Event()

        def hold():
            with REGISTRY._lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            REGISTRY.ensure_loaded()
            register_target("zoom", print)
            os._exit(0 if {"acme", "zoom"} <= set(REGISTRY.target_names()) else 1)
        assert os.waitpid(child, 0)[1] == 0
        done.set()
        thread.join()
    """)
    assert result.returncode == 0, result.stderr


PLACE = Path(tileops_core.backend.__file__).parent / "registry.py"


@pytest.mark.parametrize("first", ["import tileops_core.backend", ""])
def test_the_registry_under_another_name_is_refused(run, first) -> None:
    """REG-18"""
    result = run(f"""
        {first}
        import importlib.util
        spec = importlib.util.spec_from_file_location("copied.registry", {str(PLACE)!r})
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except ImportError as error:
            print(error)
    """)
    assert "second copy of the registry" in result.stdout, result.stderr
    assert "copied.registry" in result.stdout


def test_another_copy_of_the_package_is_refused(run, tmp_path) -> None:
    """REG-18"""
    shutil.copytree(PLACE.parent.parent, tmp_path / "copy" / "tileops_core")
    result = run(f"""
        import sys
        from tileops_core.backend.registry import REGISTRY
        for name in [name for name in sys.modules if name.startswith("tileops_core")]:
            del sys.modules[name]
        sys.path.insert(0, {str(tmp_path / "copy")!r})
        try:
            import tileops_core.backend
        except ImportError as error:
            print(error)
    """)
    assert "second copy of the registry" in result.stdout, result.stderr
    assert str(PLACE) in result.stdout
    assert str(tmp_path / "copy") in result.stdout


def test_a_reload_keeps_the_registry(run) -> None:
    """REG-18"""
    result = run("""
        import importlib
        from tileops_core.backend import registry, register_target
        register_target("acme", print)
        before = registry.REGISTRY
        assert importlib.reload(registry).REGISTRY is before
        assert "acme" in before.target_names()
    """)
    assert result.returncode == 0, result.stderr
