"""What a backend imports: the hook marker, the registrations, and their run-time doors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops_core.lazily import lazily

if TYPE_CHECKING:
    from tileops_core.backend.contract import (
        BuilderRegistration,
        DeviceFactsRegistration,
        DiagnosticRegistration,
        InterfaceRegistration,
        KernelTypeRegistration,
        LoadFailure,
        OracleRegistration,
        TargetRegistration,
        TensorSpec,
    )
    from tileops_core.backend.hookspecs import hookimpl
    from tileops_core.backend.runtime import (
        register_kernel_builder,
        register_kernel_type,
        register_target,
        registered,
        unregister_backend,
    )

__all__ = [
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
]

_HOMES = {
    "BuilderRegistration": "backend.contract",
    "DeviceFactsRegistration": "backend.contract",
    "DiagnosticRegistration": "backend.contract",
    "InterfaceRegistration": "backend.contract",
    "KernelTypeRegistration": "backend.contract",
    "LoadFailure": "backend.contract",
    "OracleRegistration": "backend.contract",
    "TargetRegistration": "backend.contract",
    "TensorSpec": "backend.contract",
    "hookimpl": "backend.hookspecs",
    "register_kernel_builder": "backend.runtime",
    "register_kernel_type": "backend.runtime",
    "register_target": "backend.runtime",
    "registered": "backend.runtime",
    "unregister_backend": "backend.runtime",
}

if not TYPE_CHECKING:  # or a checker would take every name for one that is there
    __getattr__, __dir__ = lazily(__name__, _HOMES)
