"""The hooks that a backend may implement; each returns data and has no other effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from tileops_core.backend.contract import (
    BuilderRegistration,
    DeviceFactsRegistration,
    DiagnosticRegistration,
    InterfaceRegistration,
    KernelTypeRegistration,
    ManifestPath,
    OracleRegistration,
    Registration,
    TargetRegistration,
)

if TYPE_CHECKING:
    import os

PROJECT = "tileops"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a backend's plugin module as the implementation of the hook of its name."""


@hookspec
def tileops_targets() -> Iterable[TargetRegistration]:  # type: ignore[empty-body]
    """The targets that this backend brings."""


@hookspec
def tileops_kernel_builders() -> Iterable[BuilderRegistration]:  # type: ignore[empty-body]
    """The ops that a target serves whole, each with its builder."""


@hookspec
def tileops_kernel_interfaces() -> Iterable[InterfaceRegistration]:  # type: ignore[empty-body]
    """The call places of ops that this distribution defines."""


@hookspec
def tileops_kernel_types() -> Iterable[KernelTypeRegistration]:  # type: ignore[empty-body]
    """Implementations added to the interfaces of anybody's ops."""


@hookspec
def tileops_device_facts() -> Iterable[DeviceFactsRegistration]:  # type: ignore[empty-body]
    """Readers of device facts, for device types that the core does not know."""


@hookspec
def tileops_oracles() -> Iterable[OracleRegistration]:  # type: ignore[empty-body]
    """Functions that the conformance suite compares with."""


@hookspec
def tileops_diagnostics() -> Iterable[DiagnosticRegistration]:  # type: ignore[empty-body]
    """What `tileops doctor` asks: does this machine have what the backend needs."""


@hookspec
def tileops_manifest_paths() -> Iterable[str | os.PathLike[str]]:  # type: ignore[empty-body]
    """Spec files of ops that this distribution defines, for the command line."""


HOOKS: dict[str, type[Registration]] = {
    "tileops_targets": TargetRegistration,
    "tileops_kernel_builders": BuilderRegistration,
    "tileops_kernel_interfaces": InterfaceRegistration,
    "tileops_kernel_types": KernelTypeRegistration,
    "tileops_device_facts": DeviceFactsRegistration,
    "tileops_oracles": OracleRegistration,
    "tileops_diagnostics": DiagnosticRegistration,
    "tileops_manifest_paths": ManifestPath,
}
"""Every hook, and what it returns many of."""
