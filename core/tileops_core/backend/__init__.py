"""What a backend imports: the hook marker, the registrations, and their run-time doors."""

from __future__ import annotations

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
