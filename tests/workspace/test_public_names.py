"""The public names, pinned: a change here is a change for users and wants a news fragment."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PUBLIC = {
    "tileops_core": [
        "BUILTIN",
        "Op",
        "TensorSpec",
        "backend",
        "checks",
        "default_target",
        "errors",
        "interfaces",
        "kernels",
        "load_failures",
        "manifest_schema",
        "ops",
        "registered_targets",
        "set_backend_order",
        "set_default_target",
    ],
    "tileops_core.backend": [
        "BuilderRegistration",
        "DeviceFactsRegistration",
        "DiagnosticRegistration",
        "InterfaceRegistration",
        "KernelTypeRegistration",
        "LoadFailure",
        "OracleRegistration",
        "TargetRegistration",
        "TensorSpec",
        "hookimpl",
        "register_kernel_builder",
        "register_kernel_type",
        "register_target",
        "registered",
        "unregister_backend",
    ],
    "tileops_core.kernels": [
        "BuildOnce",
        "CallSpec",
        "DeviceFacts",
        "Kernel",
        "KernelInterface",
        "cache_directory",
    ],
    "tileops_core.op": ["Op", "SignatureCall"],
}


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_the_public_names_are_these(module: str) -> None:
    assert sorted(import_module(module).__all__) == PUBLIC[module]


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_name_is_there(module: str) -> None:
    package = import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(package, name)] == []
    assert set(PUBLIC[module]) <= set(dir(package))


def test_importing_the_package_imports_nothing_else_yet() -> None:
    code = (
        "import sys, tileops_core; print(sorted({'torch', 'yaml', 'tilelang'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
